"""The estimator: scikit-learn's contract over one fitted model and one predictor."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, Self, overload

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel

from gpexperts.answers import JointAnswers
from gpexperts.engines.dask import portable
from gpexperts.engines.dask_types import is_collection
from gpexperts.experts.local import LocalExperts
from gpexperts.explanation import Explanation
from gpexperts.inputs import training_rows
from gpexperts.joint.covariance import predicted_covariance
from gpexperts.lazy import predict_lazily
from gpexperts.parameters import PARAMETERS, RENAMED, documented
from gpexperts.pipeline import fit_model
from gpexperts.predictor import Predictor
from gpexperts.progress import CallbackSupport, reports_progress
from gpexperts.settings import Settings
from gpexperts.updating import Updates

__all__ = ["DistributedGPRegressor", "load"]


@documented
class DistributedGPRegressor(JointAnswers, Updates, CallbackSupport, RegressorMixin, BaseEstimator):
    """Gaussian process regression with local experts, selected for every query.

    The training rows are divided among local GP experts that share one set of hyperparameters. Every query
    also has an expert of its own, on the training rows nearest to it. It is used alone, or its prediction and
    those of the most relevant experts are combined with their correlations. All parameters are keyword-only.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : FittedModel
        The fitted model, frozen.
    kernel_ : Kernel
        The trained kernel: lengths in the units of X, variances in those of y² (for several outputs and a
        named kernel, of the standardised targets). ``kernel=kernel_`` gives the same model again.
    n_experts_ : int
    labels_ : ndarray of int, shape (n,)
        Expert of each training row; −1 for shared rows (GRBCM), −2 for rows held out by `calibrate`, −3 for
        forgotten rows. Not available for large dask collections.
    centroids_ : ndarray of shape (n_experts_, n_features_in_)
    log_marginal_likelihood_value_ : float
        Of the rows that training used last.
    trace_ : list of TraceRow
    choices_ : dict of str to Choice
        What every "auto" was resolved to, with the reason and the scores of the alternatives.
    repairs_ : dict
        Training blocks and experts that needed jitter, and queries whose NPAE system was repaired.

    Examples
    --------
    >>> import numpy as np
    >>> from gpexperts import DistributedGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 1))
    >>> y = np.sin(10 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    >>> model = DistributedGPRegressor(n_experts=4, random_state=0).fit(X, y)
    >>> mean, std = model.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(5)) < 0.1)
    True
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # Checked here: scikit-learn allows no varargs in __init__.
        if args:
            hint = " Write kernel=…" if isinstance(args[0], Kernel) else ""
            raise TypeError(
                f"{cls.__name__} takes keyword arguments only, got {args[0]!r} by position.{hint}"
            )
        for name in kwargs:
            if name in RENAMED and name not in PARAMETERS:
                raise TypeError(f"{cls.__name__} has no parameter {name!r}: {RENAMED[name]}.")
        return super().__new__(cls)

    def __init__(
        self,
        *,
        n_experts: int | str = "auto",
        expert_size: int | str = "auto",
        partition: Any = "auto",
        kernel: Any = "auto",
        optimizer: str | None = "lbfgs",
        n_restarts: int = 0,
        training: str = "auto",
        selection: Any = "auto",
        n_selected: int | float | str = "auto",
        n_neighbors: int | str = "auto",
        aggregation: Any = "npae",
        standardize: bool = True,
        memory_budget: int | str = "auto",
        engine: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        calibrate: str | None = None,
    ) -> None:
        self.n_experts = n_experts
        self.expert_size = expert_size
        self.partition = partition
        self.kernel = kernel
        self.optimizer = optimizer
        self.n_restarts = n_restarts
        self.training = training
        self.selection = selection
        self.n_selected = n_selected
        self.n_neighbors = n_neighbors
        self.aggregation = aggregation
        self.standardize = standardize
        self.memory_budget = memory_budget
        self.engine = engine
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.calibrate = calibrate

    def __setattr__(self, name: str, value: Any) -> None:
        with self._changing_settings() if name in PARAMETERS else nullcontext():
            super().__setattr__(name, portable(value) if name == "engine" else value)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `selection`, `n_selected` and `aggregation` take effect at the next `predict`.

        A parameter of a stage is set by ``set_params(aggregation__nugget=…)``; an attribute of the stage
        object itself is not watched.
        """
        with self._changing_settings():
            super().set_params(**params)
        return self

    @contextmanager
    def _changing_settings(self) -> Iterator[None]:
        """Discard the predictor of the former settings; no other is built from half of the new ones."""
        with self.__dict__.get("_lock") or nullcontext():
            try:
                yield
            finally:
                self.__dict__.pop("_predictor", None)

    # ----------------------------------------------------------------------------------------- fit

    @reports_progress
    def fit(self, X: Any, y: Any) -> Self:
        """Train the shared hyperparameters and divide the rows among experts.

        Parameters
        ----------
        X : array-like of shape (n, d), or dask array or frame with ``engine="dask"``
        y : array-like of shape (n,) or (n, n_outputs)
            Several outputs share the parts and the hyperparameters.

        Returns
        -------
        self
        """
        with self._all_or_nothing():
            settings = Settings.of(self.get_params(deep=False))
            self.__dict__.pop("_recent", None)
            self.__dict__.pop("table_", None)  # what a model file says of the former training table
            rows, one_output = training_rows(self, X, y, settings)
            model = fit_model(rows, settings, one_output=one_output)
            predictor = Predictor.build(model, settings)
            predictor.report_jitter()
            self._lock = self.__dict__.get("_lock") or threading.RLock()
            self.model_, self._predictor = model, predictor
        return self

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the estimator as it was if a fit fails or is interrupted."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    # ------------------------------------------------------------------------------------- predict

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False, latent: bool = False) -> np.ndarray: ...
    @overload
    def predict(
        self, X: Any, return_std: Literal[True], latent: bool = False
    ) -> tuple[np.ndarray, np.ndarray]: ...
    @overload
    def predict(self, X: Any, return_std: bool = False, latent: bool = False, *, return_cov: bool) -> Any: ...
    @reports_progress
    def predict(
        self, X: Any, return_std: bool = False, latent: bool = False, *, return_cov: bool = False
    ) -> Any:
        """Predict at new inputs.

        Parameters
        ----------
        X : array-like of shape (n, d)
            For a model on a cluster also a dask array or frame; the result is then lazy.
        return_std : bool
            Whether to return standard deviations too.
        latent : bool
            Whether they are those of the noise-free function instead of a new observation. Only the latter
            are changed by ``calibrate="scale"``.
        return_cov : bool
            Whether to return the covariance of the prediction errors instead: for NPAE and the own expert.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, n_outputs)
        std : ndarray of the same shape, if `return_std`
        cov : ndarray of shape (n, n) or (n, n, n_outputs), if `return_cov`

        Raises
        ------
        MemoryBudgetError
            If the covariances do not fit the memory budget; `predict_sum` needs no matrix.
        """
        predictor = self.predictor_
        if not return_cov:
            return self._predicted(predictor, X, return_std=return_std, latent=latent)
        if return_std:
            raise RuntimeError(
                "return_std and return_cov cannot both be True. The standard deviations are the square "
                "roots of the diagonal of the covariance."
            )
        mean, covariance = predicted_covariance(predictor, self._queries(X), latent)
        return predictor.model.shaped(mean), predictor.model.shaped(covariance)

    def _predicted(self, predictor: Predictor, X: Any, *, return_std: bool, latent: bool = False) -> Any:
        model = predictor.model
        if is_collection(X) and not isinstance(model.experts, LocalExperts):
            names = getattr(self, "feature_names_in_", None)
            known = None if names is None else [str(name) for name in names]
            return predict_lazily(predictor, X, known, return_std=return_std, latent=latent)
        mean, std = predictor.predict(self._queries(X), return_std=return_std, latent=latent)
        return (model.shaped(mean), model.shaped(std)) if return_std else model.shaped(mean)

    @reports_progress
    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that contain a new observation with the given probability.

        They are mean ± width · std. Without `calibrate` the width is a quantile of |y − mean| / std of the
        held-out rows that chose the experts (that of a Gaussian where there are too few of them). With
        ``"scale"`` it is that of a Gaussian. With ``"conformal"`` it is a quantile for rows that nothing else
        has used: the probability then holds for any model, on average over new rows that are drawn like the
        training rows. With ``"jackknife"`` it is a quantile for training rows, each predicted without it.

        Parameters
        ----------
        X : array-like of shape (n, d)
        level : float
            The probability, strictly between 0 and 1.

        Returns
        -------
        lower, upper : ndarray of shape (n,) or (n, n_outputs)

        Raises
        ------
        TooFewRowsError
            With ``calibrate="conformal"``, if fewer than level / (1 − level) rows were held out.
        """
        predictor = self.predictor_  # one for width, mean and std
        width = predictor.interval_width(level)
        mean, std = self._predicted(predictor, X, return_std=True)
        return mean - width * std, mean + width * std

    def interval_width(self, level: float = 0.95) -> Any:
        """Return half the width of an interval, a number or (n_outputs,), in units of the predicted std."""
        return self.predictor_.interval_width(level)

    def select(self, X: Any) -> np.ndarray:
        """Return the selected experts of each query, best first.

        Returns
        -------
        index : ndarray of int, shape (n, K)
            −1 pads where K varies.
        """
        return self.predictor_.select(self._queries(X))

    @reports_progress
    def explain(self, X: Any) -> Explanation:
        """Return the selected experts of each query, their predictions, and their weights.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        Explanation
        """
        return self.predictor_.explain(self._queries(X))


def load(path: str | os.PathLike[str]) -> DistributedGPRegressor:
    """Read the model of a file that `DistributedGPRegressor.save` has written; never runs code of the file.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged, or comes from a newer version.
    """
    from gpexperts.io import load_model

    return load_model(DistributedGPRegressor, path)

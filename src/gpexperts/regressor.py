"""The estimator: scikit-learn's contract over one fitted model and one predictor."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Self

from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel

from gpexperts.answers import JointAnswers
from gpexperts.callbacks import CallbackSupport
from gpexperts.engines import blas_threads
from gpexperts.engines.dask import portable
from gpexperts.inputs import training_rows
from gpexperts.parameters import PARAMETERS, RENAMED, documented
from gpexperts.pipeline import fit_model
from gpexperts.predictor import Predictor
from gpexperts.progress import reports_progress
from gpexperts.settings import Settings
from gpexperts.updating import Updates

__all__ = ["DistributedGPRegressor", "load"]


@documented(PARAMETERS)
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
        Expert of each training row; −1 for shared rows (GRBCM), −2 for rows held out by `calibrate`, −3
        for rows of weight 0 and forgotten rows. Not available for large dask collections.
    centroids_ : ndarray of shape (n_experts, d)
        In the encoded inputs: d is `n_features_in_` unless there are categories, gaps or dates.
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
        categorical_features: Any = "from_dtype",
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
        noise: str = "auto",
        target_transform: Any = None,
        trend: Any = "auto",
        trend_role: str = "auto",
    ) -> None:
        self.n_experts = n_experts
        self.expert_size = expert_size
        self.partition = partition
        self.kernel = kernel
        self.categorical_features = categorical_features
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
        self.noise = noise
        self.target_transform = target_transform
        self.trend = trend
        self.trend_role = trend_role

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
    def fit(self, X: Any, y: Any, sample_weight: Any = None, noise_std: Any = None) -> Self:
        """Train the shared hyperparameters and divide the rows among experts.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d), or dask array or frame with ``engine="dask"``
            Data frames are those of pandas, polars and pyarrow. Categories, text, booleans, dates and gaps
            are encoded; see `categorical_features`.
        y : array-like of shape (n,) or (n, n_outputs)
            Several outputs share the parts and the hyperparameters.
        sample_weight : array-like of shape (n,), optional
            Weight of each row, by which its noise variance is divided: at given hyperparameters
            (``optimizer=None``), a row of weight 2 counts as the row twice. A row of weight 0 is left out.
            If hyperparameters are learned, weights are first divided by their mean, so that only their
            ratios matter, and the learned noise is that of a row of average weight.
        noise_std : array-like of shape (n,), optional
            Known standard deviation of the error of each target, in the units of y. Its square is added to
            the noise variance that is learned. For one output; for arrays and ``standardize=False``
            also for several outputs of one unit. Predictions are for a new observation without such an error.

        Returns
        -------
        self
        """
        with self._all_or_nothing(), blas_threads(1):
            settings = Settings.of(self.get_params(deep=False))
            self.__dict__.pop("_recent", None)
            self.__dict__.pop("table_", None)  # what a model file says of the former training table
            given = training_rows(self, X, y, settings, sample_weight, noise_std)
            model = fit_model(
                given.rows,
                settings,
                one_output=given.one_output,
                encoder=given.encoder,
                kept=given.kept,
                n_given=given.n,
            )
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


def load(path: str | os.PathLike[str]) -> DistributedGPRegressor:
    """Read the model of a file that `DistributedGPRegressor.save` has written; never runs code of the file.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged, or comes from a newer version.
    """
    from gpexperts.io import load_model

    return load_model(DistributedGPRegressor, path)

"""The estimator: scikit-learn's contract over one fitted model and one predictor."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, Self, overload

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted, validate_data

from gpexperts.choices import Choice
from gpexperts.engines.dask import DaskEngine, portable
from gpexperts.engines.dask_types import is_collection
from gpexperts.experts.local import LocalExperts
from gpexperts.explanation import Explanation
from gpexperts.kernels.raw import kernel_in_user_units
from gpexperts.lazy import predict_lazily
from gpexperts.model import FittedModel
from gpexperts.pipeline import fit_model
from gpexperts.predictor import Predictor
from gpexperts.progress import CallbackSupport, reports_progress
from gpexperts.rows.arrays import ArrayRows
from gpexperts.rows.base import SAMPLE_ROWS, RowSource
from gpexperts.rows.dask import DaskRows
from gpexperts.settings import PARAMETERS, RENAMED, Settings, documented
from gpexperts.training.likelihood import TraceRow

__all__ = ["DistributedGPRegressor", "load"]


@documented
class DistributedGPRegressor(CallbackSupport, RegressorMixin, BaseEstimator):
    """Gaussian process regression with local experts, selected for every query.

    The training rows are divided among local GP experts that share one set of hyperparameters. For every
    query, the most relevant experts are selected and their predictions are combined with their
    correlations. All parameters are keyword-only.

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
        Expert of each training row; −1 for the rows that GRBCM shares, −2 for those that `calibrate` holds
        out. Not available for large dask collections.
    centroids_ : ndarray of shape (n_experts_, n_features_in_)
        Mean input of each expert.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had column names.
    log_marginal_likelihood_value_ : float
        Of the rows that training used last.
    trace_ : list of TraceRow
        The steps of training.
    choices_ : dict of str to Choice
        What every "auto" was resolved to, with the reason and the scores of the alternatives.
    repairs_ : dict
        Numerical repairs: training blocks and experts that needed jitter, and queries whose NPAE system
        was repaired.

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

    model_: FittedModel
    _predictor: Predictor | None
    _lock: threading.RLock

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # Checked here: scikit-learn allows no varargs in __init__.
        if args:
            hint = " Write kernel=…" if isinstance(args[0], Kernel) else ""
            raise TypeError(
                f"{cls.__name__} takes keyword arguments only, got {args[0]!r} by position.{hint or ''}"
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
        super().__setattr__(name, portable(value) if name == "engine" else value)
        if name in PARAMETERS:
            self.__dict__.pop("_predictor", None)  # it holds the former settings

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `selection`, `n_selected` and `aggregation` take effect at the next `predict`."""
        super().set_params(**params)
        self.__dict__.pop("_predictor", None)  # parameters of a stage may have changed
        return self

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
            self.__dict__.pop("table_", None)  # what a model file says of the former training table
            rows, one_output = self._rows(X, y, settings)
            self.model_ = fit_model(rows, settings, one_output=one_output)
            self._lock = threading.RLock()
            self._predictor = Predictor.build(self.model_, settings)
            self._predictor.report_jitter()
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

    def _rows(self, X: Any, y: Any, settings: Settings) -> tuple[RowSource, bool]:
        """Validate the training rows; also return whether y has one dimension."""
        if is_collection(X):
            if not isinstance(settings.engine, DaskEngine):
                raise ValueError(
                    f"X is a {type(X).__module__.partition('.')[0]} collection, but engine={self.engine!r}. "
                    "Use engine='dask' to fit it on a cluster, or load it with X.compute()."
                )
            rows, names, one_output = DaskRows.of(settings.engine, X, y)
            if rows.n > SAMPLE_ROWS:
                self.n_features_in_ = rows.n_features
                self.__dict__.pop("feature_names_in_", None)
                if names is not None:
                    self.feature_names_in_ = np.array(names, dtype=object)
                return rows, one_output
            _, X, y = rows.take(np.arange(rows.n))
            X, y = _named(X, names), y[:, 0] if one_output else y
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64, order="C")
        return ArrayRows(X, np.asarray(y, dtype=np.float64).reshape(len(y), -1)), y.ndim == 1

    # ------------------------------------------------------------------------------------- predict

    @property
    def predictor_(self) -> Predictor:
        """The predictor for the current settings; built when they have changed."""
        check_is_fitted(self)
        # Read once: another thread may change the settings meanwhile.
        predictor = self.__dict__.get("_predictor")
        if predictor is not None:
            return predictor
        with self._lock:
            predictor = self.__dict__.get("_predictor")
            if predictor is None:
                settings = Settings.of(self.get_params(deep=False))
                predictor = self._predictor = Predictor.build(self.model_, settings)
        return predictor

    def _queries(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if is_collection(X):
            raise ValueError(
                "X is a dask collection, but the experts are in this process. Load it with X.compute(), or "
                "predict each of its partitions."
            )
        return validate_data(self, X, reset=False, dtype=np.float64, order="C", ensure_min_samples=0)

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False, latent: bool = False) -> np.ndarray: ...
    @overload
    def predict(
        self, X: Any, return_std: Literal[True], latent: bool = False
    ) -> tuple[np.ndarray, np.ndarray]: ...
    @reports_progress
    def predict(
        self, X: Any, return_std: bool = False, latent: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
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

        Returns
        -------
        mean : ndarray of shape (n,) or (n, n_outputs)
        std : ndarray of the same shape, if `return_std`
        """
        predictor = self.predictor_
        if is_collection(X) and not isinstance(self.model_.experts, LocalExperts):
            names = getattr(self, "feature_names_in_", None)
            known = None if names is None else [str(name) for name in names]
            return predict_lazily(predictor, X, known, return_std=return_std, latent=latent)
        mean, std = predictor.predict(self._queries(X), return_std=return_std, latent=latent)
        shaped = predictor.model.shaped
        return (shaped(mean), shaped(std)) if return_std else shaped(mean)

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that contain a new observation with the given probability.

        Without `calibrate` and with ``"scale"`` they are the central intervals of the Gaussian that `predict`
        gives. With ``"conformal"`` the probability holds for any model, on average over new rows that are
        drawn like the training rows.

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
        width = self.interval_width(level)
        mean, std = self.predict(X, return_std=True)
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

    # ----------------------------------------------------------------------------- fitted attributes

    @property
    def kernel_(self) -> Kernel:
        """The trained kernel, in the user's units."""
        model = self._fitted("kernel_")
        return kernel_in_user_units(model.covariance, model.x_scale, model.y_scale)

    @property
    def n_experts_(self) -> int:
        """Number of experts."""
        return self._fitted("n_experts_").experts.n_experts

    @property
    def labels_(self) -> np.ndarray:
        """Expert of each training row."""
        labels = self._fitted("labels_").labels
        if labels is None:
            raise AttributeError("labels_ is not available: the training rows are on a cluster.")
        return labels

    @property
    def centroids_(self) -> np.ndarray:
        """Mean input of each expert."""
        model = self._fitted("centroids_")
        return model.x_scale.restore(model.centroids)

    @property
    def trace_(self) -> list[TraceRow]:
        """The steps of training."""
        return list(self._fitted("trace_").trace)

    @property
    def log_marginal_likelihood_value_(self) -> float:
        """Log marginal likelihood of the rows that training used last."""
        return self._fitted("log_marginal_likelihood_value_").trace[-1].log_marginal_likelihood

    @property
    def choices_(self) -> dict[str, Choice]:
        """What every "auto" was resolved to, and why."""
        return {**self._fitted("choices_").choices, **self.predictor_.choices}

    @property
    def repairs_(self) -> dict[str, Any]:
        """Counts of numerical repairs."""
        model = self._fitted("repairs_")
        return {
            "training_blocks_with_jitter": model.trace[-1].jittered,
            "experts_with_jitter": dict(model.experts.jitter),
            "queries_repaired": self.predictor_.queries_repaired,
        }

    def _fitted(self, name: str) -> FittedModel:
        if "model_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r} before fit.")
        return self.model_

    # ---------------------------------------------------------------------------------- elsewhere

    def save(self, path: str | os.PathLike[str], *, include_factors: bool = False) -> int:
        """Save the fitted model to one file, which `gpexperts.load` reads and which cannot run code.

        Parameters
        ----------
        path : str or path-like
            By custom it ends in ``.gpx``. A failed write leaves the former file as it was.
        include_factors : bool
            Whether to store the experts' Cholesky factors too, up to the memory budget: the file grows by
            8·Σ m_i² bytes, and the loaded model need not compute them at its first predictions. The experts
            of a cluster are gathered to the client for that; otherwise their rows are written in batches.

        Returns
        -------
        size : int
            Bytes of the file.

        Raises
        ------
        UnsavableModelError
            If a part of the model is a class of the user's own, by name; skops can save such models.
        """
        from gpexperts.io import save_model  # late: it imports every class that a file may hold

        check_is_fitted(self)
        return save_model(self, path, include_factors=include_factors)

    def to_local(self) -> Self:
        """Return this model with its experts in this process, if it was fitted on a cluster.

        All training rows are gathered to the client, so they must fit into memory.

        Returns
        -------
        model : DistributedGPRegressor
            With ``engine=None``; this one is left as it is.
        """
        check_is_fitted(self)
        model = copy.copy(self)
        model.engine = None
        return model

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_lock", None)
        if "model_" in state:
            state.update(self._local_state())
        return state

    def _local_state(self) -> dict[str, Any]:
        """The model with all experts in this process, and what its predictor has learned."""
        predictor = self.predictor_
        model = predictor.model
        if not isinstance(model.experts, LocalExperts):  # futures cannot be pickled
            experts = model.experts.to_local(predictor.settings.factor_budget)
            model = replace(model, experts=experts)
        return {"model_": model, "_predictor": predictor.learned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "model_" in self.__dict__:
            self._lock = threading.RLock()
            learned = self.__dict__.pop("_predictor")
            settings = Settings.of(self.get_params(deep=False))
            self._predictor = Predictor.restored(self.model_, settings, learned)


def load(path: str | os.PathLike[str]) -> DistributedGPRegressor:
    """Read a model that `DistributedGPRegressor.save` has written; never runs code of the file.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    model : DistributedGPRegressor

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged, or comes from a newer version.
    """
    from gpexperts.io import load_model

    return load_model(DistributedGPRegressor, path)


def _named(X: np.ndarray, names: list[str] | None) -> Any:
    if names is None:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=names)

"""From what the user passes to `fit` to a row source: the checks of arrays and of dask collections."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import validate_data

from gpexperts.engines.dask import DaskEngine
from gpexperts.engines.dask_types import is_collection
from gpexperts.rows.arrays import ArrayRows
from gpexperts.rows.base import SAMPLE_ROWS, RowSource
from gpexperts.rows.dask import DaskRows
from gpexperts.rows.noise import checked_noise
from gpexperts.settings import Settings

__all__ = ["TrainingRows", "training_rows"]


class TrainingRows(NamedTuple):
    """What `fit` was given, checked."""

    rows: RowSource
    """Those of positive weight."""
    one_output: bool
    """Whether y has one dimension."""
    kept: np.ndarray | None
    """Numbers of the rows of positive weight; None if that are all, or if it is not known on a cluster."""
    n: int
    """Rows that were given."""


def training_rows(
    estimator: Any, X: Any, y: Any, settings: Settings, sample_weight: Any = None, noise_std: Any = None
) -> TrainingRows:
    """Validate the training rows.

    Parameters
    ----------
    estimator : DistributedGPRegressor
        Gets `n_features_in_` and, where X has column names, `feature_names_in_`.
    X, y : array-like, or dask array or frame
    settings : Settings
    sample_weight, noise_std : array-like of shape (n,) or None
    """
    if is_collection(X):
        if not isinstance(settings.engine, DaskEngine):
            raise ValueError(
                f"X is a dask collection, but engine={settings['engine']!r}. "
                "Use engine='dask' to fit it on a cluster, or load it with X.compute()."
            )
        rows, names, one_output = DaskRows.of(settings.engine, X, y, sample_weight, noise_std)
        if rows.n > SAMPLE_ROWS:
            estimator.n_features_in_ = rows.n_features
            estimator.__dict__.pop("feature_names_in_", None)
            if names is not None:
                estimator.feature_names_in_ = np.array(names, dtype=object)
            return TrainingRows(rows, one_output, None, rows.n)
        _, X, y, noise = rows.take(np.arange(rows.n))
        X, y = _named(X, names), y[:, 0] if one_output else y
        X, y = _checked(estimator, X, y)
        return TrainingRows(ArrayRows(X, y.reshape(len(y), -1), noise), one_output, None, rows.n)
    if is_collection(y):
        raise ValueError(
            "y is a dask collection, but X is not. Load it with y.compute(), or give both as collections "
            "with engine='dask'."
        )
    X, y = _checked(estimator, X, y)
    n, one_output = len(y), y.ndim == 1
    y = y.reshape(n, -1)
    noise, kept = checked_noise(sample_weight, noise_std, n, y.shape[1])
    if kept is not None:
        if len(kept) == 0:
            raise ValueError(
                "Sample weights must contain at least one non-zero number: sample_weight is 0 for every row."
            )
        X, y = X[kept], y[kept]
    return TrainingRows(ArrayRows(X, y, noise), one_output, kept, n)


def _checked(estimator: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    X, y = validate_data(estimator, X, y, multi_output=True, y_numeric=True, dtype=np.float64, order="C")
    return X, np.asarray(y, dtype=np.float64)


def _named(X: np.ndarray, names: list[str] | None) -> Any:
    if names is None:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=names)

"""From what the user passes to `fit` to a row source: the checks of arrays and of dask collections."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from gpexperts.engines.dask import DaskEngine
from gpexperts.engines.dask_types import is_collection
from gpexperts.rows.arrays import ArrayRows
from gpexperts.rows.base import SAMPLE_ROWS, RowSource
from gpexperts.rows.dask import DaskRows
from gpexperts.settings import Settings

__all__ = ["training_rows"]


def training_rows(estimator: Any, X: Any, y: Any, settings: Settings) -> tuple[RowSource, bool]:
    """Validate the training rows.

    Parameters
    ----------
    estimator : DistributedGPRegressor
        Gets `n_features_in_` and, where X has column names, `feature_names_in_`.
    X, y : array-like, or dask array or frame
    settings : Settings

    Returns
    -------
    rows : RowSource
    one_output : bool
        Whether y has one dimension.
    """
    if is_collection(X):
        if not isinstance(settings.engine, DaskEngine):
            raise ValueError(
                f"X is a dask collection, but engine={settings['engine']!r}. "
                "Use engine='dask' to fit it on a cluster, or load it with X.compute()."
            )
        rows, names, one_output = DaskRows.of(settings.engine, X, y)
        if rows.n > SAMPLE_ROWS:
            estimator.n_features_in_ = rows.n_features
            estimator.__dict__.pop("feature_names_in_", None)
            if names is not None:
                estimator.feature_names_in_ = np.array(names, dtype=object)
            return rows, one_output
        _, X, y = rows.take(np.arange(rows.n))
        X, y = _named(X, names), y[:, 0] if one_output else y
    elif is_collection(y):
        raise ValueError(
            "y is a dask collection, but X is not. Load it with y.compute(), or give both as collections "
            "with engine='dask'."
        )
    X, y = validate_data(estimator, X, y, multi_output=True, y_numeric=True, dtype=np.float64, order="C")
    return ArrayRows(X, np.asarray(y, dtype=np.float64).reshape(len(y), -1)), y.ndim == 1


def _named(X: np.ndarray, names: list[str] | None) -> Any:
    if names is None:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=names)

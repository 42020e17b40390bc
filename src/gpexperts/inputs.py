"""From what the user passes to a row source or to queries: checks of arrays, data frames and collections."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_X_y
from sklearn.utils.validation import validate_data

from gpexperts.columns.encoder import ColumnEncoder, profile_columns
from gpexperts.columns.frames import frame_of, is_frame
from gpexperts.columns.profile import Categorical
from gpexperts.engines.dask import DaskEngine
from gpexperts.engines.dask_types import is_collection
from gpexperts.rows.arrays import ArrayRows
from gpexperts.rows.base import SAMPLE_ROWS, RowSource
from gpexperts.rows.dask import DaskRows
from gpexperts.settings import Settings

__all__ = ["TrainingRows", "query_inputs", "training_rows"]

_CHECKS = {"dtype": np.float64, "order": "C", "ensure_all_finite": "allow-nan"}


class TrainingRows(NamedTuple):
    """Training rows, encoded."""

    rows: RowSource
    one_output: bool
    """Whether y has one dimension."""
    encoder: ColumnEncoder


def training_rows(estimator: Any, X: Any, y: Any, settings: Settings) -> TrainingRows:
    """Validate and encode the training rows.

    Parameters
    ----------
    estimator : DistributedGPRegressor
        Gets `n_features_in_` and, where X has column names, `feature_names_in_`.
    X, y : array-like or data frame, or dask array or frame
    settings : Settings
    """
    categorical: Categorical = settings["categorical_features"]
    if is_collection(X):
        return _collection(estimator, X, y, settings)
    if is_collection(y):
        raise ValueError(
            "y is a dask collection, but X is not. Load it with y.compute(), or give both as collections "
            "with engine='dask'."
        )
    if is_frame(X):
        validate_data(estimator, X, skip_check_array=True)  # names and number of columns
        encoder = _encoder(X, categorical)
        Z = encoder.encoded(X)[0]
        Z, y = check_X_y(Z, y, multi_output=True, y_numeric=True, order="C", estimator=estimator)
    else:
        dtype = None if _may_hold_text(categorical) else np.float64
        X, y = validate_data(
            estimator, X, y, multi_output=True, y_numeric=True, **{**_CHECKS, "dtype": dtype}
        )
        encoder = _encoder(X, None if isinstance(categorical, str) else categorical)
        Z = encoder.encoded(X)[0]
    return TrainingRows(ArrayRows(Z, _columns(y)), np.ndim(y) == 1, encoder)


def query_inputs(estimator: Any, X: Any) -> np.ndarray:
    """Validate and encode queries, for an estimator that was fitted; returns (n, encoder.width)."""
    encoder = estimator.model_.encoder
    if is_frame(X):
        validate_data(estimator, X, reset=False, skip_check_array=True)
    else:
        dtype = np.float64 if all(c.kind in ("number", "empty") for c in encoder.columns) else None
        checks = {**_CHECKS, "dtype": dtype}
        X = validate_data(estimator, X, reset=False, ensure_min_samples=0, **checks)
    return np.asarray(encoder.transform(X))


def _encoder(X: Any, categorical: Categorical) -> ColumnEncoder:
    frame = frame_of(X)
    if not frame.names or not frame.n_rows:
        check_X_y(
            np.empty((frame.n_rows, len(frame.names))), np.empty(frame.n_rows)
        )  # scikit-learn's messages
    return ColumnEncoder.of(profile_columns(frame, categorical))


def _may_hold_text(categorical: Categorical) -> bool:
    return not (categorical is None or isinstance(categorical, str))


def _columns(y: Any) -> np.ndarray:
    return np.asarray(y, dtype=np.float64).reshape(len(y), -1)


def _collection(estimator: Any, X: Any, y: Any, settings: Settings) -> TrainingRows:
    if not isinstance(settings.engine, DaskEngine):
        raise ValueError(
            f"X is a dask collection, but engine={settings['engine']!r}. "
            "Use engine='dask' to fit it on a cluster, or load it with X.compute()."
        )
    rows, encoder, names, one_output = DaskRows.of(settings.engine, X, y, settings["categorical_features"])
    estimator.n_features_in_ = encoder.n_features
    estimator.__dict__.pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    source: RowSource = rows
    if rows.n <= SAMPLE_ROWS:
        _, Z, targets = rows.take(np.arange(rows.n))
        Z, targets = check_X_y(Z, targets, multi_output=True, y_numeric=True, order="C", estimator=estimator)
        source = ArrayRows(Z, targets)
    return TrainingRows(source, one_output, encoder)

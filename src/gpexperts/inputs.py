"""From what the user passes to a row source or to queries: checks of arrays, data frames and collections."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_X_y
from sklearn.utils.validation import validate_data

from gpexperts.columns.encoder import ColumnEncoder, profile_columns
from gpexperts.columns.frames import frame_of, is_frame, rows_of
from gpexperts.columns.profile import Categorical
from gpexperts.engines.dask import DaskEngine
from gpexperts.engines.dask_types import is_collection
from gpexperts.rows.arrays import ArrayRows
from gpexperts.rows.base import SAMPLE_ROWS, RowSource
from gpexperts.rows.dask import DaskRows
from gpexperts.rows.noise import checked_noise
from gpexperts.settings import Settings

__all__ = ["TrainingRows", "new_rows", "query_inputs", "training_rows"]

_CHECKS = {"dtype": np.float64, "order": "C", "ensure_all_finite": "allow-nan"}
_TARGETS = {"multi_output": True, "y_numeric": True}


class TrainingRows(NamedTuple):
    """What `fit` was given, checked and encoded."""

    rows: RowSource
    """Those of positive weight."""
    one_output: bool
    """Whether y has one dimension."""
    encoder: ColumnEncoder
    kept: np.ndarray | None
    """Numbers of the rows of positive weight; None if that are all, or if it is not known on a cluster."""
    n: int
    """Rows that were given."""


def training_rows(
    estimator: Any, X: Any, y: Any, settings: Settings, sample_weight: Any = None, noise_std: Any = None
) -> TrainingRows:
    """Validate and encode the training rows.

    Parameters
    ----------
    estimator : DistributedGPRegressor
        Gets `n_features_in_` and, where X has column names, `feature_names_in_`.
    X, y : array-like or data frame, or dask array or frame
    settings : Settings
    sample_weight, noise_std : array-like of shape (n,) or None
    """
    categorical: Categorical = settings["categorical_features"]
    if is_collection(X):
        return _collection(estimator, X, y, settings, sample_weight, noise_std)
    if is_collection(y):
        raise ValueError(
            "y is a dask collection, but X is not. Load it with y.compute(), or give both as collections "
            "with engine='dask'."
        )
    if is_frame(X):
        validate_data(estimator, X, skip_check_array=True)  # names and number of columns
        n, d = X.shape
        # scikit-learn's checks of the shapes, and of y.
        _, y = check_X_y(np.zeros((n, min(d, 1))), y, estimator=estimator, **_TARGETS)
    else:
        # Without a chosen column, all are numbers: only these may hold text.
        dtype = None if isinstance(categorical, list) else np.float64
        X, y = validate_data(estimator, X, y, **_TARGETS, **{**_CHECKS, "dtype": dtype})
        categorical = None if isinstance(categorical, str) else categorical
    n, one_output = len(y), y.ndim == 1
    y = np.asarray(y, dtype=np.float64).reshape(n, -1)
    outputs = y.shape[1] if settings["standardize"] else 1  # which then share a unit
    noise, kept = checked_noise(sample_weight, noise_std, n, outputs)
    if kept is not None:
        if len(kept) == 0:
            raise ValueError(
                "Sample weights must contain at least one non-zero number: sample_weight is 0 for every row."
            )
        X, y = rows_of(X, kept), y[kept]
    encoder = ColumnEncoder.of(profile_columns(frame_of(X), categorical))
    return TrainingRows(ArrayRows(encoder.encoded(X)[0], y, noise), one_output, encoder, kept, n)


def query_inputs(estimator: Any, X: Any) -> np.ndarray:
    """Validate and encode queries, for an estimator that was fitted; returns (n, encoder.width)."""
    encoder = estimator.model_.encoder
    return np.asarray(encoder.transform(_checked_queries(estimator, X, encoder, 0)))


def _checked_queries(estimator: Any, X: Any, encoder: ColumnEncoder, least: int) -> Any:
    """Return a table, or an array, with the columns of the training rows and at least so many rows."""
    if _is_checked(X, estimator, least):
        return X
    if is_frame(X):
        validate_data(estimator, X, reset=False, skip_check_array=True)
        return X
    dtype = np.float64 if all(c.kind in ("number", "empty") for c in encoder.columns) else None
    checks = {**_CHECKS, "dtype": dtype}
    return validate_data(estimator, X, reset=False, ensure_min_samples=least, **checks)


def _is_checked(X: Any, estimator: Any, least: int) -> bool:
    """Whether scikit-learn's checks, which take a quarter of the time of one row, would return X as it is."""
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.shape[1] == estimator.n_features_in_
        and len(X) >= least
        and not hasattr(estimator, "feature_names_in_")
        and bool(np.isfinite(X).all())
    )


def new_rows(estimator: Any, X: Any, y: Any, sample_weight: Any, noise_std: Any) -> TrainingRows:
    """Validate and encode rows that are added to a fitted model."""
    model, encoder = estimator.model_, estimator.model_.encoder
    if is_collection(X) or is_collection(y):
        raise ValueError("partial_fit takes arrays, not dask collections: load them with compute().")
    Z, notes = encoder.encoded(_checked_queries(estimator, X, encoder, 1))
    if notes:
        raise ValueError(
            f"The new rows have values that training has not seen: column {'; '.join(notes)}. Fit all rows "
            "again, so that gaps (NaN) and levels are encoded."
        )
    _, y = check_X_y(np.zeros((len(Z), 1)), y, estimator=estimator, **_TARGETS)
    if (y.ndim == 1) != model.one_output or (y.ndim == 2 and y.shape[1] != model.n_outputs):
        raise ValueError(
            f"y has shape {y.shape}, but the model was fitted to "
            f"{'one output, (n,)' if model.one_output else f'{model.n_outputs} outputs'}."
        )
    n = len(y)
    y = np.asarray(y, dtype=np.float64).reshape(n, -1)
    if model.target is not None and not np.isfinite(model.target.log_slope(y)).all():
        raise ValueError(f"y has values that target_transform={model.target.name!r} cannot transform.")
    outputs = 1 if (model.y_scale.scale == 1.0).all() else y.shape[1]
    noise, kept = checked_noise(sample_weight, noise_std, n, outputs)
    if kept is not None:
        Z, y = Z[kept], y[kept]
    return TrainingRows(ArrayRows(Z, y, noise), model.one_output, encoder, kept, n)


def _collection(
    estimator: Any, X: Any, y: Any, settings: Settings, sample_weight: Any, noise_std: Any
) -> TrainingRows:
    if not isinstance(settings.engine, DaskEngine):
        raise ValueError(
            f"X is a dask collection, but engine={settings['engine']!r}. "
            "Use engine='dask' to fit it on a cluster, or load it with X.compute()."
        )
    categorical: Categorical = settings["categorical_features"]
    rows, encoder, names, one_output = DaskRows.of(
        settings.engine, X, y, categorical, sample_weight, noise_std
    )
    estimator.n_features_in_ = encoder.n_features
    estimator.__dict__.pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    source: RowSource = rows
    if rows.n <= SAMPLE_ROWS:
        _, Z, targets, noise = rows.take(np.arange(rows.n))
        Z, targets = check_X_y(Z, targets, order="C", estimator=estimator, **_TARGETS)
        source = ArrayRows(Z, targets, noise)
    return TrainingRows(source, one_output, encoder, None, rows.n)

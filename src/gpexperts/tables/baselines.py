"""What a user would try first: a linear model and gradient boosting, with a constant standard deviation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder
from sklearn.utils.fixes import parse_version

from gpexperts.columns import ColumnEncoder
from gpexperts.columns.frames import frame_of
from gpexperts.tables.arrow import pa

__all__ = ["baseline_inputs", "baselines", "predicted"]

_FOLDS = 3
"""Folds that give the standard deviation of a baseline's error."""
_MOST_LEVELS = 255
"""That gradient boosting takes as a category, other levels and gaps included."""
_ENCODER_FOLDS: dict[str, Any] = (
    {"cv": KFold(5, shuffle=True, random_state=0)}
    if parse_version(sklearn.__version__) >= parse_version("1.9")
    else {"random_state": 0}
)
"""Settings of the target encoder that make its folds reproducible; scikit-learn 1.9 renamed them."""


def baseline_inputs(encoder: ColumnEncoder, table: pa.Table) -> np.ndarray:
    """Return rows as numbers (n, b): as the model encodes them, but a category is one column of codes."""
    frame, blocks = frame_of(table), []
    for k, column in enumerate(encoder.columns):
        if column.kind == "category":
            blocks.append(column.level_index(frame.levels(k))[:, None].astype(float))
        else:
            block = np.empty((frame.n_rows, column.width))
            column.encode(frame, k, block)
            blocks.append(block)
    return np.hstack(blocks)


def baselines(encoder: ColumnEncoder, n_outputs: int) -> Iterator[tuple[str, Any]]:
    """Yield name and estimator of each baseline, for rows of `baseline_inputs`.

    Categories are one-hot columns of the linear model. Gradient boosting takes those of up to 253 levels as
    they are, and the mean target of each level of larger ones.
    """
    widths = [1 if column.kind == "category" else column.width for column in encoder.columns]
    starts = np.cumsum([0, *widths[:-1]])
    levels = {
        int(start): len(column.levels) + 2
        for start, column in zip(starts, encoder.columns, strict=True)
        if column.kind == "category"
    }
    one_hot = OneHotEncoder(handle_unknown="ignore")
    yield (
        "linear model",
        make_pipeline(
            make_column_transformer((one_hot, list(levels)), remainder=StandardScaler()), LinearRegression()
        ),
    )
    large = [k for k, n in levels.items() if n > _MOST_LEVELS]
    means = TargetEncoder(target_type="continuous", **_ENCODER_FOLDS)
    # The transformed columns come first, the others follow in their order.
    order = [*large, *(k for k in range(sum(widths)) if k not in large)]
    boosting = make_pipeline(
        make_column_transformer((means, large), remainder="passthrough"),
        HistGradientBoostingRegressor(
            categorical_features=[k in levels and k not in large for k in order], random_state=0
        ),
    )
    yield "gradient boosting", boosting if n_outputs == 1 else MultiOutputRegressor(boosting)


def predicted(
    baseline: Any, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, sample_weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a baseline and predict a normal distribution for test rows.

    Returns
    -------
    mean, std : ndarray of shape (n_test,) or (n_test, p)
        `std` is that of the cross-validated errors of the training rows, the same for all test rows.
    """
    regressor = (baseline if hasattr(baseline, "steps") else baseline.estimator).steps[-1][0]
    params = None if sample_weight is None else {f"{regressor}__sample_weight": sample_weight}
    folds = KFold(min(_FOLDS, len(y)), shuffle=True, random_state=0)
    error = y - cross_val_predict(baseline, X, y, cv=folds, params=params)
    mean = clone(baseline).fit(X, y, **(params or {})).predict(X_test)
    spread = np.sqrt(np.mean(error**2, axis=0))
    return mean, np.broadcast_to(np.maximum(spread, np.finfo(float).tiny), mean.shape)

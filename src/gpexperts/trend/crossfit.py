"""Cross-fitting: the trend at a training row comes from a regressor that has not seen the row.

Residuals of rows that a regressor was fitted to are too small, and experts trained on them would be too sure.
The rows are divided into five folds; the regressor of each fold is fitted to the others. For queries, one
more regressor is fitted to all rows.

At most `MAX_ROWS` rows, drawn at random by row number, fit the trend, in this process. The other rows have
been seen by no regressor, and get the trend of queries. So arrays and collections give the same trend.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpexperts.exceptions import TrendError
from gpexperts.row_noise import weights
from gpexperts.rows.base import Rows, RowSource
from gpexperts.trend.fitted import FittedTrend, checked_prediction
from gpexperts.trend.regressors import fitted_regressor, kept, new_regressor

__all__ = ["FOLDS", "MAX_ROWS", "CrossFitted", "cross_fit"]

FOLDS = 5
MAX_ROWS = 500_000
"""Rows that the trend is fitted to, at most."""


@dataclass(frozen=True)
class CrossFitted:
    """A trend, and its values for the training rows by regressors that have not seen them."""

    trend: FittedTrend
    """With any role: the same values serve all of them."""
    number: np.ndarray
    """(k,) ascending numbers of the rows that the trend was fitted to."""
    values: np.ndarray
    """(k, p) the cross-fitted trend of these rows."""
    error: float
    """Mean squared error of the values, in units of the variance of the targets."""

    def with_role(self, role: str) -> CrossFitted:
        """Return the same trend in another role."""
        trend = FittedTrend(role, self.trend.name, self.trend.predictors)
        return CrossFitted(trend, self.number, self.values, self.error)

    def at(self, number: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return the trend (n, p) of training rows: cross-fitted, or for rows outside the sample as it is."""
        place = np.minimum(np.searchsorted(self.number, number), len(self.number) - 1)
        inside = self.number[place] == number
        values = self.values[place]
        if not inside.all():
            values = values.copy()
            values[~inside] = self.trend.predict(X[~inside])
        return values

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return inputs, targets and noise of the experts for training rows; see `RowSource.mapped`."""
        values = self.at(rows.number, rows.X)
        return self.trend.inputs(rows.X, values), self.trend.residuals(rows.y, values), rows.noise


def cross_fit(setting: Any, source: RowSource, random_state: np.random.RandomState) -> CrossFitted:
    """Fit a trend to rows in the user's units of X.

    Parameters
    ----------
    setting : {"linear", "boosting"} or regressor
    source : RowSource
    random_state : RandomState
        Draws folds and, where there are more than `MAX_ROWS` rows, a sample.

    Raises
    ------
    TrendError
        If the regressor fails in a fold, or predicts NaN.
    """
    name = setting if isinstance(setting, str) else type(setting).__name__
    rows = source.sample(MAX_ROWS, random_state)
    regressor = new_regressor(setting, int(random_state.randint(2**31 - 1)))
    n, p = rows.y.shape
    if n < 2 * FOLDS:
        raise TrendError(f"trend={name!r} needs at least {2 * FOLDS} rows, got {n}. Use trend=None.")
    fold = random_state.permutation(np.arange(n) % FOLDS)
    w = weights(rows.noise) if rows.noise.shape[1] else None
    values, predictors = np.empty((n, p)), []
    for k in range(p):
        for f in range(FOLDS):
            out = fold == f
            where = f"fold {f + 1} of {FOLDS}"
            one = _fitted(
                regressor, rows.X[~out], rows.y[~out, k], None if w is None else w[~out], name, where
            )
            values[out, k] = _predicted(one, rows.X[out], name, where)
        predictors.append(kept(_fitted(regressor, rows.X, rows.y[:, k], w, name, "all rows"), rows.X))
    spread = np.average((rows.y - np.average(rows.y, axis=0, weights=w)) ** 2, axis=0, weights=w)
    squares = np.average((rows.y - values) ** 2, axis=0, weights=w)
    error = float(np.mean(squares / np.where(spread > 0, spread, 1.0)))
    return CrossFitted(FittedTrend("mean", name, tuple(predictors)), rows.number, values, error)


def _fitted(
    regressor: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None, name: str, where: str
) -> Any:
    try:
        return fitted_regressor(regressor, X, y, weight)
    except Exception as error:  # of any regressor of the user
        raise TrendError(
            f"The trend {name!r} could not be fitted to {where} ({len(X)} rows): "
            f"{type(error).__name__}: {error}. Use another regressor, or trend=None."
        ) from error


def _predicted(regressor: Any, X: np.ndarray, name: str, where: str) -> np.ndarray:
    try:
        return checked_prediction(regressor, X, name)
    except Exception as error:  # of any regressor of the user
        raise TrendError(f"The trend fails for {where}: {error}") from error

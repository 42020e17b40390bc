"""The regressor that `trend` names, and what is kept of it once it is fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from gpexperts.trend.trees import Trees, trees_of

__all__ = ["NAMES", "Linear", "Predictor", "fitted_regressor", "kept", "new_regressor", "takes_weights"]

NAMES = ("linear", "boosting")
_CHECKED = 1000
"""Rows on which boosted trees are compared with the regressor that they come from."""


@dataclass(frozen=True)
class Linear:
    """A linear trend."""

    coef: np.ndarray
    """(d,)"""
    intercept: float

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the prediction (n,) for inputs X (n, d)."""
        return X @ self.coef + self.intercept


Predictor = Linear | Trees | Any
"""A fitted trend of one output: plain arrays, or a user's regressor."""


def new_regressor(trend: Any, seed: int) -> Any:
    """Return the unfitted regressor of a setting."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # late: they import much
    from sklearn.linear_model import LinearRegression

    if isinstance(trend, str) and trend == "linear":
        return LinearRegression()
    if isinstance(trend, str) and trend == "boosting":
        return HistGradientBoostingRegressor(
            max_iter=1000, learning_rate=0.06, early_stopping=True, n_iter_no_change=15, random_state=seed
        )
    return clone(trend)


def takes_weights(regressor: Any) -> bool:
    """Whether the `fit` of a regressor has a `sample_weight`."""
    return bool(has_fit_parameter(regressor, "sample_weight"))


def fitted_regressor(regressor: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Any:
    """Fit a clone to inputs X (n, d), targets y (n,) and weights (n,), where it takes them."""
    regressor = clone(regressor)
    if weight is None or not takes_weights(regressor):
        return regressor.fit(X, y)
    return regressor.fit(X, y, sample_weight=weight)


def kept(regressor: Any, X: np.ndarray) -> Predictor:
    """Return what is kept of a fitted regressor: plain arrays where possible.

    X (n, d) are its training inputs.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression

    if type(regressor) is LinearRegression:
        return Linear(np.asarray(regressor.coef_, dtype=float), float(regressor.intercept_))
    if type(regressor) is HistGradientBoostingRegressor:
        trees = trees_of(regressor, X[:: max(1, len(X) // _CHECKED)])
        if trees is not None:
            return trees
    return regressor

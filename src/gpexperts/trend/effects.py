"""Boosted trees after a ridge regression, for categories with many levels.

A tree splits off one level at a time, and would need a split for each of hundreds. A ridge regression has an
effect for each, drawn towards 0 where its rows are few. Trees predict what it leaves, from the other columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone

from gpexperts.trend.trees import Trees

__all__ = ["Linear", "LinearAndTrees", "RidgeThenTrees", "ridge"]

PENALTIES = np.geomspace(1e-3, 1e5, 33)
"""Of which ridge regression takes the one with the smallest generalised cross-validation."""


@dataclass(frozen=True)
class Linear:
    """A linear trend."""

    coef: np.ndarray
    """(d,)"""
    intercept: float

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the prediction (n,) for inputs X (n, d)."""
        return X @ self.coef + self.intercept


@dataclass(frozen=True)
class LinearAndTrees:
    """The sum of a linear trend and of trees."""

    linear: Linear
    trees: Trees

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the prediction (n,) for inputs X (n, d)."""
        return self.linear.predict(X) + self.trees.predict(X)


def ridge(X: np.ndarray, y: np.ndarray, weight: np.ndarray | None, units: np.ndarray) -> Linear:
    """Fit a ridge regression, with the penalty that generalised cross-validation chooses.

    With the eigenvalues s of the Gram matrix and the penalty α, the criterion of Golub, Heath & Wahba (1979)
    is RSS / (n − 1 − Σ s / (s + α))².

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    weight : ndarray of shape (n,), optional
    units : ndarray of shape (d,)
        Of the columns, in which their coefficients have the same penalty; positive.
    """
    n, w = len(y), np.ones(len(y)) if weight is None else weight * (len(y) / weight.sum())
    x_mean, y_mean = w @ X / n, float(w @ y / n)
    root = np.sqrt(w)
    A, b = (X - x_mean) / units * root[:, None], (y - y_mean) * root
    s, V = np.linalg.eigh(A.T @ A)
    s, a = np.maximum(s, 0.0), V.T @ (A.T @ b)
    q = a / (s + PENALTIES[:, None])
    rss = b @ b - 2.0 * q @ a + (s * q**2).sum(axis=1)
    left = n - 1 - (s / (s + PENALTIES[:, None])).sum(axis=1)
    with np.errstate(divide="ignore"):
        criterion = np.where(left > 0, rss / left**2, np.inf)
    coef = V @ q[np.argmin(criterion)] / units
    return Linear(coef, y_mean - float(x_mean @ coef))


class RidgeThenTrees(RegressorMixin, BaseEstimator):
    """Boosted trees for what a ridge regression leaves.

    Parameters
    ----------
    trees : HistGradientBoostingRegressor
    levels : ndarray of bool, shape (d,)
        Columns of categories with many levels, which trees do not see.
    """

    def __init__(self, trees: Any, levels: np.ndarray) -> None:
        self.trees = trees
        self.levels = levels

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> RidgeThenTrees:
        """Fit to inputs X (n, d), targets y (n,) and weights (n,)."""
        spread = X.std(axis=0)
        units = np.where(self.levels | (spread == 0.0), np.sqrt(0.5), spread)
        self.linear_ = ridge(X, y, sample_weight, units)
        rest = y - self.linear_.predict(X)
        self.trees_ = clone(self.trees).fit(X[:, ~self.levels], rest, sample_weight=sample_weight)
        return self

    @property
    def n_iter_(self) -> int:
        """Number of trees."""
        return int(self.trees_.n_iter_)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the prediction (n,) for inputs X (n, d)."""
        return self.linear_.predict(X) + np.asarray(self.trees_.predict(X[:, ~self.levels]))

    def staged_predict(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the prediction after each tree."""
        linear = self.linear_.predict(X)
        for some in self.trees_.staged_predict(X[:, ~self.levels]):
            yield linear + some

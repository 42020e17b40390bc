"""Boosted trees as plain arrays: what scikit-learn's HistGradientBoosting has learned, without its class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Trees", "mean_of_trees", "trees_of"]

_ROWS = 16_384
"""Rows that go through one tree after the other together, so that they stay in the cache."""
_FEW_ROWS = 64
"""Up to so many rows go through all trees at once: there are too few for a loop over the trees."""


@dataclass(frozen=True)
class Trees:
    """A sum of regression trees, whose nodes are numbered one tree after the other.

    A row goes left at a node if its value is at most the threshold. A missing value goes left where
    `missing_left` says so.
    """

    start: np.ndarray
    """(T + 1,) number of the first node of each tree, its root."""
    feature: np.ndarray
    """(N,) column that a node compares; −1 for a leaf."""
    threshold: np.ndarray
    """(N,)"""
    missing_left: np.ndarray
    """(N,) bool"""
    left: np.ndarray
    """(N,) node to the left; a leaf is its own."""
    right: np.ndarray
    """(N,)"""
    value: np.ndarray
    """(N,) what a leaf adds."""
    baseline: float
    """Prediction before the first tree."""
    n_features: int

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the prediction (n,) for inputs X (n, d)."""
        result = np.full(len(X), self.baseline)
        if len(X) <= _FEW_ROWS:
            return result + self._sum_of_few(np.ascontiguousarray(X))
        for begin in range(0, len(X), _ROWS):
            some = slice(begin, begin + _ROWS)
            result[some] += self._sum(np.ascontiguousarray(X[some]))
        return result

    def _sum_of_few(self, X: np.ndarray) -> np.ndarray:
        n, flat, column = len(X), X.ravel(), np.maximum(self.feature, 0)
        at_row = (np.arange(n) * X.shape[1])[:, None]
        has_gaps = bool(np.isnan(flat).any())
        node = np.repeat(self.start[None, :-1], n, axis=0)  # (n, T)
        while (self.feature[node] >= 0).any():
            x = flat[at_row + column[node]]
            goes_left = x <= self.threshold[node]
            if has_gaps:
                goes_left |= np.isnan(x) & self.missing_left[node]
            node = np.where(goes_left, self.left[node], self.right[node])  # a leaf stays
        return np.asarray(self.value[node].sum(axis=1))

    def _sum(self, X: np.ndarray) -> np.ndarray:
        total, flat, at_row = np.zeros(len(X)), X.ravel(), np.arange(len(X)) * X.shape[1]
        has_gaps = bool(np.isnan(flat).any())
        column = np.maximum(self.feature, 0)
        for root in self.start[:-1]:
            node = np.full(len(X), root)
            rows = np.arange(len(X)) if self.feature[root] >= 0 else np.empty(0, dtype=np.int64)
            while len(rows):
                at = node[rows]
                x = flat[at_row[rows] + column[at]]
                goes_left = x <= self.threshold[at]
                if has_gaps:
                    goes_left |= np.isnan(x) & self.missing_left[at]
                at = np.where(goes_left, self.left[at], self.right[at])
                node[rows] = at
                rows = rows[self.feature[at] >= 0]
            total += self.value[node]
        return total


def mean_of_trees(several: Sequence[Trees]) -> Trees:
    """Return one sum of trees whose prediction is the mean of those of several."""
    shifts = np.cumsum([0, *(len(trees.value) for trees in several)])[:-1]
    start = [trees.start[:-1] + shift for trees, shift in zip(several, shifts, strict=True)]
    end = several[-1].start[-1:] + shifts[-1]
    return Trees(
        start=np.concatenate([*start, end]),
        feature=np.concatenate([trees.feature for trees in several]),
        threshold=np.concatenate([trees.threshold for trees in several]),
        missing_left=np.concatenate([trees.missing_left for trees in several]),
        left=np.concatenate([trees.left + shift for trees, shift in zip(several, shifts, strict=True)]),
        right=np.concatenate([trees.right + shift for trees, shift in zip(several, shifts, strict=True)]),
        value=np.concatenate([trees.value for trees in several]) / len(several),
        baseline=float(np.mean([trees.baseline for trees in several])),
        n_features=several[0].n_features,
    )


def trees_of(regressor: Any, X: np.ndarray) -> Trees | None:
    """Return the trees of a fitted HistGradientBoostingRegressor, or None if they cannot be read.

    scikit-learn has no public access to these trees. They are read from its own arrays, and taken only if
    they predict X (k, d) as the regressor does.
    """
    nodes = _nodes_of(regressor)
    if not nodes:
        return None
    start = np.concatenate([[0], np.cumsum([len(tree) for tree in nodes])])
    every = np.concatenate(nodes)
    shift = np.repeat(start[:-1], [len(tree) for tree in nodes])
    leaf, own = every["is_leaf"].astype(bool), np.arange(len(every))
    trees = Trees(
        start=start.astype(np.int64),
        feature=np.where(leaf, -1, every["feature_idx"]).astype(np.int64),
        threshold=np.where(leaf, 0.0, every["num_threshold"]).clip(*_FINITE),
        missing_left=every["missing_go_to_left"].astype(bool),
        left=np.where(leaf, own, every["left"] + shift).astype(np.int64),
        right=np.where(leaf, own, every["right"] + shift).astype(np.int64),
        value=every["value"].astype(np.float64),
        baseline=0.0,
        n_features=X.shape[1],
    )
    expected = regressor.predict(X)
    baseline = float(np.median(expected - trees.predict(X)))
    trees = Trees(**{**vars(trees), "baseline": baseline})
    same = np.allclose(trees.predict(X), expected, rtol=1e-9, atol=1e-9 * (1e-300 + np.abs(expected).max()))
    return trees if same else None


_FINITE = np.finfo(float).min, np.finfo(float).max


def _nodes_of(regressor: Any) -> list[np.ndarray]:
    """The node table of every tree, or none where a version of scikit-learn keeps them differently."""
    needed = {
        "is_leaf",
        "is_categorical",
        "feature_idx",
        "num_threshold",
        "missing_go_to_left",
        "left",
        "right",
        "value",
    }
    found = []
    for of_iteration in vars(regressor).get("_predictors", ()):
        for tree in of_iteration:
            nodes = getattr(tree, "nodes", None)
            if nodes is None or not needed <= set(nodes.dtype.names or ()) or nodes["is_categorical"].any():
                return []
            found.append(nodes)
    return found

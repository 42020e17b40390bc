"""knn: the experts whose centroids are nearest to the query."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from gpexperts.selection.base import ExpertsView, Selector, row_chunks

__all__ = ["KNNSelector"]

_POWERS = {"euclidean": 2.0, "manhattan": 1.0, "kernel": 2.0}
_FAR = 1e20
"""Largest coordinate, in units of the largest centroid; beyond it all experts are equally far."""
MAX_POWER = 15.0
"""Larger powers of distances overflow or underflow."""
METRICS = ("euclidean", "manhattan", "minkowski", "hamming", "kernel")


class KNNSelector(Selector):
    """Select the K experts with the nearest centroids.

    Parameters
    ----------
    metric : {"euclidean", "manhattan", "minkowski", "hamming", "kernel"}
        ``"euclidean"`` is the paper's. ``"kernel"`` divides each input by its length scale first, so that
        irrelevant inputs (28 of 32 on pumadyn) have no effect. ``"hamming"`` is for coded inputs: the share
        of columns in which the query differs from the most frequent value of a part.
    p : float
        The power of ``metric="minkowski"``: from 1 to 15, or infinite (the largest difference).
    """

    refits_quickly = True

    def __init__(self, metric: str = "euclidean", p: float = 3.0) -> None:
        self.metric = metric
        self.p = p

    def fit(self, experts: ExpertsView) -> KNNSelector:
        if self.metric not in METRICS:
            raise ValueError(
                f"Unknown metric {self.metric!r} of KNNSelector; known are {', '.join(METRICS)}."
            )
        if self.metric == "minkowski" and not (1 <= self.p <= MAX_POWER or self.p == np.inf):
            raise ValueError(
                f"The power p of the minkowski metric must be from 1 to {MAX_POWER:g}, or infinite, "
                f"got {self.p}."
            )
        self.scale_ = experts.length_scale.copy() if self.metric == "kernel" else np.ones(experts.X.shape[1])
        if self.metric == "hamming":
            self.places_ = _most_frequent(experts.X, experts.labels, experts.n_experts)
        else:
            # Divide by the largest centroid, as powers of distances of 1e150 would overflow. A power of two
            # keeps the division exact.
            size = np.abs(experts.centroids / self.scale_).max(initial=0.0)
            self.scale_ *= 2.0 ** np.floor(np.log2(size)) if size > 0 else 1.0
            self.places_ = experts.centroids / self.scale_
            self.tree_ = cKDTree(self.places_)
        return self

    def __getstate__(self) -> dict[str, Any]:
        # A model file cannot hold a tree; it is built again from `places_`.
        return {name: value for name, value in super().__getstate__().items() if name != "tree_"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "places_" in state and self.metric != "hamming":
            self.tree_ = cKDTree(self.places_)

    def select(self, X: np.ndarray, n_selected: int) -> np.ndarray:
        if self.metric == "hamming":
            index = np.empty((len(X), n_selected), dtype=np.int64)
            for rows in row_chunks(len(X), len(self.places_)):
                distance = cdist(X[rows], self.places_, "hamming")
                index[rows] = np.argsort(distance, axis=1, kind="stable")[:, :n_selected]
            return index
        power = _POWERS.get(self.metric, self.p)
        _, index = self.tree_.query(self.scaled(X), k=np.arange(1, n_selected + 1), p=power)
        return index

    def scaled(self, X: np.ndarray) -> np.ndarray:
        """Inputs (n, d) in the units in which distances are computed."""
        with np.errstate(over="ignore"):
            return np.clip(X / self.scale_, -_FAR, _FAR)


def _most_frequent(X: np.ndarray, labels: np.ndarray, n_experts: int) -> np.ndarray:
    """The most frequent value of each column in each part, (M, d); the smallest if several are.

    Rows are sorted by their labels.
    """
    modes = np.empty((n_experts, X.shape[1]))
    starts = np.searchsorted(labels, np.arange(n_experts + 1))
    for i in range(n_experts):
        for k, column in enumerate(X[starts[i] : starts[i + 1]].T):
            values, counts = np.unique(column, return_counts=True)
            modes[i, k] = values[np.argmax(counts)]
    return modes

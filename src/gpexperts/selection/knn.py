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
"""In units of the distance between experts: seen from further away all of them are equally far."""
MAX_POWER = 15.0
"""Larger powers of such distances overflow, and those of small ones vanish."""
METRICS = ("euclidean", "manhattan", "minkowski", "hamming", "kernel")


class KNNSelector(Selector):
    """Ask the K experts with the nearest centroids.

    Parameters
    ----------
    metric : {"euclidean", "manhattan", "minkowski", "hamming", "kernel"}
        ``"euclidean"`` is the paper's. ``"kernel"`` divides each input by its learned length scale first:
        inputs that do not matter then do not count (on pumadyn 28 of 32). ``"hamming"`` is for coded
        inputs: the share of columns in which the query differs from a part's most frequent value.
    p : float
        The power of ``metric="minkowski"``: from 1 to 15, or infinite (the largest difference counts).
    """

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
            # In units of the size of it all, a power of two so that not a bit changes: powers of distances
            # between places of 1e150 would overflow, and the tree would find nobody near.
            size = np.abs(experts.centroids / self.scale_).max(initial=0.0)
            self.scale_ *= 2.0 ** np.floor(np.log2(size)) if size > 0 else 1.0
            self.places_ = experts.centroids / self.scale_
            self.tree_ = cKDTree(self.places_)
        return self

    def __getstate__(self) -> dict[str, Any]:
        # A tree has no form that every way of saving knows; it is made again from the places.
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
        _, index = self.tree_.query(self.placed(X), k=np.arange(1, n_selected + 1), p=power)
        return index

    def placed(self, X: np.ndarray) -> np.ndarray:
        """Inputs (n, d) where distances are taken."""
        with np.errstate(over="ignore"):
            return np.clip(X / self.scale_, -_FAR, _FAR)


def _most_frequent(X: np.ndarray, labels: np.ndarray, n_experts: int) -> np.ndarray:
    """The most frequent value of each column in each part, (M, d); the smallest of equals.

    Rows are sorted by their labels.
    """
    modes = np.empty((n_experts, X.shape[1]))
    starts = np.searchsorted(labels, np.arange(n_experts + 1))
    for i in range(n_experts):
        for k, column in enumerate(X[starts[i] : starts[i + 1]].T):
            values, counts = np.unique(column, return_counts=True)
            modes[i, k] = values[np.argmax(counts)]
    return modes

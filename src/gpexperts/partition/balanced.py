"""Parts of equal size by recursive bisection, nearly as compact as k-means clusters."""

from __future__ import annotations

import numpy as np

from gpexperts.partition.base import Partitioner

__all__ = ["BalancedPartitioner", "bisect"]

_SAMPLE = 1000
"""Rows of a node from which the direction of its cut is computed."""
_WIDE, _POWERS = 64, 12
"""Inputs beyond which the principal axis, where 2-means starts, comes from so many steps of the power method:
eigenvectors of hundreds of inputs would take longer than the rest of a cut."""


class BalancedPartitioner(Partitioner):
    """Bisect the rows recursively until there are `n_parts` parts.

    Each cut is orthogonal to the line between the two centroids of a 2-means clustering of the node, at the
    quantile that gives both sides their share of the parts. Sizes differ by one or two rows; the time is
    O(n log M).

    Parameters
    ----------
    n_iter : int
        Lloyd iterations of each 2-means clustering.
    """

    def __init__(self, n_iter: int = 4) -> None:
        self.n_iter = n_iter

    def partition(self, X: np.ndarray, n_parts: int, random_state: np.random.RandomState) -> np.ndarray:
        labels = np.empty(len(X), dtype=np.int64)
        # Rows are reordered after each cut, so that a node is a contiguous slice of memory.
        Z, order = np.array(X, order="C"), np.arange(len(X))
        spare_Z, spare_order = np.empty_like(Z), np.empty_like(order)
        stack = [(0, len(X), 0, n_parts)]
        while stack:
            start, stop, first, parts = stack.pop()
            node = slice(start, stop)
            if parts == 1:
                labels[order[node]] = first
                continue
            left = parts // 2
            near = bisect(Z[node], left / parts, random_state, self.n_iter)
            middle = start + int(near.sum())
            for values, spare in ((Z, spare_Z), (order, spare_order)):
                np.compress(near, values[node], axis=0, out=spare[start:middle])
                np.compress(~near, values[node], axis=0, out=spare[middle:stop])
                values[node] = spare[node]
            stack.append((start, middle, first, left))
            stack.append((middle, stop, first + left, parts - left))
        return labels


def bisect(X: np.ndarray, share: float, random_state: np.random.RandomState, n_iter: int = 4) -> np.ndarray:
    """Split the rows of X (n, d) in two.

    Returns
    -------
    near : ndarray of bool, shape (n,)
        True for about `share` · n of the rows, at least 1 and at most n − 1.
    """
    sample = X if len(X) <= _SAMPLE else X[random_state.randint(len(X), size=_SAMPLE)]
    position = X @ _two_means_direction(sample, n_iter)
    cut = min(max(1, round(share * len(X))), len(X) - 1)
    threshold = np.partition(position, cut)[cut]
    near = position < threshold
    # Rows on the cut go to the first side until it has its share.
    near[np.flatnonzero(position == threshold)[: cut - int(near.sum())]] = True
    return near


def _two_means_direction(X: np.ndarray, n_iter: int) -> np.ndarray:
    """Vector between the centroids of two clusters, started from halves along the principal axis."""
    centred = X - X.mean(axis=0)
    direction, threshold = _principal_axis(centred), 0.0
    for _ in range(n_iter):
        side = (centred @ direction > threshold).astype(float)
        count = side.sum()
        if count in (0, len(X)):
            break
        total = side @ centred  # rows are centred: the sum of the other side is the negative
        a, b = total / count, -total / (len(X) - count)
        direction, threshold = a - b, 0.5 * float((a - b) @ (a + b))
    return direction


def _principal_axis(centred: np.ndarray) -> np.ndarray:
    """The first principal axis (d,) of centred rows (n, d); nearly that if there are many inputs."""
    if centred.shape[1] <= _WIDE:
        return np.asarray(np.linalg.eigh(centred.T @ centred)[1][:, -1])
    axis = centred[np.argmax(np.einsum("nd,nd->n", centred, centred))]
    for _ in range(_POWERS):
        axis = (centred @ axis) @ centred
        axis = axis / (np.sqrt(axis @ axis) or 1.0)
    return axis

"""Parts that are compact like k-means clusters and equal in size like the leaves of a tree."""

from __future__ import annotations

import numpy as np

from gpexperts.partition.base import Partitioner

__all__ = ["BalancedPartitioner", "bisect"]

_SAMPLE = 2000
"""Rows of a node from which the direction of a cut is learned."""


class BalancedPartitioner(Partitioner):
    """Cut the rows in two, again and again, until there are as many parts as wanted.

    Each cut runs across the line that joins the two centroids of a 2-means clustering of the node,
    at the quantile that gives both sides their share of the parts. Sizes differ by one or two rows;
    the time is O(n log M).

    Parameters
    ----------
    n_iter : int
        Lloyd iterations behind each cut.
    """

    def __init__(self, n_iter: int = 4) -> None:
        self.n_iter = n_iter

    def partition(self, X: np.ndarray, n_parts: int, random_state: np.random.RandomState) -> np.ndarray:
        labels = np.zeros(len(X), dtype=np.int64)
        stack = [(np.arange(len(X)), 0, n_parts)]
        while stack:
            rows, first, parts = stack.pop()
            if parts == 1:
                labels[rows] = first
                continue
            left = parts // 2
            near, far = bisect(X, rows, left / parts, random_state, self.n_iter)
            stack.append((near, first, left))
            stack.append((far, first + left, parts - left))
        return labels


def bisect(
    X: np.ndarray,
    rows: np.ndarray,
    share: float,
    random_state: np.random.RandomState,
    n_iter: int = 4,
) -> tuple[np.ndarray, np.ndarray]:
    """Split `rows` of X in two: the first side gets `share` of them, and each side at least one."""
    sample = rows if len(rows) <= _SAMPLE else rows[random_state.choice(len(rows), _SAMPLE)]
    direction = _two_means_direction(X[sample], n_iter)
    position = X[rows] @ direction
    cut = min(max(1, round(share * len(rows))), len(rows) - 1)
    order = np.argpartition(position, cut)
    return rows[order[:cut]], rows[order[cut:]]


def _two_means_direction(X: np.ndarray, n_iter: int) -> np.ndarray:
    """Vector between the centroids of two clusters, started from halves along the principal axis."""
    centred = X - X.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    direction = vectors[:, -1]
    threshold = 0.0
    for _ in range(n_iter):
        side = centred @ direction > threshold
        if side.all() or not side.any():
            break
        a, b = centred[side].mean(axis=0), centred[~side].mean(axis=0)
        direction, threshold = a - b, 0.5 * float((a - b) @ (a + b))
    return direction

"""rows: the experts who own the rows nearest to the query."""

from __future__ import annotations

import numpy as np

from gpexperts.queries import queries_by_expert
from gpexperts.selection.base import ExpertsView, Selector
from gpexperts.selection.nearest import KNNSelector

__all__ = ["NearestRowsSelector"]

_QUERIES, _PIECE = 100_000, 4096
"""Queries that are ranked together, and of those who look at one expert, how many at a time: for memory."""
_BITS = 30
"""Of a distance that count. What differs beyond them is rounding, which may differ from batch to batch."""


class NearestRowsSelector(Selector):
    """Ask the K experts whose nearest rows are nearest, in the kernel's metric.

    A query next to the border of a part lies far from that part's centroid and close to its rows: fewer
    experts found by their rows say what more found by their centroids do.

    Parameters
    ----------
    n_candidates : int
        How many experts, those with the nearest centroids, are looked at row by row. So the time of a query
        does not grow with the number of experts.
    """

    follows_rows = True

    def __init__(self, n_candidates: int = 32) -> None:
        self.n_candidates = n_candidates

    def fit(self, experts: ExpertsView) -> NearestRowsSelector:
        if self.n_candidates < 1:
            raise ValueError(f"n_candidates must be at least 1, got {self.n_candidates!r}.")
        self.by_centroid_ = KNNSelector(metric="kernel").fit(experts)
        self.rows_ = experts.X
        self.starts_ = np.searchsorted(experts.labels, np.arange(experts.n_experts + 1))
        return self

    def repeats(self, X: np.ndarray) -> bool:
        return self.rows_ is X

    def select(self, X: np.ndarray, n_selected: int) -> np.ndarray:
        M = len(self.starts_) - 1
        if n_selected == M == 1:
            return np.zeros((len(X), 1), dtype=np.int64)
        index = np.empty((len(X), n_selected), dtype=np.int64)
        for start in range(0, len(X), _QUERIES):
            some = slice(start, start + _QUERIES)
            candidates = self.by_centroid_.select(X[some], min(M, max(self.n_candidates, n_selected)))
            distance = self._distances(self.by_centroid_.placed(X[some]), candidates)
            order = np.argsort(_rounded(distance), axis=1, kind="stable")[:, :n_selected]
            index[some] = np.take_along_axis(candidates, order, axis=1)
        return index

    def _distances(self, Z: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Squared distance of each query (n, d) to the nearest row of each of its candidates, (n, C)."""
        distance = np.empty(candidates.shape)
        for i, query, column in queries_by_expert(candidates):
            centre = self.by_centroid_.places_[i]
            rows = self.by_centroid_.placed(self.rows_[self.starts_[i] : self.starts_[i + 1]])
            if len(rows) == 0:  # of a sample, none may be left
                rows = centre[None]
            # |z − r|² = |z|² + |r|² − 2 zᵀr: one matrix product finds the row. Its distance is then taken
            # anew, for the difference of squares has lost digits.
            around = rows - centre
            half_square = 0.5 * np.einsum("md,md->m", around, around)
            for start in range(0, len(query), _PIECE):
                piece = slice(start, start + _PIECE)
                z = Z[query[piece]]
                nearest = np.argmin(half_square - (z - centre) @ around.T, axis=1)
                away = z - rows[nearest]
                distance[query[piece], column[piece]] = np.einsum("nd,nd->n", away, away)
        return distance


def _rounded(distance: np.ndarray) -> np.ndarray:
    mantissa, exponent = np.frexp(distance)
    return np.ldexp(np.round(mantissa * 2.0**_BITS), exponent)

"""rows: the experts who own the rows nearest to the query."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpexperts.experts.queries import queries_by_expert
from gpexperts.selection.base import ExpertsView, Selector
from gpexperts.selection.knn import KNNSelector

__all__ = ["NearestRowsSelector"]

_QUERIES, _PIECE = 100_000, 4096
"""Queries that are ranked together, and of those who look at one expert, how many at a time: for memory."""
_NUMBERS = 1_000_000
"""Entries of an array that need not exist for longer than a step takes."""
_BITS = 30
"""Of a distance that count. What differs beyond them is rounding, which may differ from batch to batch."""
_SURELY = 1.0 + 1e-8
"""Distances that are to each other as this are different to all who round."""


class NearestRowsSelector(Selector):
    """Ask the K experts whose nearest rows are nearest, in the kernel's metric.

    A query next to the border of a part lies far from that part's centroid and close to its rows. That counts
    where one or two experts are asked; of more, both ways find mostly the same.

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

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "boxes_"}

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
            distance = self._nearest(self.by_centroid_.placed(X[some]), candidates, n_selected)
            order = np.argsort(_rounded(distance), axis=1, kind="stable")[:, :n_selected]
            index[some] = np.take_along_axis(candidates, order, axis=1)
        return index

    def _nearest(self, Z: np.ndarray, candidates: np.ndarray, n_selected: int) -> np.ndarray:
        """Squared distance of each query (n, d) to the nearest row of each candidate, (n, C).

        It is infinite for those who cannot be among the nearest `n_selected`: they are not looked at.
        """
        if n_selected == candidates.shape[1]:
            return self._distances(Z, candidates)
        at_least = self._at_least(Z, candidates)
        likely = np.zeros(candidates.shape, dtype=bool)
        first = np.argpartition(at_least, n_selected, axis=1)[:, : n_selected + 1]
        np.put_along_axis(likely, first, True, axis=1)
        distance = self._distances(Z, np.where(likely, candidates, -1))
        enough = np.partition(distance, n_selected - 1, axis=1)[:, n_selected - 1 : n_selected]
        possible = ~likely & (at_least <= enough * _SURELY)
        return np.minimum(distance, self._distances(Z, np.where(possible, candidates, -1)))

    def _at_least(self, Z: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """What no row of a candidate is nearer than: the squared distance to the box around them, (n, C)."""
        low, high = self._boxes()
        distance = np.empty(candidates.shape)
        step = max(1, _NUMBERS // (candidates.shape[1] * Z.shape[1]))
        for start in range(0, len(Z), step):
            some = slice(start, start + step)
            z, box = Z[some, None], candidates[some]
            outside = np.maximum(low[box] - z, z - high[box])
            np.maximum(outside, 0.0, out=outside)
            distance[some] = np.einsum("ncd,ncd->nc", outside, outside)
        return distance

    def _boxes(self) -> _Boxes:
        """The boxes around the experts' rows; made when first needed, not kept with a saved model."""
        if not hasattr(self, "boxes_"):
            low, high = self.by_centroid_.places_.copy(), self.by_centroid_.places_.copy()
            (owners,) = np.nonzero(np.diff(self.starts_))  # of a sample, none may be left of others
            per_step = max(1, _NUMBERS * len(owners) // max(1, self.rows_.size))
            for start in range(0, len(owners), per_step):
                some = owners[start : start + per_step]
                begin, end = self.starts_[some[0]], self.starts_[some[-1] + 1]
                rows = self.by_centroid_.placed(self.rows_[begin:end])
                low[some] = np.minimum.reduceat(rows, self.starts_[some] - begin)
                high[some] = np.maximum.reduceat(rows, self.starts_[some] - begin)
            self.boxes_ = _Boxes(low, high)
        return self.boxes_

    def _distances(self, Z: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Squared distance of each query (n, d) to the nearest row of each of its candidates, (n, C).

        −1 stands for nobody, who is infinitely far away.
        """
        distance = np.full(candidates.shape, np.inf)
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


class _Boxes(NamedTuple):
    """The smallest and largest values of each input among each expert's rows, both (M, d)."""

    low: np.ndarray
    high: np.ndarray


def _rounded(distance: np.ndarray) -> np.ndarray:
    mantissa, exponent = np.frexp(distance)
    return np.ldexp(np.round(mantissa * 2.0**_BITS), exponent)

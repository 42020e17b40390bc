"""nearest_rows: the experts with the training rows nearest to the query."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpexperts.experts.queries import queries_by_expert
from gpexperts.rows.neighbours import distance_keys
from gpexperts.selection.base import ExpertsView, Selector
from gpexperts.selection.knn import KNNSelector

__all__ = ["NearestRowsSelector"]

BATCH, CHUNK = 100_000, 4096
"""Queries ranked together, and queries compared at once with the rows of one expert: bounds of the memory."""
_ENTRIES = 1_000_000
"""Largest number of entries of a temporary array."""
_MARGIN = 1.0 + 1e-8
"""Squared distances whose ratio is larger than this differ after rounding."""


class NearestRowsSelector(Selector):
    """Select the K experts whose nearest training row is nearest to the query, in the kernel's metric.

    A query near the border of a part is far from the part's centroid but close to its rows. This matters for
    K of 1 or 2; for larger K the selection is mostly that of the nearest centroids.

    Parameters
    ----------
    n_candidates : int
        Number of experts, those with the nearest centroids, whose rows are compared with the query. It bounds
        the time of a query for any number of experts.
    """

    uses_rows = True
    refits_quickly = True

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
        return self.select_without(X, n_selected, np.full(len(X), -1))

    def select_without(self, X: np.ndarray, n_selected: int, positions: np.ndarray) -> np.ndarray:
        M = len(self.starts_) - 1
        if n_selected == M == 1:
            return np.zeros((len(X), 1), dtype=np.int64)
        index = np.empty((len(X), n_selected), dtype=np.int64)
        for start in range(0, len(X), BATCH):
            batch = slice(start, start + BATCH)
            candidates = self.by_centroid_.select(X[batch], min(M, max(self.n_candidates, n_selected)))
            Z = self.by_centroid_.scaled(X[batch])
            distance = self._nearest(Z, candidates, n_selected, positions[batch])
            order = np.argsort(distance_keys(distance), axis=1, kind="stable")[:, :n_selected]
            index[batch] = np.take_along_axis(candidates, order, axis=1)
        return index

    def _nearest(
        self, Z: np.ndarray, candidates: np.ndarray, n_selected: int, left_out: np.ndarray
    ) -> np.ndarray:
        """Squared distance of each query (n, d) to the nearest row of each candidate, (n, C).

        It is infinite for candidates that cannot be among the nearest `n_selected`, by the boxes around their
        rows; these rows are not read. The rows `left_out` (n,), one for each query, do not count.
        """
        if n_selected == candidates.shape[1]:
            return self._distances(Z, candidates, left_out)
        bound = self._lower_bound(Z, candidates)
        likely = np.zeros(candidates.shape, dtype=bool)
        first = np.argpartition(bound, n_selected, axis=1)[:, : n_selected + 1]
        np.put_along_axis(likely, first, True, axis=1)
        distance = self._distances(Z, np.where(likely, candidates, -1), left_out)
        kth = np.partition(distance, n_selected - 1, axis=1)[:, n_selected - 1 : n_selected]
        possible = ~likely & (bound <= kth * _MARGIN)
        return np.minimum(distance, self._distances(Z, np.where(possible, candidates, -1), left_out))

    def _lower_bound(self, Z: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Squared distance of each query to the box around the rows of each candidate, (n, C)."""
        low, high = self._boxes()
        distance = np.empty(candidates.shape)
        step = max(1, _ENTRIES // (candidates.shape[1] * Z.shape[1]))
        for start in range(0, len(Z), step):
            chunk = slice(start, start + step)
            z, box = Z[chunk, None], candidates[chunk]
            outside = np.maximum(low[box] - z, z - high[box])
            np.maximum(outside, 0.0, out=outside)
            distance[chunk] = np.einsum("ncd,ncd->nc", outside, outside)
        return distance

    def _boxes(self) -> _Boxes:
        """The boxes around the experts' rows; computed at first use and not saved with a model."""
        if not hasattr(self, "boxes_"):
            low, high = self.by_centroid_.places_.copy(), self.by_centroid_.places_.copy()
            (owners,) = np.nonzero(np.diff(self.starts_))  # a sample may have no row of some experts
            per_step = max(1, _ENTRIES * len(owners) // max(1, self.rows_.size))
            for start in range(0, len(owners), per_step):
                some = owners[start : start + per_step]
                begin, end = self.starts_[some[0]], self.starts_[some[-1] + 1]
                rows = self.by_centroid_.scaled(self.rows_[begin:end])
                low[some] = np.minimum.reduceat(rows, self.starts_[some] - begin)
                high[some] = np.maximum.reduceat(rows, self.starts_[some] - begin)
            self.boxes_ = _Boxes(low, high)
        return self.boxes_

    def _distances(self, Z: np.ndarray, candidates: np.ndarray, left_out: np.ndarray) -> np.ndarray:
        """Squared distance of each query (n, d) to the nearest row of each candidate, (n, C).

        It is infinite where `candidates` is −1, and where the row that is left out is the only one.
        """
        distance = np.full(candidates.shape, np.inf)
        for i, query, column in queries_by_expert(candidates):
            centroid = self.by_centroid_.places_[i]
            rows = self.by_centroid_.scaled(self.rows_[self.starts_[i] : self.starts_[i + 1]])
            if len(rows) == 0:  # a sample may have no row of this expert
                rows = centroid[None]
            # |z − r|² = |z|² + |r|² − 2 zᵀr: one matrix product finds the nearest row. Its distance is then
            # computed from the difference, because this formula loses digits.
            centred = rows - centroid
            half_square = 0.5 * np.einsum("md,md->m", centred, centred)
            for start in range(0, len(query), CHUNK):
                chunk = slice(start, start + CHUNK)
                z, own = Z[query[chunk]], left_out[query[chunk]] - self.starts_[i]
                value = half_square - (z - centroid) @ centred.T
                (owned,) = np.nonzero((own >= 0) & (own < len(rows)))
                value[owned, own[owned]] = np.inf
                nearest = np.argmin(value, axis=1)
                difference = z - rows[nearest]
                square = np.einsum("nd,nd->n", difference, difference)
                square[np.isinf(value[np.arange(len(z)), nearest])] = np.inf
                distance[query[chunk], column[chunk]] = square
        return distance


class _Boxes(NamedTuple):
    """Smallest and largest value of each input among the rows of each expert, both (M, d)."""

    low: np.ndarray
    high: np.ndarray

"""Exact nearest rows in the metric of a kernel, the same on every engine.

Rows are ordered by (distance, row number), where distances that agree to 30 bits count as equal: the rest is
rounding. So the result does not depend on the batch, the number of threads, or where and in which order rows
are stored.

There are two searches, both exact. SciPy's k-d tree is used where few directions carry the distances, as
length scales make it on most tables: its time grows with the logarithm of n. Where many directions do, a tree
visits most of its leaves, and one pass over all rows by matrix products is faster
(`benchmarks/neighbours.py` measures both).
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from gpexperts.engines.base import Engine
from gpexperts.scaling import scaled_offsets

__all__ = ["Nearest", "RowIndex", "distance_keys", "merged"]

_LEAF = 32
"""Rows per leaf of the tree."""
_MANY_DIRECTIONS = 10.0
"""Effective number of directions (see `_directions`) from which all rows are scanned."""
_WIDE, _SCANNED = 64, 20_000
"""Columns from which up to so many rows are scanned in any case: a tree visits whole rows, one by one."""
_REPEATED = 0.5
"""Share of distinct rows below which the tree holds each of them once."""
_DROPPED_BITS = 22
"""Of the 52 bits of a double's fraction; 30 remain."""
_SURELY = 1.0 + 4e-9
"""Distances with this ratio differ in their keys, however they were rounded."""
_SAMPLE = 4096
"""Rows that bound the distance of the m-th neighbour before all rows are scanned."""
_ENTRIES = 2_000_000
"""Of a work array."""
_QUERIES = 256
"""Queries that a thread scans at a time."""


class Nearest(NamedTuple):
    """The rows nearest to each of k points, nearest first."""

    squared_distance: np.ndarray
    """(k, m)"""
    number: np.ndarray
    """(k, m)"""


def merged(several: list[Nearest], m: int) -> Nearest:
    """Return the m nearest rows of several sets of rows."""
    sq, number = (np.concatenate(columns, axis=1) for columns in zip(*several, strict=True))
    order = _first(sq, number, m)
    return Nearest(*(np.take_along_axis(values, order, axis=1) for values in (sq, number)))


def distance_keys(sq: np.ndarray) -> np.ndarray:
    """Return integers that order squared distances, equal where these agree to 30 bits."""
    bits = np.ascontiguousarray(sq, dtype=np.float64).view(np.int64)
    return (bits + (1 << (_DROPPED_BITS - 1))) >> _DROPPED_BITS


def _first(sq: np.ndarray, number: np.ndarray, m: int) -> np.ndarray:
    """Positions of the first m along the last axis by (distance, row number)."""
    return np.lexsort((number, distance_keys(sq)), axis=-1)[..., :m]


class RowIndex:
    """Exact nearest-neighbour search over training rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    metric : ndarray of shape (d,)
        Length scales: distances are |(x − x') / metric|.
    numbers : ndarray of int, shape (n,), optional
        Row numbers, which break ties; by default the positions.
    """

    def __init__(self, X: np.ndarray, metric: np.ndarray, numbers: np.ndarray | None = None) -> None:
        self.metric = np.asarray(metric, dtype=float)
        self._centre = X.mean(axis=0) if len(X) else np.zeros(X.shape[1])
        self._Z = self._scaled(X)
        self._numbers = np.arange(len(X)) if numbers is None else numbers
        self._search: _Tree | _Scan | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_search": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def nearest(self, X: np.ndarray, m: int, engine: Engine | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Find the m nearest rows of every query.

        Parameters
        ----------
        X : ndarray of shape (q, d)
        m : int
            From 1 to n.
        engine : Engine, optional
            Whose workers search; by default the calling thread.

        Returns
        -------
        positions : ndarray of int, shape (q, m)
            By (distance, row number).
        squared_distance : ndarray of shape (q, m)
        """
        if not len(X):
            return np.empty((0, m), dtype=np.int64), np.empty((0, m))
        with self._lock:
            if self._search is None:
                n, d = self._Z.shape
                scans = (d > _WIDE and n <= _SCANNED) or _directions(self._Z) > _MANY_DIRECTIONS
                self._search = (_Scan if scans else _Tree)(self._Z, self._numbers)
        return self._search.nearest(self._scaled(X), m, engine)

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return scaled_offsets(X, self._centre, self.metric)  # centred first: no digits are lost


class _Tree:
    """A k-d tree, over the distinct rows where many repeat."""

    def __init__(self, Z: np.ndarray, numbers: np.ndarray) -> None:
        self.Z, self.numbers = Z, numbers
        self.group = _groups(Z, numbers)
        points = Z if self.group is None else Z[self.group[0][self.group[1][:-1]]]
        self.tree = cKDTree(points, leafsize=_LEAF, balanced_tree=False, compact_nodes=False)

    def nearest(self, Z: np.ndarray, m: int, engine: Engine | None) -> tuple[np.ndarray, np.ndarray]:
        workers = 1 if engine is None or len(Z) < 64 else engine.n_workers
        if self.group is not None:
            return self._nearest_of_groups(Z, m, workers)
        found = min(m + 1, len(self.Z))
        distance, rows = self._query(Z, found, workers)
        sq = distance * distance
        key = distance_keys(sq)
        tied = key[:, 1:] == key[:, :-1]
        some = np.flatnonzero(tied.any(axis=1))
        at_rim = tied[:, m - 1] if found > m else np.zeros(len(Z), dtype=bool)
        rows, sq = rows[:, :m], sq[:, :m]
        if len(some):
            rows, sq = rows.copy(), sq.copy()
            for q in np.flatnonzero(at_rim):  # several rows at the m-th distance: the row number decides
                rows[q], sq[q] = self._resolve(Z[q], distance[q, m], m)
            order = _first(sq[some], self.numbers[rows[some]], m)
            rows[some] = np.take_along_axis(rows[some], order, axis=1)
            sq[some] = np.take_along_axis(sq[some], order, axis=1)
        return rows, sq

    def _query(self, Z: np.ndarray, m: int, workers: int) -> tuple[np.ndarray, np.ndarray]:
        distance, rows = self.tree.query(Z, k=m, workers=workers)
        return (distance, rows) if m > 1 else (distance[:, None], rows[:, None])

    def _resolve(self, z: np.ndarray, radius: float, m: int) -> tuple[np.ndarray, np.ndarray]:
        """The m first by (distance, number) of all rows within a radius that holds at least m."""
        rows = np.array(self.tree.query_ball_point(z, radius * _SURELY), dtype=np.int64)
        sq = _squares(z, self.Z[rows])
        order = _first(sq, self.numbers[rows], m)
        return rows[order], sq[order]

    def _nearest_of_groups(self, Z: np.ndarray, m: int, workers: int) -> tuple[np.ndarray, np.ndarray]:
        assert self.group is not None
        members, starts = self.group
        rows, sq = np.empty((len(Z), m), dtype=np.int64), np.empty((len(Z), m))
        count, size = min(m, self.tree.n), np.diff(starts)
        step = max(1, _ENTRIES // (count + m))
        for begin in range(0, len(Z), step):
            distance, points = self._query(Z[begin : begin + step], count, workers)
            # The distance within which there are m rows.
            enough = np.argmax(np.cumsum(size[points], axis=1) >= m, axis=1)
            for i, last in enumerate(enough):
                z, reach = Z[begin + i], distance[i, last] * _SURELY
                near = points[i, : np.searchsorted(distance[i], reach, side="right")]
                if len(near) == count < self.tree.n:  # further points may tie with the last one
                    near = np.array(self.tree.query_ball_point(z, reach), dtype=np.int64)
                own = np.concatenate([members[starts[g] : starts[g + 1]][:m] for g in near])
                square = np.repeat(_squares(z, self.tree.data[near]), np.minimum(size[near], m))
                order = _first(square, self.numbers[own], m)
                rows[begin + i], sq[begin + i] = own[order], square[order]
        return rows, sq


class _Scan:
    """All rows by matrix products: |z − r|² = |z|² + |r|² − 2 zᵀr finds candidates, differences rank them."""

    def __init__(self, Z: np.ndarray, numbers: np.ndarray) -> None:
        self.Z, self.numbers = Z, numbers
        self.half_square = 0.5 * np.einsum("nd,nd->n", Z, Z)
        self.stride = max(1, len(Z) // _SAMPLE)

    def nearest(self, Z: np.ndarray, m: int, engine: Engine | None) -> tuple[np.ndarray, np.ndarray]:
        def piece(some: slice) -> tuple[np.ndarray, np.ndarray]:
            return self._piece(Z[some], m)

        step = max(1, min(_QUERIES, _ENTRIES // len(self.Z)))
        pieces = [slice(start, start + step) for start in range(0, len(Z), step)]
        found = (
            [piece(p) for p in pieces] if engine is None or len(pieces) == 1 else engine.map(piece, pieces)
        )
        rows, sq = zip(*found, strict=True)
        return np.concatenate(rows), np.concatenate(sq)

    def _piece(self, Z: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
        rows, sq = np.empty((len(Z), m), dtype=np.int64), np.empty((len(Z), m))
        half = Z @ self.Z.T  # (|z − r|² − |z|²) / 2 in what follows
        np.subtract(self.half_square, half, out=half)
        half_query = 0.5 * np.einsum("nd,nd->n", Z, Z)
        # Bound of the rounding error of this difference of squares.
        slack = 1e-14 * Z.shape[1] * (half_query + self.half_square.max())
        for q in range(len(Z)):
            value = half[q]
            sample = value[:: self.stride]
            if len(sample) > m:
                bound = np.partition(sample, m - 1)[m - 1]
                near = np.flatnonzero(value <= bound + slack[q])
            else:
                near = np.arange(len(value))
            if len(near) > m:
                bound = np.partition(value[near], m - 1)[m - 1]
                # Rows whose distance agrees with the m-th to 30 bits are kept: their numbers decide.
                tie = (_SURELY - 1.0) * max(0.0, float(bound + half_query[q]))
                near = near[value[near] <= bound + 2.0 * slack[q] + tie]
            squares = _squares(Z[q], self.Z[near])
            order = _first(squares, self.numbers[near], m)
            rows[q], sq[q] = near[order], squares[order]
        return rows, sq


def _squares(z: np.ndarray, rows: np.ndarray) -> np.ndarray:
    away = rows - z
    return np.einsum("nd,nd->n", away, away)


def _directions(Z: np.ndarray) -> float:
    """(Σ λ)² / Σ λ² of the variances λ along the principal axes: the effective number of directions."""
    sample = Z[:: max(1, len(Z) // 2000)]
    centred = sample - sample.mean(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        C = centred.T @ centred if len(sample) >= Z.shape[1] else centred @ centred.T
        square = float(np.vdot(C, C))
        return float(np.trace(C)) ** 2 / square if 0.0 < square < np.inf else 1.0


def _groups(Z: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows sorted by value and number, and where each distinct value starts; None if few repeat."""
    stride = max(1, len(Z) // 20_000)
    if stride > 1 and len(np.unique(Z[::stride], axis=0)) == len(Z[::stride]):
        return None  # if half of the rows repeated others, some of 20,000 would
    order = np.lexsort((numbers, *Z.T[::-1]))
    previous = order[:-1]
    new = np.ones(len(Z), dtype=bool)
    step = max(1, _ENTRIES // Z.shape[1])
    for start in range(1, len(Z), step):
        some = slice(start, min(start + step, len(Z)))
        new[some] = (Z[order[some]] != Z[previous[some.start - 1 : some.stop - 1]]).any(axis=1)
    starts = np.flatnonzero(new)
    if len(starts) >= _REPEATED * len(Z):
        return None
    return order, np.append(starts, len(Z))

"""Rows in the memory of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpexperts.row_noise import plain, weights
from gpexperts.rows.base import Mapping, Route, Rows, RowSource, Units
from gpexperts.rows.neighbours import RowIndex
from gpexperts.scaling import ColumnSummary

__all__ = ["ArrayRows"]


class ArrayRows(RowSource):
    """Rows in two arrays.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, p)
    noise : ndarray of shape (n, 2) or (n, 0), optional
        Weight and given noise of each row; see `row_noise`.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, noise: np.ndarray | None = None) -> None:
        self.X, self.y = X, y
        self.noise = plain(len(X)) if noise is None else noise
        self.n, self.n_features = X.shape
        self.n_outputs = y.shape[1]
        self._index: RowIndex | None = None  # of the last search: training searches in each metric twice

    def summary(self) -> tuple[ColumnSummary, ColumnSummary]:
        w = weights(self.noise) if self.noise.shape[1] else None
        return ColumnSummary.of(self.X, w), ColumnSummary.of(self.y, w)

    def in_units(self, units: Units) -> ArrayRows:
        return ArrayRows(*units.apply(self.X, self.y, self.noise))

    def mapped(self, function: Mapping) -> ArrayRows:
        return ArrayRows(*function(Rows(np.arange(self.n), self.X, self.y, self.noise)))

    def without(self, numbers: np.ndarray) -> ArrayRows:
        kept = np.ones(self.n, dtype=bool)
        kept[numbers] = False
        return ArrayRows(self.X[kept], self.y[kept], self.noise[kept])

    def take(self, numbers: np.ndarray) -> Rows:
        if len(numbers) == self.n:  # ascending, so that these are all
            return Rows(numbers, self.X, self.y, self.noise)
        return Rows(numbers, self.X[numbers], self.y[numbers], self.noise[numbers])

    def in_memory(self) -> ArrayRows:
        return self

    def nearest(self, points: np.ndarray, metric: np.ndarray, m: int) -> np.ndarray:
        index = self._index
        if index is None or not np.array_equal(index.metric, metric):
            index = self._index = RowIndex(self.X, metric)
        return index.nearest(points, m)[0]

    def shard_sizes(self, route: Route, n_shards: int) -> np.ndarray:
        shard = route(self.X, np.arange(self.n))
        return np.bincount(shard[shard >= 0], minlength=n_shards)

    def map_shards(
        self, route: Route, n_shards: int, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        shard = route(self.X, np.arange(self.n))
        order = np.argsort(shard, kind="stable")
        ends = np.searchsorted(shard[order], np.arange(n_shards + 1))
        results = []
        for g, given in enumerate(arguments):
            numbers = order[ends[g] : ends[g + 1]]
            rows = Rows(numbers, self.X[numbers], self.y[numbers], self.noise[numbers])
            results.append(function(rows, *given))
        return results

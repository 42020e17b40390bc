"""Rows in the memory of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpexperts.rows.base import Route, Rows, RowSource, Units
from gpexperts.rows.neighbours import RowIndex
from gpexperts.scaling import ColumnSummary

__all__ = ["ArrayRows"]


class ArrayRows(RowSource):
    """Rows in two arrays.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, p)
    """

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        self.X, self.y = X, y
        self.n, self.n_features = X.shape
        self.n_outputs = y.shape[1]

    def summary(self) -> tuple[ColumnSummary, ColumnSummary]:
        return ColumnSummary.of(self.X), ColumnSummary.of(self.y)

    def in_units(self, units: Units) -> ArrayRows:
        return ArrayRows(*units.apply(self.X, self.y))

    def without(self, numbers: np.ndarray) -> ArrayRows:
        kept = np.ones(self.n, dtype=bool)
        kept[numbers] = False
        return ArrayRows(self.X[kept], self.y[kept])

    def take(self, numbers: np.ndarray) -> Rows:
        if len(numbers) == self.n:  # ascending, so that these are all
            return Rows(numbers, self.X, self.y)
        return Rows(numbers, self.X[numbers], self.y[numbers])

    def in_memory(self) -> ArrayRows:
        return self

    def nearest(self, points: np.ndarray, metric: np.ndarray, m: int) -> np.ndarray:
        return RowIndex(self.X, metric).nearest(points, m)[0]

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
            results.append(function(Rows(numbers, self.X[numbers], self.y[numbers]), *given))
        return results

"""The contract of a row source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpexperts.row_noise import scaled
from gpexperts.scaling import ColumnSummary, Standardizer

__all__ = ["SAMPLE_ROWS", "Mapping", "Route", "RowSource", "Rows", "Units"]

SAMPLE_ROWS = 100_000
"""Rows that are sampled to choose training blocks and shards. A source with no more rows is read whole."""

Route = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Inputs (k, d) and row numbers (k,) ↦ the shard of each row (k,); −1 leaves a row out. Must be picklable."""


class Rows(NamedTuple):
    """Some rows, in ascending order of their numbers unless stated otherwise."""

    number: np.ndarray
    """(k,) of each row in the source."""
    X: np.ndarray
    """(k, d) inputs."""
    y: np.ndarray
    """(k, p) targets."""
    noise: np.ndarray
    """(k, 2) weight and given noise of each row, or (k, 0); see `row_noise`."""

    def __sizeof__(self) -> int:
        return int(sum(column.nbytes for column in self))

    def take(self, positions: Any) -> Rows:
        """Return the rows at some positions."""
        return Rows(*(column[positions] for column in self))


Mapping = Callable[[Rows], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Rows ↦ their new inputs (k, d'), targets (k, p) and table of noise. Must be picklable."""


class Units(NamedTuple):
    """The units of the rows that a source returns."""

    x: Standardizer
    y: Standardizer
    weight: float = 1.0
    """The weight that counts as 1."""

    def apply(
        self, X: np.ndarray, y: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return inputs, targets and the table of noise in these units."""
        return self.x.transform(X), self.y.transform(y), scaled(noise, float(self.y.scale[0]), self.weight)


class RowSource(ABC):
    """Training rows, numbered 0 … n − 1."""

    n: int
    n_features: int
    n_outputs: int

    @abstractmethod
    def summary(self) -> tuple[ColumnSummary, ColumnSummary]:
        """Summarise the columns of X and of y."""

    @abstractmethod
    def in_units(self, units: Units) -> RowSource:
        """Return the same rows in other units, relative to those of this source."""

    @abstractmethod
    def mapped(self, function: Mapping) -> RowSource:
        """Return the same rows with other inputs, targets or noise."""

    @abstractmethod
    def without(self, numbers: np.ndarray) -> RowSource:
        """Return the source without some rows; those left are numbered anew, in the same order."""

    @abstractmethod
    def take(self, numbers: np.ndarray) -> Rows:
        """Return the rows with ascending numbers."""

    @abstractmethod
    def nearest(self, points: np.ndarray, metric: np.ndarray, m: int) -> np.ndarray:
        """Return the numbers of the m rows nearest to each point, nearest first.

        Parameters
        ----------
        points : ndarray of shape (k, d)
        metric : ndarray of shape (d,)
            Lengths that count as equal in the different inputs.
        m : int
            At most n.

        Returns
        -------
        numbers : ndarray of int, shape (k, m)
            Ties are broken by the row number.
        """

    @abstractmethod
    def map_shards(
        self, route: Route, n_shards: int, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        """Bring the rows of each shard together and apply a function to them.

        Parameters
        ----------
        route : callable
        n_shards : int
        function : callable
            (Rows of a shard, *arguments[g]) ↦ result; picklable.
        arguments : sequence of tuple
            One per shard.

        Returns
        -------
        results : list
            One per shard: values, or Delayed that stand for values on the workers of a cluster.
        """

    @abstractmethod
    def shard_sizes(self, route: Route, n_shards: int) -> np.ndarray:
        """Count the rows of each shard, shape (n_shards,)."""

    def in_memory(self) -> RowSource:
        """Return the same rows as arrays of this process."""
        from gpexperts.rows.arrays import ArrayRows

        _, X, y, noise = self.take(np.arange(self.n))
        return ArrayRows(X, y, noise)

    def sample(self, size: int, random_state: np.random.RandomState) -> Rows:
        """Draw `size` rows at random, or all if there are no more."""
        if size >= self.n:
            return self.take(np.arange(self.n))
        return self.take(np.sort(random_state.choice(self.n, size, replace=False)))

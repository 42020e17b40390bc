"""Shards: many rows are divided by places in input space, then each shard is partitioned by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from gpexperts.partition.balanced import BalancedPartitioner
from gpexperts.partition.base import Partitioner, Parts, compact, sorted_parts
from gpexperts.rows.base import Rows, RowSource

__all__ = ["MAX_SHARDS", "SHARD_ROWS", "partition_shards"]

SHARD_ROWS = 25_000
"""Rows of a shard. It does not depend on the number of workers, nor does the model."""
MAX_SHARDS = 1000
"""Every partition sends a piece to every shard: beyond this many, shards grow instead of their number."""


@dataclass(frozen=True)
class _Router:
    """Routes rows to shards: the nearest of some places, or at random by row number."""

    metric: np.ndarray
    places: np.ndarray | None
    """(G, d) in the metric; None divides the rows at random."""
    order: np.ndarray | None
    """(n,) shard of each row where they are divided at random."""
    left_out: np.ndarray
    """Numbers of the rows that are shared by all experts."""

    def __call__(self, X: np.ndarray, number: np.ndarray) -> np.ndarray:
        if self.places is None:
            assert self.order is not None
            shard = self.order[number].astype(np.int64)
        else:
            _, nearest = cKDTree(self.places).query(X / self.metric, workers=-1)
            shard = np.asarray(nearest)
        if len(self.left_out):
            shard[np.isin(number, self.left_out)] = -1
        return shard


def partition_shards(
    source: RowSource,
    n_experts: int,
    partitioner: Partitioner,
    metric: np.ndarray,
    sample: Rows,
    shared: np.ndarray,
    random_state: np.random.RandomState,
) -> list[Any]:
    """Divide the rows into shards and partition each; returns `Parts`, or Delayed that stand for them."""
    n_shards = min(n_experts, MAX_SHARDS, -(-source.n // SHARD_ROWS))
    places, order = None, None
    if partitioner.uses_inputs and n_shards > 1:
        Z = sample.X / metric
        labels = compact(BalancedPartitioner().partition(Z, n_shards, random_state))
        places = sorted_parts(sample._replace(X=Z), labels).centroids
        n_shards = len(places)
    else:
        order = random_state.permutation(np.arange(source.n, dtype=np.int32) % n_shards)
    route = _Router(metric, places, order, shared)
    counts = _apportioned(n_experts, source.shard_sizes(route, n_shards))
    seeds = random_state.randint(np.iinfo(np.int32).max, size=n_shards)
    arguments = [
        (int(count), partitioner, metric, int(seed)) for count, seed in zip(counts, seeds, strict=True)
    ]
    cut = source.map_shards(route, n_shards, _cut, arguments)
    return [parts for parts, count in zip(cut, counts, strict=True) if count]


def _cut(rows: Rows, n_parts: int, partitioner: Partitioner, metric: np.ndarray, seed: int) -> Parts | None:
    """Partition the rows of a shard; None for a shard without rows."""
    if n_parts == 0:
        return None
    labels = np.zeros(len(rows.X), dtype=np.int64)
    if n_parts > 1:
        labels = partitioner.partition(rows.X / metric, n_parts, np.random.RandomState(seed))
    return sorted_parts(rows, labels)


def _apportioned(total: int, sizes: np.ndarray) -> np.ndarray:
    """Divide `total` parts among shards by their rows: at least one each, none more than its rows.

    Empty shards get none.
    """
    number = np.clip(np.floor(total * (sizes / sizes.sum())).astype(np.int64), np.minimum(sizes, 1), sizes)
    for _ in range(int(number.sum()) - total):  # small shards have got more than their share
        if number.max() <= 1:
            break
        number[np.argmin(np.where(number > 1, sizes / np.maximum(number, 1), np.inf))] -= 1
    for _ in range(total - int(number.sum())):
        room = number < sizes
        if not room.any():
            break
        # The next part goes where parts are largest (D'Hondt's rule).
        number[np.argmax(np.where(room, sizes / np.maximum(number, 1), -1.0))] += 1
    return number

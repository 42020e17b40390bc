"""From blocks of rows to groups of experts.

A sample says how space is cut into groups, each of some ten thousand rows. Every block is split along
these cuts, what belongs to one group meets in one task, which serves a bundle of groups, and there it is
cut into the parts of its experts by the partitioner itself, on all of the group's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from gpexperts.cluster.inputs import Block, chosen_rows
from gpexperts.engines.dask import DaskEngine
from gpexperts.experts.local import Experts, Sample
from gpexperts.kernels.named import Covariance
from gpexperts.partition.balanced import BalancedPartitioner
from gpexperts.partition.base import Partitioner, centroids_of, compact
from gpexperts.partition.random import RandomPartitioner
from gpexperts.scaling import Standardizer
from gpexperts.training.likelihood import Block as TrainingBlock

__all__ = [
    "Cut",
    "Parts",
    "apportioned",
    "bundles",
    "cut_group",
    "founded",
    "labelled_sample",
    "parts_meta",
    "shuffled",
    "training_blocks",
]

GROUPS_PER_BUNDLE = 10
BUNDLE_BYTES = 32 * 1024**2
"""A bundle has at most this many groups, and of rows this many bytes or a single group: it must fit a worker
several times."""


class Parts(NamedTuple):
    """The rows of a group, sorted by expert, in the units the kernel sees."""

    X: np.ndarray
    y: np.ndarray
    offsets: np.ndarray

    def __sizeof__(self) -> int:
        return int(self.X.nbytes + self.y.nbytes)


class Cut(NamedTuple):
    """How rows find their group: the nearest of some places, or chance."""

    x_scale: Standardizer
    y_scale: Standardizer
    metric: np.ndarray
    """(d,) what counts as 1 in each standardised input."""
    places: np.ndarray | None
    """(G, d) in that metric; None where groups are dealt at random."""
    n_groups: int

    @classmethod
    def of_sample(
        cls,
        Z: np.ndarray,
        partitioner: Partitioner,
        n_groups: int,
        random_state: np.random.RandomState,
        *,
        x_scale: Standardizer,
        y_scale: Standardizer,
        metric: np.ndarray,
    ) -> Cut:
        """Learn groups of equal size from a sample Z (k, d), in the metric."""
        if isinstance(partitioner, RandomPartitioner) or n_groups == 1:
            return cls(x_scale, y_scale, metric, None, n_groups)
        labels = compact(BalancedPartitioner().partition(Z, n_groups, random_state))
        order = np.argsort(labels, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(labels))])
        places = centroids_of(Z[order], offsets)
        return cls(x_scale, y_scale, metric, places, len(places))

    def route(self, X: np.ndarray, seed: int) -> np.ndarray:
        """Group of every standardised row."""
        if self.places is None:
            return np.random.RandomState(seed).randint(self.n_groups, size=len(X))
        _, group = cKDTree(self.places).query(X / self.metric)
        return np.asarray(group)


class _Piece(NamedTuple):
    """What a block has of a bundle of groups, sorted by group."""

    X: np.ndarray
    y: np.ndarray
    ends: np.ndarray
    """(number of groups + 1,) where the rows of each begin, and the last ones end."""

    def of(self, g: int) -> Block:
        """The rows of the bundle's g-th group."""
        rows = slice(self.ends[g], self.ends[g + 1])
        return self.X[rows], self.y[rows]


def _split(block: Block, cut: Cut, seed: int, left_out: tuple[int, int], borders: np.ndarray) -> list[_Piece]:
    """A block's rows by bundle of groups; `left_out` are the number and seed of rows that all experts share.

    Bundle b is of the groups ``borders[b]`` to ``borders[b + 1] − 1``.
    """
    X, y = cut.x_scale.transform(block[0]), cut.y_scale.transform(block[1])
    if left_out[0]:
        kept = np.ones(len(X), dtype=bool)
        kept[chosen_rows(len(X), *left_out)] = False
        X, y = X[kept], y[kept]
    group = cut.route(X, seed)
    order = np.argsort(group, kind="stable")
    ends = np.searchsorted(group[order], np.arange(cut.n_groups + 1))
    pieces = []
    for a, b in pairwise(borders.tolist()):
        rows = order[ends[a] : ends[b]]
        pieces.append(_Piece(X[rows], y[rows], ends[a : b + 1] - ends[a]))
    return pieces


def _lengths(split: list[_Piece]) -> np.ndarray:
    """Rows of every group, (G,)."""
    return np.concatenate([np.diff(piece.ends) for piece in split])


def _one(several: list[Any], k: int) -> Any:
    return several[k]


def _cut_bundle(
    pieces: Sequence[_Piece],
    counts: list[int],
    partitioner: Partitioner,
    metric: np.ndarray,
    seeds: list[int],
) -> list[Parts | None]:
    """Bring the rows of a bundle of groups together and cut each group; one that gets no part has no row."""
    return [
        cut_group([piece.of(g) for piece in pieces], count, partitioner, metric, seed) if count else None
        for g, (count, seed) in enumerate(zip(counts, seeds, strict=True))
    ]


def cut_group(
    blocks: Sequence[Block], n_parts: int, partitioner: Partitioner, metric: np.ndarray, seed: int
) -> Parts:
    """Bring the rows of a group together and cut them into the parts of its experts."""
    X, y = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
    labels = np.zeros(len(X), dtype=np.int64)
    if n_parts > 1:
        labels = compact(partitioner.partition(X / metric, n_parts, np.random.RandomState(seed)))
    order = np.argsort(labels, kind="stable")
    return Parts(X[order], y[order], np.concatenate([[0], np.cumsum(np.bincount(labels))]))


def apportioned(total: int, sizes: np.ndarray) -> np.ndarray:
    """Deal `total` parts to groups by their rows: at least one each, none more than its rows.

    Empty groups get none.
    """
    number = np.clip(np.floor(total * (sizes / sizes.sum())).astype(np.int64), np.minimum(sizes, 1), sizes)
    for _ in range(total - int(number.sum())):
        room = number < sizes
        if not room.any():
            break
        # The next part goes where parts are largest (D'Hondt's rule).
        number[np.argmax(np.where(room, sizes / np.maximum(number, 1), -1.0))] += 1
    return number


def shuffled(
    engine: DaskEngine,
    blocks: Sequence[Any],
    cut: Cut,
    n_experts: int,
    partitioner: Partitioner,
    random_state: np.random.RandomState,
    left_out: Sequence[tuple[int, int]],
    n_bytes: int,
) -> list[Any]:
    """Bring the rows of every group together; returns Delayed `Parts`, kept on the workers.

    `n_bytes` is what all rows take.
    """
    seeds = random_state.randint(np.iinfo(np.int32).max, size=(len(blocks) + cut.n_groups))
    borders = bundles(cut.n_groups, engine.n_workers, n_bytes // cut.n_groups)
    splits = engine.persist(
        [
            engine.task(f"split of block {b}", _split, block, cut, int(seeds[b]), left_out[b], borders)
            for b, block in enumerate(blocks)
        ]
    )
    sizes = np.sum(engine.compute([engine.task("sizes", _lengths, split) for split in splits]), axis=0)
    counts, seeds = apportioned(n_experts, sizes), seeds[len(blocks) :]
    groups = []
    for k, (a, b) in enumerate(pairwise(borders.tolist())):
        pieces = [engine.task(f"rows of groups {a}..{b - 1}", _one, split, k) for split in splits]
        wanted = counts[a:b].tolist(), partitioner, cut.metric, seeds[a:b].tolist()
        bundle = engine.task(f"parts of groups {a}..{b - 1}", _cut_bundle, pieces, *wanted)
        groups += [engine.task(f"parts of group {g}", _one, bundle, g - a) for g in range(a, b) if counts[g]]
    return engine.persist(groups)


def bundles(n_groups: int, n_workers: int, group_bytes: int) -> np.ndarray:
    """Borders of the bundles in which groups are brought together.

    Every block sends a piece to every bundle, so that few bundles are few tasks; there is one for each
    worker, while there are groups. Neither the groups nor their rows depend on it.
    """
    most = min(GROUPS_PER_BUNDLE, max(1, BUNDLE_BYTES // max(1, group_bytes)))
    n_bundles = min(n_groups, max(-(-n_groups // most), n_workers))
    return np.linspace(0, n_groups, n_bundles + 1).astype(np.int64)


def parts_meta(parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """Sizes (M_g,) and centroids (M_g, d) of the parts of a group."""
    return np.diff(parts.offsets), centroids_of(parts.X, parts.offsets)


def training_blocks(parts: Parts, teaches: Any) -> list[TrainingBlock]:
    """The parts of a group as blocks to train on."""
    return [
        TrainingBlock(parts.X[a:b], parts.y[a:b, teaches])
        for a, b in zip(parts.offsets[:-1], parts.offsets[1:], strict=True)
    ]


def founded(parts: Parts, covariance: Covariance, shared: Block | None, budget: int, first: int) -> Experts:
    """The experts of a group."""
    return Experts(*parts, covariance, shared=shared, factor_budget=budget, first=first)


def labelled_sample(parts: Parts, first: int, start: int, k: int, seed: int) -> Sample:
    """Draw k rows of a group, and one of every expert; the group begins with expert `first`, row `start`."""
    rows = np.union1d(parts.offsets[:-1], chosen_rows(len(parts.X), k, seed))
    labels = first + np.searchsorted(parts.offsets, rows, side="right") - 1
    return Sample(parts.X[rows], labels, start + rows)

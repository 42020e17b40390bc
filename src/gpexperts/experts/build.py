"""From parts to an expert store: in this process, or on the workers of a cluster."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from gpexperts.engines.base import Engine, Held
from gpexperts.engines.dask import DaskEngine, DaskHeld
from gpexperts.experts.dask import DaskExperts
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.store import ExpertStore, Observations, Sample
from gpexperts.kernels.base import Covariance
from gpexperts.memory import bytes_of
from gpexperts.partition.base import Parts, centroids_of
from gpexperts.rows.base import Rows
from gpexperts.training.likelihood import Block
from gpexperts.validation import is_auto

__all__ = ["Assigned", "build_store", "described", "training_blocks"]

SHARDS_PER_SLOT = 3
"""Shards for every thread of a worker: enough to balance the work."""
SHARD_BYTES = 64 * 1024**2
"""A shard holds at most this many bytes of rows: it must be cheap to move and to build again."""
FACTOR_SHARE = 0.3
"""Share of a worker's memory that factors may take at most; less if the user sets a budget."""


class Assigned:
    """Every row assigned to an expert, and what is known of the parts.

    Parameters
    ----------
    parts : list
        `Parts`, or Delayed that stand for them, in the order of experts.
    shared : Rows or None
        The communication set.
    engine : Engine
    n_features, n_outputs : int
    """

    def __init__(
        self, parts: list[Any], shared: Rows | None, engine: Engine, *, n_features: int, n_outputs: int
    ) -> None:
        self.parts, self.engine = parts, engine
        self.n_features, self.n_outputs = n_features, n_outputs
        self.shared: Observations | None = None if shared is None else Observations(*shared[1:])
        self.on_cluster = not isinstance(parts[0], Parts)
        if self.on_cluster:
            assert isinstance(engine, DaskEngine)
            metas = engine.compute(
                [engine.task(f"sizes of shard {g}", described, part) for g, part in enumerate(parts)]
            )
        else:
            metas = [described(part) for part in parts]
        sizes, centroids, noise_columns = zip(*metas, strict=True)
        self.noise_columns: int = noise_columns[0]
        self.sizes: np.ndarray = np.concatenate(sizes)
        self.centroids: np.ndarray = np.concatenate(centroids)
        self.firsts = np.concatenate([[0], np.cumsum([len(s) for s in sizes])])
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])

    def labels(self, n: int) -> np.ndarray | None:
        """Expert of each of n rows, −1 for shared ones; None where the rows are on a cluster."""
        if self.on_cluster:
            return None
        labels = np.full(n, -1)
        for first, part in zip(self.firsts, self.parts, strict=False):
            labels[part.rows.number] = first + np.repeat(np.arange(len(part.sizes)), part.sizes)
        return labels


def described(parts: Parts) -> tuple[np.ndarray, np.ndarray, int]:
    """Sizes (M,) and centroids (M, d) of parts, and the number of columns of their tables of noise."""
    return parts.sizes, centroids_of(parts.rows.X, parts.offsets), parts.rows.noise.shape[1]


def training_blocks(assigned: Assigned, outputs: np.ndarray) -> list[Block] | Held[Block]:
    """Every part as a block to train on, where it is; GRBCM's shared rows are one more.

    Parameters
    ----------
    assigned : Assigned
    outputs : ndarray of int
        Columns of y to train on.
    """
    shared = []
    if assigned.shared is not None:
        X, y, noise = assigned.shared
        shared = [Block(X, y[:, outputs], noise)]
    if not assigned.on_cluster:
        return [block for part in assigned.parts for block in _blocks(part, outputs)] + shared
    engine = assigned.engine
    assert isinstance(engine, DaskEngine)
    batches = [list(range(a, b)) for a, b in pairwise(assigned.firsts.tolist())]
    lists = [
        engine.task(f"training blocks {batch[0]}..{batch[-1]}", _blocks, part, outputs)
        for batch, part in zip(batches, assigned.parts, strict=True)
    ]
    if shared:
        batches.append([int(assigned.firsts[-1])])
        lists.append(engine.task("shared rows", list, shared))
    return DaskHeld(engine, batches, engine.persist(lists))


def build_store(
    assigned: Assigned, covariance: Covariance, *, factor_budget: int, memory_budget: Any
) -> ExpertStore:
    """Build the experts of assigned rows where the engine works.

    Parameters
    ----------
    assigned : Assigned
    covariance : Covariance
    factor_budget : int
        Bytes for the factors of experts in this process.
    memory_budget : int, str or "auto"
        As the user gave it; bounds the factors on each worker of a cluster.
    """
    engine, shared = assigned.engine, assigned.shared
    if not assigned.on_cluster:
        numbers, X, y, noise = map(np.concatenate, zip(*(part.rows for part in assigned.parts), strict=True))
        local = LocalExperts(
            X,
            y,
            assigned.offsets,
            covariance,
            numbers=numbers,
            noise=noise,
            shared=shared,
            factor_budget=factor_budget,
        )
        return _placed(engine, local, memory_budget) if isinstance(engine, DaskEngine) else local
    assert isinstance(engine, DaskEngine)
    firsts = assigned.firsts
    budget = _budget_per_shard(engine, memory_budget, len(assigned.parts))
    shards = [
        engine.task(f"experts {a}..{b - 1}", _shard_of, part, covariance, shared, budget, int(a))
        for part, (a, b) in zip(assigned.parts, pairwise(firsts), strict=True)
    ]
    sample = _sample(engine, assigned, bytes_of(memory_budget) // 4)
    return _store(
        engine,
        shards,
        firsts,
        assigned.offsets,
        covariance,
        shared,
        sample,
        budget,
        assigned.n_outputs,
        assigned.noise_columns,
    )


def _placed(engine: DaskEngine, experts: LocalExperts, memory_budget: Any) -> DaskExperts:
    """Move experts of this process to a cluster."""
    cost = np.concatenate([[0.0], np.cumsum(experts.sizes.astype(float) ** 2)])
    n_bytes = experts.X.nbytes + experts.y.nbytes
    n_shards = max(SHARDS_PER_SLOT * engine.n_workers, -(-n_bytes // SHARD_BYTES))
    firsts = np.searchsorted(cost, np.linspace(0.0, cost[-1], n_shards + 1))
    firsts[0], firsts[-1] = 0, experts.n_experts
    firsts = np.unique(firsts)
    budget = _budget_per_shard(engine, memory_budget, len(firsts) - 1)
    shards = [
        engine.task(
            f"experts {a}..{b - 1}",
            _shard,
            *_slice(experts, a, b),
            experts.covariance,
            experts.shared,
            budget,
            int(a),
        )
        for a, b in pairwise(firsts)
    ]
    return _store(
        engine,
        shards,
        firsts,
        experts.offsets,
        experts.covariance,
        experts.shared,
        experts.sample,
        budget,
        experts.n_outputs,
        experts.noise.shape[1],
    )


def _store(
    engine: DaskEngine,
    shards: list[Any],
    firsts: np.ndarray,
    offsets: np.ndarray,
    covariance: Covariance,
    shared: Observations | None,
    sample: Sample,
    budget: int,
    n_outputs: int,
    noise_columns: int,
) -> DaskExperts:
    work = list(shards)
    if shared is not None:
        none = np.zeros(1, dtype=np.int64)
        empty = Rows(none[:0], *(column[:0] for column in shared)), none
        work.append(
            engine.task("communication expert", _shard, *empty, covariance, shared, budget, int(firsts[-1]))
        )
    kept = engine.persist(work)
    return DaskExperts(
        engine,
        kept[: len(shards)],
        firsts,
        offsets,
        covariance,
        n_outputs=n_outputs,
        shared=shared,
        communication=kept[-1] if shared is not None else None,
        sample=sample,
        noise_columns=noise_columns,
    )


def _budget_per_shard(engine: DaskEngine, memory_budget: Any, n_shards: int) -> int:
    """Bytes that the factors of one shard may take on its worker."""
    memory = engine.worker_memory
    if memory is None:
        per_worker = bytes_of(memory_budget)
    else:
        per_worker = int(FACTOR_SHARE * memory)
        if not is_auto(memory_budget):
            per_worker = min(per_worker, bytes_of(memory_budget))
    shards_per_worker = -(-n_shards // max(1, len(engine.threads_of_workers)))
    return max(1, per_worker // shards_per_worker)


def _sample(engine: DaskEngine, assigned: Assigned, max_bytes: int) -> Sample:
    """Inputs for selectors: all if they take at most `max_bytes`, else every k-th row of each expert."""
    step = max(1, -(-8 * assigned.n_features * int(assigned.sizes.sum()) // max_bytes))
    starts = assigned.offsets[assigned.firsts]
    work = [
        engine.task(f"sample of shard {g}", _every, part, int(first), int(start), step)
        for g, (part, first, start) in enumerate(zip(assigned.parts, assigned.firsts, starts, strict=False))
    ]
    return Sample(*map(np.concatenate, zip(*engine.compute(work), strict=True)))


# ------------------------------------------------------------------------------ what a worker computes


def _blocks(part: Parts, outputs: np.ndarray) -> list[Block]:
    _, X, y, noise = part.rows
    return [Block(X[a:b], y[a:b, outputs], noise[a:b]) for a, b in pairwise(part.offsets)]


def _every(part: Parts, first: int, start: int, step: int) -> Sample:
    """Every k-th row of each expert of a shard, which begins with expert `first` and row `start`."""
    position = np.concatenate([np.arange(a, b, step) for a, b in pairwise(part.offsets)])
    labels = first + np.searchsorted(part.offsets, position, side="right") - 1
    return Sample(part.rows.X[position], labels, start + position)


def _slice(experts: LocalExperts, a: int, b: int) -> tuple[Rows, np.ndarray]:
    """Rows of experts a … b − 1, as copies that do not refer to the whole array."""
    start, stop = experts.offsets[a], experts.offsets[b]
    columns = (experts.numbers, experts.X, experts.y, experts.noise)
    return Rows(*(column[start:stop].copy() for column in columns)), experts.offsets[a : b + 1] - start


def _shard(
    rows: Rows,
    offsets: np.ndarray,
    covariance: Covariance,
    shared: Observations | None,
    budget: int,
    first: int,
) -> LocalExperts:
    return LocalExperts(
        rows.X,
        rows.y,
        offsets,
        covariance,
        numbers=rows.number,
        noise=rows.noise,
        shared=shared,
        factor_budget=budget,
        first=first,
    )


def _shard_of(
    part: Parts, covariance: Covariance, shared: Observations | None, budget: int, first: int
) -> LocalExperts:
    return _shard(part.rows, part.offsets, covariance, shared, budget, first)

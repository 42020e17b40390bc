"""`fit` for dask arrays and frames, whose rows never come to this process all at once.

every block ─► means and deviations              the scale of all rows
every block ─► a few rows ─► here                places to train at, and where space is cut into groups
every block ─► neighbours of some rows ─► here   θ
every block ─► split ─► one task per group       parts, and the experts on them
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gpexperts.aggregation import AGGREGATORS, Aggregator
from gpexperts.cluster.experts import ClusterExperts
from gpexperts.cluster.groups import factor_budget
from gpexperts.cluster.inputs import Block, Table, combined, shares, stratified_sample, summary
from gpexperts.cluster.neighbourhoods import Neighbourhoods
from gpexperts.cluster.shuffle import (
    Cut,
    founded,
    labelled_sample,
    parts_meta,
    shuffled,
    training_blocks,
)
from gpexperts.engines import traffic
from gpexperts.engines.dask import DaskEngine, HeldOnCluster
from gpexperts.experts.local import Sample
from gpexperts.kernels.named import candidate_kernels
from gpexperts.partition.assign import communication_size, labels_are_given
from gpexperts.progress import listeners
from gpexperts.settings import automatic_n_experts, member, number_of_experts
from gpexperts.training.blocks import BlockDrawer, sample_blocks
from gpexperts.training.likelihood import Block as TrainingBlock

if TYPE_CHECKING:
    from gpexperts.regressor import DistributedGPRegressor

__all__ = ["fit_collection"]

SAMPLE_ROWS = 100_000
"""Rows that come to this process, for the cuts and as places to train at; of fewer than twice as many, half
of them."""
SELECTION_BYTES = 64 * 1024**2
"""Inputs that come to this process for selectors to learn from; of fewer than twice as many, half of them."""
WHOLE_ROWS = 10_000
"""A collection of no more rows comes whole: less than one group of experts, it would meet in one task
anyway, and here it gives the very model that its rows would give as NumPy arrays."""
GROUP_ROWS = 25_000
"""Rows of a group of experts. It must not depend on the number of workers, nor may the model."""
MAX_GROUPS = 1000
"""Every block sends a piece to every group: beyond this many, groups grow instead of their number."""
KEPT_SHARE = 0.1
"""Blocks that take no more than this share of the workers' memory stay there while a model is fitted;
larger ones are read again whenever they are needed."""


def fit_collection(model: DistributedGPRegressor, X: Any, y: Any, engine: DaskEngine) -> None:
    """Fit `model` to a dask array or frame X and its targets y."""
    table = Table.of(engine, X, y)
    streams = model._streams()
    with engine.counting(model.travelled_, "sample"):
        summaries = engine.compute(
            [engine.task(f"summary of block {b}", summary, block) for b, block in enumerate(table.blocks)]
        )
    lengths = np.array([of_x.n for of_x, _ in summaries])
    n = int(lengths.sum())
    if n == 0:
        raise ValueError("Found array with 0 sample(s): every block of X is empty; fit needs rows.")
    n_bytes = 8 * n * sum(len(of.mean) for of in summaries[0])
    comes_whole = n <= WHOLE_ROWS
    counts = shares(n if comes_whole else min(n // 2, SAMPLE_ROWS), lengths)
    blocks = table.blocks if comes_whole else _kept_if_small(engine, table.blocks, n_bytes)
    with engine.counting(model.travelled_, "sample"):
        X_sample, y_sample = stratified_sample(engine, blocks, counts, _seeds(streams.sample, len(lengths)))
    y_sample = y_sample[:, 0] if table.one_output else y_sample
    X_sample, y_sample = model._validated(_named(X_sample, table.names), y_sample)
    if comes_whole:
        model._fit_rows(X_sample, y_sample, streams)
        return
    model.__dict__.pop("labels_", None)  # one label per row is too much for this process
    if labels_are_given(model.partition):
        raise ValueError(
            f"partition holds labels, but X is a dask collection of {n} rows; name a method, "
            "'balanced', 'kmeans' or 'random', which is applied block by block."
        )
    x_scale, _ = combined([of_x for of_x, _ in summaries])
    y_scale, constant = combined([of_y for _, of_y in summaries])
    checkpoint = model._opened_checkpoint(X_sample, y_sample, lengths, x_scale, y_scale)
    streams = streams._replace(checkpoint=checkpoint)
    model._set_scales(x_scale, y_scale, constant, y_scale.shift)
    Z, t = model._x_scale.transform(X_sample), model._y_scale.transform(y_sample)

    aggregator = member(model.aggregation, AGGREGATORS, Aggregator, "aggregation")
    M = number_of_experts(model.n_experts, model.expert_size, n, automatic_n_experts(n))
    n_shared = communication_size(aggregator, n, M) if aggregator.needs_communication else 0
    model._check_memory(engine, n, -(-(n - n_shared) // M) + n_shared)

    # θ, from the neighbours of some rows of the sample.
    teaches = model._varies if model._varies.any() else slice(None)
    candidates = candidate_kernels(model.kernel, Z, t[:, teaches])
    draw: BlockDrawer = sample_blocks
    if model._trainable:
        draw = Neighbourhoods(engine, blocks, model._x_scale, model._y_scale, teaches)
    covariance, metric = None, np.ones(Z.shape[1])
    if model.training != "full":
        covariance = model._train_on_blocks(candidates, Z, t[:, teaches], engine, streams, draw)
        metric = covariance.length_scale(Z.shape[1])
    partitioner, metric = model._partitioner(metric)

    # Who owns which rows.
    left_out, shared = [(0, 0)] * len(lengths), None
    if aggregator.needs_communication:
        taken = shares(n_shared, lengths)
        seeds = _seeds(streams.communication, len(lengths))
        left_out = list(zip(taken.tolist(), seeds.tolist(), strict=True))
        X_shared, y_shared = stratified_sample(engine, blocks, taken, seeds)
        shared = model._x_scale.transform(X_shared), model._y_scale.transform(y_shared)
    cut = Cut.of_sample(
        Z / metric,
        partitioner,
        min(M, MAX_GROUPS, -(-n // GROUP_ROWS)),
        streams.partition,
        x_scale=model._x_scale,
        y_scale=model._y_scale,
        metric=metric,
    )
    listeners().start("bringing the rows of each expert together")
    with engine.counting(model.travelled_, "rows"):
        groups = shuffled(engine, blocks, cut, M, partitioner, streams.partition, left_out, n_bytes)
        metas = engine.compute(
            [engine.task(f"group {g}", parts_meta, group) for g, group in enumerate(groups)]
        )
        traffic.count(exchanged=n_bytes)
    sizes, centroids = zip(*metas, strict=True)
    firsts = np.concatenate([[0], np.cumsum([len(s) for s in sizes])])
    model._check_memory(engine, n, int(max(s.max() for s in sizes)) + n_shared)
    model._set_parts(np.concatenate(sizes), np.concatenate(centroids))

    if covariance is None:
        held = _held_parts(engine, groups, firsts, shared, teaches)
        covariance = model._train_on_parts(candidates, held, Z, t[:, teaches], engine, streams, draw)
    del blocks, draw  # every row is in its group now: what was kept of the blocks can go
    model._report_training(covariance)
    budget = factor_budget(engine, model.memory_budget, len(groups))
    kept = engine.persist(
        [
            engine.task(f"experts {a}..{b - 1}", founded, group, covariance, shared, budget, int(a))
            for group, (a, b) in zip(groups, pairwise(firsts), strict=True)
        ]
    )
    sizes_of_groups = np.array([int(s.sum()) for s in sizes])
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    with engine.counting(model.travelled_, "selection"):
        most = SELECTION_BYTES // (8 * Z.shape[1])
        sample = _sample_of(engine, groups, firsts, sizes_of_groups, most, streams.sample)
    model._experts = ClusterExperts(
        engine,
        kept,
        firsts,
        offsets,
        covariance,
        n_outputs=t.shape[1],
        shared=shared,
        communication=_communication(engine, shared, covariance, budget, int(firsts[-1])),
        sample=sample,
        travelled=model.travelled_,
    )
    model._ready(shared is not None)


def _kept_if_small(engine: DaskEngine, blocks: list[Any], n_bytes: int) -> list[Any]:
    """Keep the blocks on the workers, if that leaves room for all that follows."""
    room = (engine.worker_memory or 0) * len(engine.client.nthreads())
    return engine.persist(blocks) if n_bytes <= KEPT_SHARE * room else blocks


def _held_parts(
    engine: DaskEngine, groups: list[Any], firsts: np.ndarray, shared: Block | None, teaches: Any
) -> HeldOnCluster[TrainingBlock]:
    """Every part as a block to train on, where it is; GRBCM's shared rows are one more."""
    batches = [list(range(a, b)) for a, b in pairwise(firsts.tolist())]
    lists = [
        engine.task(f"training blocks {min(batch)}..{max(batch)}", training_blocks, group, teaches)
        for batch, group in zip(batches, groups, strict=True)
    ]
    if shared is not None:
        batches.append([int(firsts[-1])])
        lists.append(engine.task("shared rows", list, [TrainingBlock(shared[0], shared[1][:, teaches])]))
    return HeldOnCluster(engine, batches, engine.persist(lists))


def _communication(
    engine: DaskEngine, shared: Block | None, covariance: Any, budget: int, number: int
) -> Any:
    if shared is None:
        return None
    nobody = shared[0][:0], shared[1][:0], np.zeros(1, dtype=np.int64)
    (kept,) = engine.persist(
        [engine.task("communication expert", founded, nobody, covariance, shared, budget, number)]
    )
    return kept


def _sample_of(
    engine: DaskEngine,
    groups: list[Any],
    firsts: np.ndarray,
    sizes: np.ndarray,
    most: int,
    rng: np.random.RandomState,
) -> Sample:
    """At most `most` rows and half of them for selectors to learn from, but one of every expert."""
    counts = shares(min(int(sizes.sum()) // 2, most), sizes)
    starts = np.cumsum(sizes) - sizes
    columns = (firsts[:-1], starts, counts, _seeds(rng, len(groups)))
    work = [
        engine.task(f"sample of group {g}", labelled_sample, group, *map(int, numbers))
        for g, (group, *numbers) in enumerate(zip(groups, *columns, strict=True))
    ]
    return Sample(*map(np.concatenate, zip(*engine.compute(work), strict=True)))


def _seeds(rng: np.random.RandomState, k: int) -> np.ndarray:
    return rng.randint(np.iinfo(np.int32).max, size=k)


def _named(X: np.ndarray, names: list[str] | None) -> Any:
    if names is None:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=names)

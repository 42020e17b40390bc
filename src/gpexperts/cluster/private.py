"""`fit` where rows may not be pooled: each block is loaded, cut and asked on one worker, and stays there.

What leaves a worker is bounded: numbers of rows, means and deviations of columns, likelihoods and their
gradients, centroids, and experts' means and variances. Rows that a worker holds cannot be sent, because
what holds them refuses to be pickled; should the worker die, Dask loads its blocks elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from gpexperts.aggregation import AGGREGATORS, Aggregator
from gpexperts.cluster.experts import ClusterExperts
from gpexperts.cluster.groups import factor_budget
from gpexperts.cluster.inputs import Block, Sealed, checked_rows, combined, paired_blocks, shares, summary
from gpexperts.cluster.shuffle import Parts, apportioned, cut_group, parts_meta, training_blocks
from gpexperts.engines.dask import DaskEngine, HeldOnCluster
from gpexperts.exceptions import ClusterError
from gpexperts.experts.local import Experts, Sample
from gpexperts.kernels.named import Covariance, candidate_kernels, covariance_of
from gpexperts.partition import Partitioner
from gpexperts.partition.assign import labels_are_given
from gpexperts.progress import listeners
from gpexperts.scaling import Standardizer
from gpexperts.selection import AllSelector, DNNSelector, KNNSelector
from gpexperts.settings import automatic_n_experts, member, number_of_experts
from gpexperts.training.blocks import sample_blocks
from gpexperts.training.likelihood import Block as TrainingBlock
from gpexperts.training.likelihood import maximise_likelihood
from gpexperts.training.schedule import CHOICE_BLOCKS

if TYPE_CHECKING:
    from gpexperts.regressor import DistributedGPRegressor

__all__ = ["check_private_settings", "fit_private"]


class _Stays:
    """Something that may not leave its process."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ClusterError("share_inputs=False: training rows may not leave the worker that loaded them.")


class _Private(_Stays):
    def __init__(self, value: Any) -> None:
        self.value = value


class _PrivateExperts(_Stays, Experts):
    pass


def check_private_settings(model: DistributedGPRegressor) -> None:
    """Refuse what cannot be had without rows that travel."""
    aggregator = member(model.aggregation, AGGREGATORS, Aggregator, "aggregation")
    if aggregator.needs_covariance or aggregator.needs_communication:
        why = "the covariance of two experts needs the inputs of both in one place"
        if aggregator.needs_communication:
            why = "its communication set is given to every expert"
        raise ValueError(
            f"aggregation={model.aggregation!r} cannot be had with share_inputs=False: {why}. Choose 'poe', "
            "'gpoe', 'bcm' or 'rbcm'."
        )
    selection = model.selection
    able = isinstance(selection, (AllSelector, DNNSelector)) or (
        isinstance(selection, KNNSelector) and selection.metric != "hamming"
    )
    if not able and not (isinstance(selection, str) and selection in ("auto", "all", "knn", "dnn")):
        raise ValueError(
            f"selection={selection!r} cannot be had with share_inputs=False: it learns from training rows, "
            "and only centroids and gradients may travel. Choose 'knn', 'dnn' or 'all'."
        )


def fit_private(model: DistributedGPRegressor, X: Any, y: Any, engine: DaskEngine) -> None:
    """Fit `model` to a dask array or frame without any row leaving the worker that loads it."""
    check_private_settings(model)
    if labels_are_given(model.partition):
        raise ValueError("partition holds labels; with share_inputs=False each block is cut where it is.")
    if engine.futures_in(X, y):
        raise ValueError(
            "share_inputs=False loads every block where its rows may be, but this collection has already "
            "been loaded (persist). Give it as it was before."
        )
    names, one_output, pairs = paired_blocks(X, y)
    sealed = [Sealed(of_x, of_y) for of_x, of_y in pairs]
    summaries = engine.compute(
        [engine.task(f"summary of block {b}", _summary, b, block) for b, block in enumerate(sealed)]
    )
    lengths = np.array([of_x.n for of_x, _ in summaries])
    if lengths.sum() == 0:
        raise ValueError("Found array with 0 sample(s): every block of X is empty; fit needs rows.")
    x_scale, _ = combined([of_x for of_x, _ in summaries])
    y_scale, constant = combined([of_y for _, of_y in summaries])
    model._set_columns(len(x_scale.shift), names, one_output)
    model._set_scales(x_scale, y_scale, constant, y_scale.shift)
    model.__dict__.pop("labels_", None)
    streams = model._streams()
    streams = streams._replace(checkpoint=model._opened_checkpoint(lengths, x_scale, y_scale))

    used = np.flatnonzero(lengths)
    scales = model._x_scale, model._y_scale
    blocks = engine.persist(
        [engine.task(f"rows of block {b}", _loaded, int(b), sealed[b], *scales) for b in used]
    )
    sizes = lengths[used]
    n = int(sizes.sum())
    M = number_of_experts(model.n_experts, model.expert_size, n, automatic_n_experts(n))
    model._check_memory(engine, n, -(-n // M))
    teaches = model._varies if model._varies.any() else slice(None)
    # Two rows with the mean and the deviation of all: what a named kernel starts from.
    Z, t = (np.stack([-s, s]) for s in (x_scale.scale / scales[0].scale, y_scale.scale / scales[1].scale))
    candidates = candidate_kernels(model.kernel, Z, t[:, teaches])
    covariance, metric = None, np.ones(Z.shape[1])
    if model.training != "full":
        covariance = _trained(model, candidates, engine, blocks, sizes, teaches, streams)
        metric = covariance.length_scale(Z.shape[1])
    partitioner, metric = model._partitioner(metric)
    listeners().start("cutting the data into parts")
    seeds = streams.partition.randint(np.iinfo(np.int32).max, size=len(blocks))
    counts = apportioned(M, sizes).tolist()
    parts = engine.persist(
        _where_they_are(
            engine,
            "parts of block",
            _cut,
            blocks,
            [(k, partitioner, metric, seed) for k, seed in zip(counts, seeds.tolist(), strict=True)],
        )
    )
    metas = engine.compute(_where_they_are(engine, "centroids of block", _meta, parts))
    of_parts, centroids = (list(column) for column in zip(*metas, strict=True))
    firsts = np.concatenate([[0], np.cumsum([len(s) for s in of_parts])])
    model._check_memory(engine, n, int(max(s.max() for s in of_parts)))
    model._set_parts(np.concatenate(of_parts), np.concatenate(centroids))
    if covariance is None:
        lists = _where_they_are(
            engine, "training blocks of block", _parts_to_train, parts, [(teaches,)] * len(parts)
        )
        listeners().start("training on every part")
        covariance = _best(
            model, candidates, engine, _held(engine, lists), streams, 200, 1e-7, model.n_restarts
        )
    model._report_training(covariance)
    budget = factor_budget(engine, model.memory_budget, len(parts))
    groups = engine.persist(
        _where_they_are(
            engine,
            "experts of block",
            _founded,
            parts,
            [(covariance, budget, first) for first in firsts[:-1].tolist()],
        )
    )
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(of_parts))])
    model._experts = ClusterExperts(
        engine,
        groups,
        firsts,
        offsets,
        covariance,
        n_outputs=t.shape[1],
        sample=Sample(model._centroids, np.arange(int(firsts[-1])), offsets[:-1]),
        private=True,
        travelled=model.travelled_,
    )
    model._ready(with_communication=False)


def _trained(
    model: DistributedGPRegressor,
    candidates: dict[str, Kernel],
    engine: DaskEngine,
    blocks: list[Any],
    sizes: np.ndarray,
    teaches: Any,
    streams: Any,
) -> Covariance:
    """θ from small blocks that every worker draws from its own rows: a first metric, then the kernels."""
    listeners().start("training on small blocks")
    n_blocks, size = CHOICE_BLOCKS
    counts = np.maximum(1, shares(n_blocks, sizes))
    covariance, first = None, next(iter(candidates.items()))
    for stage, kernels in enumerate((dict([first]), candidates)):
        metric = np.ones(model.n_features_in_)
        if covariance is not None:
            metric = covariance.length_scale(model.n_features_in_)
            kernels = {name: k.clone_with_theta(covariance.kernel.theta) for name, k in kernels.items()}
        seeds = streams.training.randint(np.iinfo(np.int32).max, size=len(blocks))
        wanted = [
            ((k, size, seed), metric, teaches)
            for k, seed in zip(counts.tolist(), seeds.tolist(), strict=True)
        ]
        lists = _where_they_are(engine, "training blocks of block", _drawn, blocks, wanted)
        steps, n_restarts = (40, model.n_restarts) if stage == 0 else (60, 0)
        covariance = _best(model, kernels, engine, _held(engine, lists), streams, steps, 1e-5, n_restarts)
    assert covariance is not None
    return covariance


def _best(
    model: DistributedGPRegressor,
    candidates: dict[str, Kernel],
    engine: DaskEngine,
    held: HeldOnCluster[TrainingBlock],
    streams: Any,
    max_steps: int,
    tolerance: float,
    n_restarts: int,
) -> Covariance:
    """Train every candidate and return the likeliest."""
    with engine.counting(model.travelled_, "training"):
        trainings = {
            name: maximise_likelihood(
                covariance_of(kernel),
                held,
                engine,
                n_restarts=n_restarts,
                random_state=streams.training,
                max_steps=max_steps if model._trainable else 0,
                tolerance=tolerance,
                on_step=model._report_step,
                checkpoint=streams.checkpoint,
            )
            for name, kernel in candidates.items()
        }
    best = max(trainings, key=lambda name: trainings[name].trace[-1].log_marginal_likelihood)
    model.choices_["kernel"], model.trace_ = best, trainings[best].trace
    return trainings[best].covariance


def _where_they_are(
    engine: DaskEngine,
    name: str,
    function: Any,
    kept: list[Any],
    arguments: Sequence[tuple[Any, ...]] | None = None,
) -> list[Any]:
    """One task for each kept result, done where it is."""
    each = zip(kept, engine.places(kept), arguments or [()] * len(kept), strict=True)
    return [
        engine.task(f"{name} {b}", function, result, *more, at=place)
        for b, (result, place, more) in enumerate(each)
    ]


def _held(engine: DaskEngine, tasks: list[Any]) -> HeldOnCluster[TrainingBlock]:
    lists = engine.persist(tasks)
    counts = engine.compute(_where_they_are(engine, "training blocks of block", _count, lists))
    ends = np.concatenate([[0], np.cumsum(counts)]).tolist()
    return HeldOnCluster(engine, [list(range(a, b)) for a, b in pairwise(ends)], lists, pinned=True)


# ------------------------------------------------------------------------------- what workers do


def _summary(number: int, sealed: Sealed) -> Any:
    return summary(checked_rows(number, *sealed.load()))


def _loaded(number: int, sealed: Sealed, x_scale: Standardizer, y_scale: Standardizer) -> _Private:
    X, y = checked_rows(number, *sealed.load())
    return _Private((x_scale.transform(X), y_scale.transform(y)))


def _drawn(private: _Private, wanted: tuple[int, int, int], metric: np.ndarray, teaches: Any) -> _PrivateList:
    """Training blocks of a block of rows; `wanted` are their number, their size and a seed."""
    block: Block = private.value
    n_blocks, size, seed = wanted
    rng = np.random.RandomState(seed)
    drawn = sample_blocks(
        block[0], block[1][:, teaches], metric, n_blocks=n_blocks, block_size=size, random_state=rng
    )
    return _PrivateList(drawn)


class _PrivateList(_Stays, list[TrainingBlock]):
    pass


def _count(items: list[TrainingBlock]) -> int:
    return len(items)


def _cut(
    private: _Private, n_parts: int, partitioner: Partitioner, metric: np.ndarray, seed: int
) -> _Private:
    return _Private(cut_group([private.value], n_parts, partitioner, metric, seed))


def _meta(private: _Private) -> tuple[np.ndarray, np.ndarray]:
    return parts_meta(private.value)


def _parts_to_train(private: _Private, teaches: Any) -> _PrivateList:
    return _PrivateList(training_blocks(private.value, teaches))


def _founded(private: _Private, covariance: Covariance, budget: int, first: int) -> Experts:
    parts: Parts = private.value
    return _PrivateExperts(*parts, covariance, factor_budget=budget, first=first)

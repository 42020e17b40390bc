"""Experts from prepared rows: scale, train, divide the rows, build the store.

    rows ─► units ─► training: θ ─► partition: the expert of each row ─► ExpertStore

The pipeline calls it once, and Student-t noise a second time if the weights of rows change much.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from gpexperts.calibration import warn_of_few_rows
from gpexperts.choices import Choice
from gpexperts.columns import InputLayout
from gpexperts.experts.build import Assigned, build_store, training_blocks
from gpexperts.experts.store import ExpertStore
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.raw import candidate_covariances
from gpexperts.kernels.summary import kernel_summary
from gpexperts.memory import check_memory
from gpexperts.model import Seeds
from gpexperts.partition.assign import Plan, assign, warn_of_fewer
from gpexperts.progress import reporters
from gpexperts.rows.base import SAMPLE_ROWS, Rows, RowSource, Units
from gpexperts.rows.units import choose_units
from gpexperts.settings import Settings
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.likelihood import TraceRow, maximise_likelihood
from gpexperts.training.schedule import largest_block, train_in_stages
from gpexperts.training.warn import warn_of_training
from gpexperts.validation import is_auto

__all__ = ["FittedExperts", "Streams", "Trained", "check_fit_memory", "fit_experts"]


class Streams(NamedTuple):
    """One source of randomness for each stage, so that no stage depends on how much another draws."""

    partition: np.random.RandomState
    training: np.random.RandomState
    communication: np.random.RandomState
    sample: np.random.RandomState
    calibration: np.random.RandomState
    trend: np.random.RandomState
    seeds: Seeds

    @classmethod
    def of(cls, random_state: object) -> Streams:
        """Derive all streams from the user's `random_state`."""
        seeds = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=8)
        partition, training, communication, sample, calibration, trend = (
            np.random.RandomState(seeds[k]) for k in (0, 1, 2, 5, 6, 7)
        )
        later = Seeds(int(seeds[3]), int(seeds[4]))
        return cls(partition, training, communication, sample, calibration, trend, later)


class Trained(NamedTuple):
    """The result of training."""

    covariance: Covariance
    trace: list[TraceRow]
    choice: Choice | None


class FittedExperts(NamedTuple):
    """Trained experts, and how they came about."""

    units: Units
    trained: Trained
    assigned: Assigned
    experts: ExpertStore
    choices: dict[str, Choice]


def fit_experts(
    rows: RowSource,
    plan: Plan,
    settings: Settings,
    streams: Streams,
    layout: InputLayout,
    *,
    student: bool,
) -> FittedExperts:
    """Scale prepared rows, train, and divide the rows among experts."""
    choices: dict[str, Choice] = {}
    units, varies = choose_units(
        *rows.summary(),
        standardize=bool(settings["standardize"]),
        kernel_is_object=settings.kernel_is_object,
        learns_noise=settings["optimizer"] is not None and not student,  # its weights have mean 1
        standardized=layout.standardized,
    )
    rows = rows.in_units(units)
    sample = rows.sample(SAMPLE_ROWS, streams.sample)
    trainable = settings["optimizer"] is not None and bool(varies.any())
    outputs = np.flatnonzero(varies) if varies.any() else np.arange(rows.n_outputs)
    shared = layout.scale_index
    sampler = BlockSampler(rows, sample, outputs, streams.training, shared)
    candidates = candidate_covariances(settings["kernel"], sampler.spread, sampler.y_spread, units.x, shared)
    if trainable and any(candidate.kernel.n_dims for candidate in candidates.values()):
        warn_of_few_rows(rows.n)

    full, trained = settings["training"] == "full", None
    if not full or (len(candidates) > 1 and trainable):
        trained = _train_on_blocks(candidates, sampler, settings, trainable)
    metric = _partition_metric(None if full else trained, sampler, settings, choices)
    assigned = _assign(rows, plan, metric, sample, settings, streams)
    check_fit_memory(settings, rows.n, int(assigned.sizes.max()) + plan.n_shared)
    if full:
        start = trained.covariance if trained is not None else next(iter(candidates.values()))
        choice = None if trained is None else trained.choice
        trained = _train_on_parts(start, assigned, outputs, settings, trainable, streams, choice)
    assert trained is not None
    reporters().message(1, f"kernel: {kernel_summary(trained.covariance.kernel)}")
    warn_of_training(
        trained.covariance,
        trained.trace[-1],
        trainable=trainable,
        kernel_is_object=settings.kernel_is_object,
        variance=sampler.variance,
    )

    experts = build_store(
        assigned,
        trained.covariance,
        factor_budget=settings.factor_budget,
        memory_budget=settings["memory_budget"],
    )
    if trained.choice is not None:
        choices["kernel"] = trained.choice
    how = Choice(len(assigned.sizes), f"{rows.n} rows, at most {assigned.sizes.max()} for each expert")
    reporters().message(1, f"experts: {how}")
    if is_auto(settings["n_experts"]) and is_auto(settings["expert_size"]) and plan.labels is None:
        choices["n_experts"] = how
    return FittedExperts(units, trained, assigned, experts, choices)


def check_fit_memory(settings: Settings, n: int, expert_rows: int) -> None:
    """Refuse, before the work, a fit whose largest expert has this many rows or more."""
    full = settings["training"] == "full"
    check_memory(
        settings["memory_budget"],
        n=n,
        expert_rows=expert_rows,
        block_rows=expert_rows if full else largest_block(n),
        full=full,
        there=settings.engine.worker_memory,
    )


def _partition_metric(
    trained: Trained | None, sampler: BlockSampler, settings: Settings, choices: dict[str, Choice]
) -> np.ndarray:
    """The length that counts as 1 in each input when rows are divided among experts."""
    if not is_auto(settings["partition"]):
        return np.ones_like(sampler.spread)
    if trained is None:
        choices["partition"] = Choice(
            "balanced", "in standardised units, as the kernel is trained on the parts"
        )
        return np.ones_like(sampler.spread)
    choices["partition"] = Choice("balanced", "in the metric of the trained kernel")
    return trained.covariance.metric(sampler.spread)


def _assign(
    rows: RowSource, plan: Plan, metric: np.ndarray, sample: Rows, settings: Settings, streams: Streams
) -> Assigned:
    reporters().start("dividing the rows among experts")
    parts, shared = assign(
        rows,
        plan,
        settings.partitioner,
        metric,
        sample,
        partition_rng=streams.partition,
        communication_rng=streams.communication,
    )
    assigned = Assigned(parts, shared, settings.engine, n_features=rows.n_features, n_outputs=rows.n_outputs)
    warn_of_fewer(len(assigned.sizes), plan.n_experts)
    return assigned


def _train_on_blocks(
    candidates: dict[str, Covariance], sampler: BlockSampler, settings: Settings, trainable: bool
) -> Trained:
    """Train on small blocks from every region: the cost does not grow with the rows."""
    reporters().start("training on small blocks")
    staged = train_in_stages(
        candidates,
        sampler,
        settings.engine,
        n_restarts=settings["n_restarts"],
        trainable=trainable,
        on_step=_report_step,
        report=lambda message: reporters().message(1, message),
    )
    return Trained(staged.covariance, staged.trace, Choice(staged.choice, staged.reason, staged.evidence))


def _train_on_parts(
    start: Covariance,
    assigned: Assigned,
    outputs: np.ndarray,
    settings: Settings,
    trainable: bool,
    streams: Streams,
    choice: Choice | None,
) -> Trained:
    """The paper's joint training on every part."""
    reporters().start("training on every part")
    training = maximise_likelihood(
        start,
        training_blocks(assigned, outputs),
        settings.engine,
        n_restarts=settings["n_restarts"],
        random_state=streams.training,
        max_steps=200 if trainable else 0,
        on_step=_report_step,
    )
    return Trained(training.covariance, training.trace, choice)


def _report_step(row: TraceRow) -> None:
    reporters().advance(1, f"log likelihood {row.log_marginal_likelihood:.6g}, {row.seconds:.1f} s")

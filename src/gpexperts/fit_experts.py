"""Experts from scaled rows and a trained kernel: divide the rows, build the store.

    rows, θ ─► partition: the expert of each row ─► ExpertStore

With `training="full"` the parts train the kernel. The pipeline calls it once, and Student-t noise a second
time if the weights of rows change much.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpexperts.choices import Choice
from gpexperts.experts.build import Assigned, build_store, training_blocks
from gpexperts.experts.store import ExpertStore
from gpexperts.fit_kernel import ScaledRows, Streams, Trained, report_step
from gpexperts.kernels.summary import kernel_summary
from gpexperts.memory import check_memory
from gpexperts.partition.assign import Plan, assign, warn_of_fewer
from gpexperts.progress import reporters
from gpexperts.rows.base import Rows, RowSource, Units
from gpexperts.settings import Settings
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.likelihood import maximise_likelihood
from gpexperts.training.schedule import largest_block
from gpexperts.training.warn import warn_of_training
from gpexperts.validation import is_auto

__all__ = ["FittedExperts", "check_fit_memory", "fit_experts"]


class FittedExperts(NamedTuple):
    """Trained experts, and how they came about."""

    units: Units
    trained: Trained
    assigned: Assigned
    experts: ExpertStore
    choices: dict[str, Choice]


def fit_experts(scaled: ScaledRows, plan: Plan, settings: Settings, streams: Streams) -> FittedExperts:
    """Divide scaled rows among experts with the trained kernel, or train it on their parts."""
    choices: dict[str, Choice] = {}
    rows, sampler, trained = scaled.rows, scaled.sampler, scaled.trained
    full = settings["training"] == "full"
    metric = _partition_metric(None if full else trained, sampler, settings, choices)
    assigned = _assign(rows, plan, metric, scaled.sample, settings, streams)
    check_fit_memory(settings, rows.n, int(assigned.sizes.max()) + plan.n_shared)
    if full:
        trained = _train_on_parts(scaled, assigned, settings, streams)
    assert trained is not None
    reporters().message(1, f"kernel: {kernel_summary(trained.covariance.kernel)}")
    warn_of_training(
        trained.covariance,
        trained.trace[-1],
        trainable=scaled.trainable,
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
    return FittedExperts(scaled.units, trained, assigned, experts, choices)


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


def _train_on_parts(scaled: ScaledRows, assigned: Assigned, settings: Settings, streams: Streams) -> Trained:
    """The paper's joint training on every part."""
    reporters().start("training on every part")
    start, choice = next(iter(scaled.candidates.values())), None
    if scaled.trained is not None:
        start, choice = scaled.trained.covariance, scaled.trained.choice
    training = maximise_likelihood(
        start,
        training_blocks(assigned, scaled.outputs),
        settings.engine,
        n_restarts=settings["n_restarts"],
        random_state=streams.training,
        max_steps=200 if scaled.trainable else 0,
        on_step=report_step,
    )
    return Trained(training.covariance, training.trace, choice)

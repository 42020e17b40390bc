"""The only fit: rows in, a fitted model out, one line per stage.

    rows ─► hold out ─► trend ─► scale ─► train ─► assign to experts ─► build the store ─► FittedModel

Rows of this process and rows on a cluster take the same way; they differ in where rows come from (the
`RowSource`) and where experts are kept (the `ExpertStore`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from gpexperts.calibration import ABSENT, HELD_OUT, draw_held_out, kept_labels, warn_of_few_rows
from gpexperts.choices import Choice
from gpexperts.columns import ColumnEncoder, InputLayout
from gpexperts.experts.build import Assigned, build_store, training_blocks
from gpexperts.experts.store import ExpertStore, Observations
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.raw import candidate_covariances
from gpexperts.kernels.summary import kernel_summary
from gpexperts.memory import check_memory
from gpexperts.model import FittedModel, Seeds
from gpexperts.outliers import DEGREES
from gpexperts.partition.assign import Plan, assign, labels_per_row, plan_parts, warn_of_fewer
from gpexperts.preprocess import Prepared, prepare_rows
from gpexperts.progress import reporters
from gpexperts.row_noise import precisions, with_precision
from gpexperts.rows.arrays import ArrayRows
from gpexperts.rows.base import SAMPLE_ROWS, Rows, RowSource, Units
from gpexperts.rows.dask import DaskRows
from gpexperts.rows.units import choose_units
from gpexperts.settings import Settings
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.likelihood import TraceRow, maximise_likelihood
from gpexperts.training.schedule import largest_block, train_in_stages
from gpexperts.training.warn import warn_of_training
from gpexperts.validation import is_auto

__all__ = ["fit_model"]

ROUNDS = 3
"""How often rows are weighted by their leave-one-out residuals, for Student-t noise."""
SETTLED = 0.0005
"""Share of rows that became or ceased to be outliers, up to which the model is not trained again."""
OUTLIER = 0.5
"""Precision below which a row is an outlier."""


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


def fit_model(
    rows: RowSource,
    settings: Settings,
    *,
    one_output: bool,
    encoder: ColumnEncoder | None = None,
    kept: np.ndarray | None = None,
    n_given: int | None = None,
) -> FittedModel:
    """Fit a model to rows in the user's units.

    Parameters
    ----------
    rows : RowSource
    settings : Settings
    one_output : bool
        Whether y had one dimension.
    encoder : ColumnEncoder, optional
        That has made the inputs of the rows; by default these are numbers.
    kept : ndarray of int, shape (n,), optional
        The number of each row among the `n_given` rows of the user, where some had weight 0.
    n_given : int, optional

    Returns
    -------
    FittedModel
    """
    encoder = ColumnEncoder.numbers(rows.n_features) if encoder is None else encoder
    n, streams = rows.n, Streams.of(settings["random_state"])
    held_out = draw_held_out(n, streams.calibration) if settings["calibrate"] else np.empty(0, np.int64)
    labels = _given_labels(settings, rows.n, kept, n_given)
    rows, kept_out, plan = _hold_out(rows, settings, labels, held_out)
    _check_memory(settings, rows.n, plan.largest)
    given = rows
    prepared = prepare_rows(rows, settings, streams.trend, encoder)
    rows, choices = prepared.rows, dict(prepared.choices)
    if isinstance(rows, DaskRows) and rows is not given:
        rows = rows.kept()
    trend = None if prepared.trend is None else prepared.trend.trend

    student, layout = prepared.outliers is not None, encoder.layout(rows.n_features)
    core = _fit_experts(rows, plan, settings, streams, layout, student=student)
    if student:
        core = _with_student_noise(core, rows, plan, settings, streams, layout)
    choices |= core.choices
    if encoder.choice is not None:
        choices["columns"] = encoder.choice
    of_y = given.summary()[1]
    return FittedModel(
        x_scale=core.units.x,
        y_scale=core.units.y,
        experts=core.experts,
        centroids=core.assigned.centroids,
        labels=_labels(core.assigned, n, held_out, kept, n_given),
        one_output=one_output,
        trace=tuple(core.trained.trace),
        choices=choices,
        seeds=streams.seeds,
        calibrate=settings["calibrate"],
        held_out=None if kept_out is None else _observations(kept_out, prepared, core.units),
        encoder=encoder,
        y_summary=(of_y.mean, of_y.std),
        target=prepared.target,
        trend=trend,
        targets=given.y if trend is not None and trend.is_mean and isinstance(given, ArrayRows) else None,
    )


class Core(NamedTuple):
    """Trained experts, and how they came about."""

    units: Units
    trained: Trained
    assigned: Assigned
    experts: ExpertStore
    choices: dict[str, Choice]


def _fit_experts(
    rows: RowSource,
    plan: Plan,
    settings: Settings,
    streams: Streams,
    layout: InputLayout,
    *,
    student: bool,
) -> Core:
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
    if trainable:
        warn_of_few_rows(rows.n)
    outputs = np.flatnonzero(varies) if varies.any() else np.arange(rows.n_outputs)
    shared = layout.scale_index
    sampler = BlockSampler(rows, sample, outputs, streams.training, shared)
    candidates = candidate_covariances(settings["kernel"], sampler.spread, sampler.y_spread, units.x, shared)

    full, trained = settings["training"] == "full", None
    if not full or (len(candidates) > 1 and trainable):
        trained = _train_on_blocks(candidates, sampler, settings, trainable)
    metric = _partition_metric(None if full else trained, sampler, settings, choices)
    assigned = _assign(rows, plan, metric, sample, settings, streams)
    _check_memory(settings, rows.n, int(assigned.sizes.max()) + plan.n_shared)
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
    return Core(units, trained, assigned, experts, choices)


def _with_student_noise(
    core: Core, rows: RowSource, plan: Plan, settings: Settings, streams: Streams, layout: InputLayout
) -> Core:
    """Weight rows by their leave-one-out residuals; train once more if that changes the guess much.

    Rows of a cluster are not trained on again.
    """
    reporters().start("weighting rows by their residuals")
    core = core._replace(experts=core.experts.robust(DEGREES, ROUNDS))
    if settings["optimizer"] is None or not isinstance(rows, ArrayRows):
        return core
    noise = _noise_by_number(core.experts, rows.n)
    before, after = precisions(rows.noise)[0], precisions(noise)[0]
    change = float(np.mean(np.abs(before - after) > OUTLIER))
    reporters().message(1, f"noise: {int((after < OUTLIER).sum())} outliers of {rows.n} rows")
    if change < SETTLED:
        return core
    rows = ArrayRows(rows.X, rows.y, with_precision(rows.noise, *precisions(noise)))
    core = _fit_experts(rows, plan, settings, streams, layout, student=True)
    return core._replace(experts=core.experts.robust(DEGREES, ROUNDS))


def _noise_by_number(experts: ExpertStore, n: int) -> np.ndarray:
    """The table of noise (n, 4) in the order of the rows."""
    numbers, noise = (np.concatenate(list(experts.row_batches(k, 1 << 62))) for k in (2, 3))
    table = np.empty((n, noise.shape[1]))
    table[numbers] = noise
    if experts.shared is not None:
        table[np.setdiff1d(np.arange(n), numbers)] = experts.shared.noise
    return table


def _observations(rows: Rows, prepared: Prepared, units: Units) -> Observations:
    """Held-out rows with the inputs and targets of experts, in their units."""
    if prepared.target is not None:
        rows = Rows(rows.number, *prepared.target(rows))
    if prepared.outliers is not None:
        rows = Rows(rows.number, *prepared.outliers(rows._replace(number=np.full(len(rows.number), -1))))
    _, X, y, noise = rows
    if prepared.trend is not None:
        trend = prepared.trend.trend
        values = trend.predict(X)
        X, y = trend.inputs(X, values), trend.residuals(y, values)
    return Observations(*units.apply(X, y, noise))


def _given_labels(
    settings: Settings, n: int, kept: np.ndarray | None, n_given: int | None
) -> np.ndarray | None:
    """The labels that the user gave, of rows with a positive weight."""
    if settings.partitioner is not None:
        return None
    labels = labels_per_row(settings["partition"], n if n_given is None else n_given)
    return labels if kept is None else labels[kept]


def _hold_out(
    rows: RowSource, settings: Settings, labels: np.ndarray | None, held_out: np.ndarray
) -> tuple[RowSource, Rows | None, Plan]:
    """Take out the rows that calibrate intervals, and plan the parts of the others."""
    kept_out = None
    if len(held_out):
        if labels is not None:
            labels = kept_labels(labels, held_out)
        rows, kept_out = rows.without(held_out), rows.take(held_out)
    aggregator = settings.aggregator
    plan = plan_parts(
        rows.n,
        labels if labels is not None else settings.partitioner,
        settings["n_experts"],
        settings["expert_size"],
        shares_rows=aggregator.needs_communication,
        communication_rows=getattr(aggregator, "communication_size", None),
    )
    if rows.n <= SAMPLE_ROWS:
        rows = rows.in_memory()
    elif plan.labels is not None and isinstance(rows, DaskRows):
        raise ValueError(
            f"partition holds labels, but X is a dask collection of {rows.n} rows; name a method: "
            "'balanced', 'kmeans' or 'random'."
        )
    elif isinstance(rows, DaskRows):
        rows = rows.kept()
    return rows, kept_out, plan


def _check_memory(settings: Settings, n: int, expert_rows: int) -> None:
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


def _labels(
    assigned: Assigned, n: int, held_out: np.ndarray, kept: np.ndarray | None, n_given: int | None
) -> np.ndarray | None:
    """The expert of each of the user's rows."""
    own = assigned.labels(n - len(held_out))
    if own is None:
        return None
    labels = np.full(n, HELD_OUT)
    labels[np.delete(np.arange(n), held_out)] = own
    if kept is None or n_given is None:
        return labels
    given = np.full(n_given, ABSENT)
    given[kept] = labels
    return given

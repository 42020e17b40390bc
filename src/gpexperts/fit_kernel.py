"""A trained kernel from prepared rows: scale them, and train on small blocks from every region.

    rows ─► units ─► blocks ─► θ

The pipeline calls it once without a trend, and once more with the trend that won: what a sparse GP leaves has
the same kernel, which is only trained further. Student-t noise calls it again if the weights of rows change
much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from gpexperts.calibration import warn_of_few_rows
from gpexperts.choices import Choice
from gpexperts.columns import InputLayout
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.raw import candidate_covariances
from gpexperts.model import Seeds
from gpexperts.progress import reporters
from gpexperts.rows.base import SAMPLE_ROWS, Rows, RowSource, Units
from gpexperts.rows.units import choose_units
from gpexperts.settings import Settings
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.likelihood import TraceRow
from gpexperts.training.schedule import StagedTraining, train_further, train_in_stages
from gpexperts.training.start import Start

__all__ = ["ScaledRows", "Streams", "Trained", "fit_kernel", "report_step"]


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


@dataclass(frozen=True)
class ScaledRows:
    """Rows in the units of the experts, the kernels for them, and the trained one."""

    rows: RowSource
    units: Units
    sample: Rows
    sampler: BlockSampler
    outputs: np.ndarray
    """Numbers of the outputs that vary; of all if none does."""
    trainable: bool
    candidates: dict[str, Covariance]
    trained: Trained | None
    """None where the parts of the experts train the kernel."""


def fit_kernel(
    rows: RowSource,
    settings: Settings,
    streams: Streams,
    layout: InputLayout,
    *,
    student: bool,
    start: Start | None = None,
) -> ScaledRows:
    """Scale prepared rows and train on blocks.

    Parameters
    ----------
    rows : RowSource
    settings : Settings
    streams : Streams
    layout : InputLayout
        Of the inputs of the rows.
    student : bool
        Whether the noise is Student-t.
    start : Start, optional
        A kernel that is trained further, where the kernel is trained on blocks.
    """
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
    trained = None
    if settings["training"] != "full" or (len(candidates) > 1 and trainable):
        if start is not None and trainable and start.name in candidates:
            covariance = start.applied(candidates[start.name], units, sampler.variance)
            trained = _train_further(start.name, covariance, sampler, settings)
        else:
            trained = _train_on_blocks(candidates, sampler, settings, trainable)
    return ScaledRows(rows, units, sample, sampler, outputs, trainable, candidates, trained)


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
        on_step=report_step,
        report=lambda message: reporters().message(1, message),
    )
    return _trained(staged)


def _train_further(name: str, covariance: Covariance, sampler: BlockSampler, settings: Settings) -> Trained:
    """Train a kernel that is nearly trained."""
    reporters().start("training with the trend")
    staged = train_further(
        name,
        covariance,
        sampler,
        settings.engine,
        on_step=report_step,
        report=lambda message: reporters().message(1, message),
    )
    return _trained(staged)


def _trained(staged: StagedTraining) -> Trained:
    return Trained(staged.covariance, staged.trace, Choice(staged.choice, staged.reason, staged.evidence))


def report_step(row: TraceRow) -> None:
    """Report a step of training."""
    reporters().advance(1, f"log likelihood {row.log_marginal_likelihood:.6g}, {row.seconds:.1f} s")

"""The schedule of training: stages on small blocks, at a cost that does not grow with the number of rows.

    stage 1   few blocks, standardised inputs, two starts: a first estimate of the length scales
    stage 2   new blocks, using the length scales of stage 1: which kernels remain candidates?
    stage 3   larger blocks, using the newest length scales, for each candidate; then the noise alone, on many
              more rows
    stage 4   the density of rows given their nearest rows chooses the kernel, and trains all of its
              hyperparameters (`polish`)

Up to `EXACT` rows, and for composite kernels, stage 4 is the choice of a kernel by the blocks of stage 3, and
its training on new blocks if stage 3 gained much.

Neighbours in the learned metric are the rows that are most correlated, so that each stage trains on better
blocks than the previous one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from gpexperts.engines.base import Engine
from gpexperts.kernels.base import Covariance, is_length_scale
from gpexperts.kernels.stationary import StationaryCovariance
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.corrected import corrected_evidence
from gpexperts.training.evidence import Evidence, as_dicts, evidence_of, listed, n_rows, reason_of
from gpexperts.training.likelihood import Block, TraceRow, Training, maximise_likelihood
from gpexperts.training.nearest import is_trainable
from gpexperts.training.polish import WORTHWHILE, polish
from gpexperts.training.predictive import predictive_density

__all__ = ["EXACT", "Evidence", "StagedTraining", "largest_block", "train_further", "train_in_stages"]

FIRST_BLOCKS = 30, 200
CHOICE_BLOCKS = 60, 200
FINAL_BLOCKS = 25, 400
NOISE_BLOCKS = 600, 100
"""Number of blocks and rows in each: of stage 1, of stage 2, of the later ones, and of the noise."""
NOISE_CHECKED = 4000, 48
"""Fresh rows and neighbours by which the noise after stage 4 is accepted."""
EXACT = 1500
"""Up to this many rows the later stages train on the exact likelihood of all of them."""
STEPS_OF_ALL, STEPS_OF_BEST = 15, 40
"""Steps of stage 2, which trains all kernels, and of stage 3."""
STEPS_BEFORE_CHOICE = 6
"""…and the kernels that are left are compared after so many steps."""
SETTLED = 0.02
"""Gain in log likelihood per row below which a further stage is not worth its time."""
CLOSE = 0.03
"""Kernels worse than the best by more than this, in nats per row of stage 2, are given up."""
CLOSE_OF_FEW = 0.1
"""…or by more than this, where kernels are trained on all rows and compared by predictions of each."""
MAX_LEFT = 2
SHORTER = 0.1
"""Stage 1 starts again with length scales so many times as long, and keeps the likelier end."""
NOISE_AT_START = 0.05
"""Stage 2 starts with at least this share of noise: with much less, the gradient of its logarithm vanishes
and the optimiser would stay at the noise-free solution of stage 1."""


class StagedTraining(NamedTuple):
    """The result of training on blocks."""

    covariance: Covariance
    trace: list[TraceRow]
    """The steps of the chosen kernel, stage after stage."""
    choice: str
    """The name of the chosen kernel."""
    reason: str
    """The scores that decided."""
    evidence: dict[str, dict[str, dict[str, float]]]
    """Scores of each kernel in stage 2 ("first"), of each that was left in stage 3 ("last"), and by the
    density of rows given their neighbours ("neighbours")."""


def train_in_stages(
    candidates: dict[str, Covariance],
    sampler: BlockSampler,
    engine: Engine,
    *,
    n_restarts: int = 0,
    trainable: bool = True,
    on_step: Callable[[TraceRow], None] | None = None,
    report: Callable[[str], None] = lambda message: None,
) -> StagedTraining:
    """Choose among kernels and train the chosen one, on blocks.

    Parameters
    ----------
    candidates : dict of str to Covariance
        To choose from, with equal hyperparameters; the first one learns the first metric.
    sampler : BlockSampler
    engine : Engine
    n_restarts : int
        Additional starts of the first stage.
    trainable : bool
        False only evaluates the first candidate where it starts.
    on_step, report : callable
    """
    stages = _Stages(sampler, engine, on_step, report)
    choice, start = next(iter(candidates.items()))
    no_metric = sampler.spread
    if not trainable or start.kernel.n_dims == 0:
        only = stages.train(start, stages.draw(no_metric, FINAL_BLOCKS), max_steps=0)
        return StagedTraining(only.covariance, only.trace, choice, "nothing to train", {})

    blocks = stages.draw(no_metric, FIRST_BLOCKS)
    # Where noise dominates, a smooth function is a local optimum next to the one with the fine structure.
    firsts = [
        stages.train(covariance, blocks, max_steps=40, tolerance=1e-4, n_restarts=n_restarts)
        for covariance in (start, start.with_kernel(_shorter(start.kernel)))
    ]
    first = max(firsts, key=lambda training: training.trace[-1].log_marginal_likelihood)
    theta = first.covariance.kernel.theta
    blocks = stages.draw(stages.metric(first), CHOICE_BLOCKS)
    starts = {name: _noisier(c.at(theta), sampler.variance) for name, c in candidates.items()}
    second = {
        name: stages.train(c, blocks, max_steps=STEPS_OF_ALL, tolerance=1e-4) for name, c in starts.items()
    }
    earlier = {name: evidence_of(t, blocks) for name, t in second.items()}
    report(f"candidates, {listed(earlier, blocks)}")

    by_score = sorted(earlier, key=lambda name: -earlier[name].score)
    close, most = (CLOSE_OF_FEW, len(by_score)) if stages.exact else (CLOSE, MAX_LEFT)
    candidates_left = [n for n in by_score if earlier[n].score >= earlier[by_score[0]].score - close]
    candidates_left = candidates_left[:most]
    several = len(candidates_left) > 1
    third = {name: stages.refine(second[name], several=several) for name in candidates_left}
    best = third[candidates_left[0]].training
    blocks = stages.draw(stages.metric(best), NOISE_BLOCKS if stages.many else stages.final_blocks)
    ends = {name: stages.settle_noise(refined.training, blocks) for name, refined in third.items()}
    later = {name: stages.evidence(training, blocks) for name, training in ends.items()}
    report(f"after training on blocks, {listed(later, blocks)}")
    evidence = {"first": as_dicts(earlier), "last": as_dicts(later)}
    polished = None
    if sampler.n > EXACT:
        of_blocks = {name: training.covariance for name, training in ends.items()}
        polished = polish(of_blocks, candidates, sampler, engine, report)
    if polished is not None:
        choice, reason = polished.name, polished.reason
        evidence["neighbours"] = as_dicts(polished.evidence)
        covariance = stages.settled(polished.covariance)
        trainings = [second[choice], _ended_at(ends.get(choice, second[choice]), covariance)]
    else:
        choice = max(later, key=lambda name: later[name].score)
        reason = reason_of(choice, later if several else earlier)
        trainings = [second[choice], ends[choice]]
        if third[choice].pays:
            trainings.append(stages.settle_noise(stages.refine(ends[choice]).training, blocks))
    trace = first.trace
    for training in trainings:
        trace = trace + _continued(training.trace, trace[-1])
    return StagedTraining(trainings[-1].covariance, trace, choice, reason, evidence)


def train_further(
    name: str,
    start: Covariance,
    sampler: BlockSampler,
    engine: Engine,
    *,
    on_step: Callable[[TraceRow], None] | None = None,
    report: Callable[[str], None] = lambda message: None,
) -> StagedTraining:
    """Train a kernel that starts near its optimum: on all rows if they are few, else by stage 4 alone.

    Parameters
    ----------
    name : str
        Of the kernel.
    start : Covariance
    sampler : BlockSampler
    engine : Engine
    on_step, report : callable
    """
    stages, evidence = _Stages(sampler, engine, on_step, report), {}
    polished = None
    if sampler.n > EXACT:
        polished = polish({name: start}, {name: start}, sampler, engine, report, other_starts=False)
    if polished is not None:
        start, evidence = stages.settled(polished.covariance), {"neighbours": as_dicts(polished.evidence)}
    blocks = stages.draw(start.metric(sampler.spread), stages.final_blocks)
    training = stages.train(start, blocks, max_steps=0)
    if polished is not None:
        return StagedTraining(training.covariance, training.trace, name, polished.reason, evidence)
    # It starts at the largest density of rows given their neighbours: the likelihood may lead away.
    trained = stages.train(start, blocks, max_steps=STEPS_OF_BEST, tolerance=1e-4)
    score, better = stages.evidence(training, blocks), stages.evidence(trained, blocks)
    if better.score > score.score:
        training, score = trained, better
    return StagedTraining(training.covariance, training.trace, name, reason_of(name, {name: score}), evidence)


def largest_block(n: int) -> int:
    """Rows of the largest block that any stage trains on, for n rows."""
    stages = (FIRST_BLOCKS, CHOICE_BLOCKS, FINAL_BLOCKS, NOISE_BLOCKS)
    return n if n <= EXACT else max(rows for _, rows in stages)


class _Refined(NamedTuple):
    training: Training
    pays: bool
    """Whether another time on new blocks is worth it."""


@dataclass(frozen=True)
class _Stages:
    """What every stage uses."""

    sampler: BlockSampler
    engine: Engine
    on_step: Callable[[TraceRow], None] | None
    report: Callable[[str], None]

    @property
    def final_blocks(self) -> tuple[int, int]:
        return (1, self.sampler.n) if self.exact else FINAL_BLOCKS

    @property
    def many(self) -> bool:
        """Whether there are rows that the refined kernels have not seen."""
        n_blocks, block_size = FINAL_BLOCKS
        return self.sampler.n > n_blocks * block_size

    @property
    def exact(self) -> bool:
        """Whether kernels are trained on all rows in one block."""
        return self.sampler.n <= EXACT

    def evidence(self, training: Training, blocks: list[Block]) -> Evidence:
        """Return the scores at the end of a training on these blocks."""
        if len(blocks) == 1:
            return corrected_evidence(training.covariance, blocks[0])
        return evidence_of(training, blocks)

    def metric(self, training: Training) -> np.ndarray:
        return training.covariance.metric(self.sampler.spread)

    def draw(self, metric: np.ndarray, number_and_size: tuple[int, int]) -> list[Block]:
        return self.sampler.draw(metric, *number_and_size)

    def train(self, covariance: Covariance, blocks: list[Block], **settings: Any) -> Training:
        return maximise_likelihood(
            covariance,
            blocks,
            self.engine,
            random_state=self.sampler.random_state,
            on_step=self.on_step,
            **settings,
        )

    def refine(self, training: Training, *, several: bool = False) -> _Refined:
        """Train on large blocks in the newest metric; on all rows, take few steps while kernels compete."""
        blocks = self.draw(self.metric(training), self.final_blocks)
        steps = STEPS_BEFORE_CHOICE if self.exact and several else STEPS_OF_BEST
        tolerance = 1e-4 if self.exact else 1e-5
        training = self.train(training.covariance, blocks, max_steps=steps, tolerance=tolerance)
        first, last = training.trace[0], training.trace[-1]
        gain = (last.log_marginal_likelihood - first.log_marginal_likelihood) / n_rows(blocks)
        self.report(f"{gain:.4f} nats per row gained on {len(blocks)} new blocks")
        return _Refined(training, pays=steps < STEPS_OF_BEST if self.exact else gain >= SETTLED)

    def settled(self, covariance: StationaryCovariance) -> StationaryCovariance:
        """Train the noise alone on blocks in the newest metric, if that makes many fresh rows more likely.

        Equal rows with equal targets let the noise vanish, until one of many of them has another target:
        `polish` sees too few rows for that. Errors are bounded by the width of the targets, and not in units
        of std: a std that is far too small for a few rows must cost what it costs.
        """
        blocks = self.draw(covariance.metric(self.sampler.spread), NOISE_BLOCKS)
        settled = self.train_noise(self.train(covariance, blocks, max_steps=0), blocks).covariance
        assert is_trainable(settled)
        rows = self.sampler.fresh_neighbourhoods(covariance.metric(self.sampler.spread), *NOISE_CHECKED)
        before, after = (
            predictive_density(c, rows, self.engine, largest=self.sampler.y_width).log_density / len(rows.X)
            for c in (covariance, settled)
        )
        self.report(
            f"noise {settled.noise_variance:.3g} instead of {covariance.noise_variance:.3g} gains "
            f"{after - before:.4f} nats per row"
        )
        return settled if after > before + WORTHWHILE else covariance

    def settle_noise(self, training: Training, blocks: list[Block]) -> Training:
        """Train the noise alone, where there are rows that training has not seen."""
        return self.train_noise(training, blocks) if self.many else training

    def train_noise(self, training: Training, blocks: list[Block]) -> Training:
        """Train the noise alone.

        Noise shows in rows that lie close together and differ. They are few, so that many rows are needed to
        estimate it, which a single hyperparameter can afford.
        """
        kernel = training.covariance.kernel
        noise = self.train(
            training.covariance.with_kernel(_only_noise_free(kernel)), blocks, max_steps=15, tolerance=1e-5
        )
        levels = {name: noise.covariance.kernel.get_params()[name] for name in _noise_levels(kernel)}
        theta = clone(kernel).set_params(**levels).theta
        return _ended_at(training, training.covariance.at(theta), noise.trace[-1])


def _noisier(covariance: Covariance, variance: float) -> Covariance:
    """Return the covariance with its free noise raised to at least `NOISE_AT_START` of `variance`."""
    raised, kernel = {}, covariance.kernel
    for name in _noise_levels(kernel):
        level, bounds = kernel.get_params()[name], np.ravel(kernel.get_params()[f"{name}_bounds"])
        raised[name] = float(np.clip(max(level, NOISE_AT_START * variance), *bounds))
    return covariance.with_kernel(clone(kernel).set_params(**raised))


def _shorter(kernel: Kernel) -> Kernel:
    """Return the kernel with its free length scales times `SHORTER`."""
    theta = np.clip(kernel.theta + np.log(SHORTER) * is_length_scale(kernel), *kernel.bounds.T)
    return kernel.clone_with_theta(theta)


def _noise_levels(kernel: Kernel) -> list[str]:
    """Names of the kernel's noise levels that are free to be trained."""
    return [h.name for h in kernel.hyperparameters if h.name.endswith("noise_level") and not h.fixed]


def _only_noise_free(kernel: Kernel) -> Kernel:
    """Return the kernel with every hyperparameter fixed but its noise levels."""
    free = _noise_levels(kernel)
    fixed = {f"{h.name}_bounds": "fixed" for h in kernel.hyperparameters if h.name not in free}
    return clone(kernel).set_params(**fixed)


def _ended_at(training: Training, covariance: Covariance, last: TraceRow | None = None) -> Training:
    """Return the training with one more step, to another covariance."""
    end = training.trace[-1]
    row = (last or end)._replace(theta=covariance.kernel.theta)
    return Training(covariance, training.trace + _continued([row], end))


def _continued(trace: list[TraceRow], last: TraceRow) -> list[TraceRow]:
    """Number and time the rows of a later stage on from those of the one before."""
    return [
        row._replace(
            step=last.step + 1 + row.step,
            seconds=last.seconds + row.seconds,
            stage=last.stage + 1 + row.stage,
        )
        for row in trace
    ]

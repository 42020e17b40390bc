"""The last stage of training: the density of rows given their neighbours, which is what is predicted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpexperts.choices import margins
from gpexperts.engines.base import Engine
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.stationary import StationaryCovariance
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.evidence import Evidence
from gpexperts.training.nearest import (
    PREDICTED,
    Stage,
    evidence_of_fresh_rows,
    is_trainable,
    trained_on_neighbours,
)
from gpexperts.training.starts import OTHER_STARTS

__all__ = ["WORTHWHILE", "Polished", "polish"]

FIRST, SECOND = Stage(750, 48, 12), Stage(1500, 48, 12)
"""Training on neighbours, which the second stage finds again."""
SAMPLED, FEWEST = 1000, 300
"""Rows without equals, of a sample of `SAMPLED`, below which predictive training is left out. Where there are
enough, those with equals are kept: they show the noise."""
CHECKED = 1000, 96
"""Fresh rows and neighbours by which kernels are compared, and the result of training is accepted,…"""
CHECKED_IN_NOISE = 3000, 96
"""…more of them where much is unexplained,…"""
WORTHWHILE = 0.005
"""…if their score gains more than this, in nats per row."""
STARTS_ROWS = 400_000
"""Rows, at most, among which other starts are trained and compared: each searches for neighbours twice."""
UNEXPLAINED = 0.3
"""Share of the variance that the prediction leaves, above which other starts are tried."""


class Polished(NamedTuple):
    """The kernel that predicts fresh rows best."""

    name: str
    covariance: StationaryCovariance
    evidence: dict[str, Evidence]
    """Scores on the same fresh rows: of each kernel as trained on blocks, and of the further training."""
    reason: str


def polish(
    of_blocks: dict[str, Covariance],
    candidates: dict[str, Covariance],
    sampler: BlockSampler,
    engine: Engine,
    report: Callable[[str], None],
    *,
    other_starts: bool = True,
) -> Polished | None:
    """Choose the kernel that predicts fresh rows best, and train it on the density of rows given neighbours.

    Parameters
    ----------
    of_blocks : dict of str to Covariance
        The kernels to choose from, as trained on blocks.
    candidates : dict of str to Covariance
        All kernels, at their start; the last one is the roughest.
    sampler : BlockSampler
    engine : Engine
    report : callable
    other_starts : bool
        Whether the roughest kernel is also trained from other starts, where much is unexplained.

    Returns
    -------
    Polished or None
        None for kernels without gradients of this density, and where too few rows have inputs of their own.
    """
    ends = {name: covariance for name, covariance in of_blocks.items() if is_trainable(covariance)}
    if not ends:
        return None
    metric = next(iter(ends.values())).metric(sampler.spread)
    if len(sampler.neighbourhoods(metric, SAMPLED, PREDICTED).without_twins(PREDICTED).X) < FEWEST:
        return None
    within, checked = sampler, CHECKED
    scores = {name: evidence_of_fresh_rows(end, sampler, engine, *checked) for name, end in ends.items()}
    roughest = list(candidates)[-1]
    rough = candidates[roughest]
    unexplained = max(scores.values(), key=_score).loo_error > UNEXPLAINED * sampler.variance
    in_noise = other_starts and unexplained and is_trainable(rough)
    if in_noise:
        within, checked = sampler.of_sample(STARTS_ROWS), CHECKED_IN_NOISE
        scores = {name: evidence_of_fresh_rows(end, within, engine, *checked) for name, end in ends.items()}
    name = max(scores, key=lambda name: scores[name].score)
    start, best, stages = ends[name], scores[name], [FIRST, SECOND]
    starts: list[tuple[str, StationaryCovariance]] = []
    if in_noise and is_trainable(rough):
        usual = rough.at(start.kernel.theta)
        for origin, starts_of in OTHER_STARTS.items():
            starts += [(origin, other) for other in starts_of(rough, usual, within, engine)]
    for origin, other in starts:
        # Only after training can starts be compared.
        other = trained_on_neighbours(other, within, engine, (FIRST,))
        score = evidence_of_fresh_rows(other, within, engine, *checked)
        scores[origin] = max(score, scores.get(origin, score), key=_score)
        if score.score > best.score:
            name, start, best, stages = roughest, other, score, [SECOND]
    if within is not sampler:
        best = evidence_of_fresh_rows(start, sampler, engine, *checked)
    trained = start
    for stage in stages:
        trained = trained_on_neighbours(trained, sampler, engine, (stage,))
        score = evidence_of_fresh_rows(trained, sampler, engine, *checked)
        if "neighbours" not in scores or score.score > scores["neighbours"].score:
            scores["neighbours"] = score
        if score.score > best.score + WORTHWHILE:
            start, best = trained, score
    losses = {how: -e.score for how, e in scores.items() if how != "neighbours"}
    origin = min(losses, key=losses.__getitem__)
    compared = margins(origin, losses)
    reason = f"score {-losses[origin]:.4f} of {checked[0]} rows given their neighbours"
    reason += f", {compared}" if compared else ""
    reason += f"; started {origin}" if origin in OTHER_STARTS else ""
    reason += f"; {scores['neighbours'].score:.4f} after training on such rows"
    report(f"{name} chosen: {reason}")
    return Polished(name, start, scores, reason)


def _score(evidence: Evidence) -> float:
    return evidence.score

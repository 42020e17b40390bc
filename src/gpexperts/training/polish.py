"""The last stage of training: the density of rows given their neighbours, which is what is predicted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpexperts.choices import margins
from gpexperts.engines.base import Engine
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.stationary import StationaryCovariance
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.evidence import Evidence
from gpexperts.training.groups import start_by_groups
from gpexperts.training.nearest import (
    PREDICTED,
    Stage,
    evidence_of_fresh_rows,
    is_trainable,
    trained_on_neighbours,
)

__all__ = ["WORTHWHILE", "Polished", "polish"]

FIRST, SECOND = Stage(750, 48, 12), Stage(1500, 48, 12)
"""Training on neighbours, which the second stage finds again."""
SAMPLED, FEWEST = 1000, 300
"""Rows without equals, of a sample of `SAMPLED`, below which predictive training is left out. Where there are
enough, those with equals are kept: they show the noise."""
CHECKED = 1000, 96
"""Fresh rows and neighbours by which kernels are compared, and the result of training is accepted…"""
WORTHWHILE = 0.005
"""…if their score gains more than this, in nats per row."""
UNEXPLAINED = 0.3
"""Share of the variance that the prediction leaves, above which other starts are tried."""
QUIET, LOUD = 0.05, 2.0
"""Noise and signal of a start, in units of the variance of the targets."""


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
    scores = {name: evidence_of_fresh_rows(end, sampler, engine, *CHECKED) for name, end in ends.items()}
    name = max(scores, key=lambda name: scores[name].score)
    start, best = ends[name], scores[name]
    roughest = list(candidates)[-1]
    rough = candidates[roughest]
    unexplained, stages = best.loo_error > UNEXPLAINED * sampler.variance, [FIRST, SECOND]
    if other_starts and unexplained and is_trainable(rough):
        for origin, start_of in OTHER_STARTS.items():
            other = start_of(rough, sampler, engine)
            if other is None:
                continue
            # Only after training can starts be compared.
            other = trained_on_neighbours(other, sampler, engine, (FIRST,))
            scores[origin] = evidence_of_fresh_rows(other, sampler, engine, *CHECKED)
            if scores[origin].score > best.score:
                name, start, best, stages = roughest, other, scores[origin], [SECOND]
                break
    trained = start
    for stage in stages:
        trained = trained_on_neighbours(trained, sampler, engine, (stage,))
        score = evidence_of_fresh_rows(trained, sampler, engine, *CHECKED)
        if "neighbours" not in scores or score.score > scores["neighbours"].score:
            scores["neighbours"] = score
        if score.score > best.score + WORTHWHILE:
            start, best = trained, score
    losses = {how: -e.score for how, e in scores.items() if how != "neighbours"}
    origin = min(losses, key=losses.__getitem__)
    compared = margins(origin, losses)
    reason = f"score {-losses[origin]:.4f} of {CHECKED[0]} rows given their neighbours"
    reason += f", {compared}" if compared else ""
    reason += f"; started {origin}" if origin in OTHER_STARTS else ""
    reason += f"; {scores['neighbours'].score:.4f} after training on such rows"
    report(f"{name} chosen: {reason}")
    return Polished(name, start, scores, reason)


def _quiet(covariance: StationaryCovariance, sampler: BlockSampler, engine: Engine) -> StationaryCovariance:
    """Return the kernel with little noise and a strong signal.

    Where much is unexplained, blocks explain most of it as noise. Structure that only the nearest rows show,
    such as that of flights of one hour, is found from the other side.
    """
    kernel, d = covariance.kernel, sampler.sample.X.shape[1]
    is_signal = covariance.in_order_of_theta(1.0, np.zeros(d), 0.0) != 0.0
    is_noise = covariance.in_order_of_theta(0.0, np.zeros(d), 1.0) != 0.0
    theta = np.where(is_signal, np.log(LOUD * sampler.variance), kernel.theta)
    theta[is_noise] = np.log(QUIET * sampler.variance)
    return covariance.at(np.clip(theta, *kernel.bounds.T))


OTHER_STARTS = {"by groups of inputs": start_by_groups, "with little noise": _quiet}
"""In this order, until one is better than the blocks."""

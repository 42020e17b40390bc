"""The last stage of training: the density of rows given their neighbours, which is what is predicted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeGuard

from gpexperts.engines.base import Engine
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.stationary import StationaryCovariance
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.evidence import Evidence
from gpexperts.training.groups import start_by_groups
from gpexperts.training.nearest import PREDICTED, Stage, evidence_of_fresh_rows, trained_on_neighbours

__all__ = ["Polished", "polish"]

POLISHING = (Stage(2500, 48, 12), Stage(2500, 48, 12))
FEWEST = 300
"""Rows without equals, of a sample of `CHECKED`, below which predictive training is left out. Where there are
enough, those with equals are kept: they show the noise."""
CHECKED = 1000, 128
"""Fresh rows and neighbours by which its result is accepted…"""
WORTHWHILE = 0.01
"""…if their score gains more than this, in nats per row."""
UNEXPLAINED = 0.3
"""Share of the variance that the prediction leaves, above which another start is tried."""


class Polished(NamedTuple):
    """The kernel that predicts fresh rows best."""

    name: str
    covariance: Covariance
    evidence: dict[str, Evidence]
    """Scores of each start, on the same fresh rows."""
    reason: str


def polish(
    name: str,
    candidates: dict[str, Covariance],
    covariance: Covariance,
    sampler: BlockSampler,
    engine: Engine,
    report: Callable[[str], None],
) -> Polished:
    """Maximise the density of rows given their neighbours, and keep what predicts fresh rows best.

    Parameters
    ----------
    name : str
        Of the kernel that was chosen on blocks.
    candidates : dict of str to Covariance
        The kernels that may be chosen, at their start.
    covariance : Covariance
        As trained on blocks. Kernels without gradients of this density are returned as they are.
    sampler : BlockSampler
    engine : Engine
    report : callable
    """
    if not _is_trainable(covariance):
        return Polished(name, covariance, {}, "")
    rows = sampler.neighbourhoods(covariance.metric(sampler.spread), CHECKED[0], PREDICTED)
    if len(rows.without_twins(PREDICTED).X) < FEWEST:
        return Polished(name, covariance, {}, "")
    scores = {"blocks": evidence_of_fresh_rows(covariance, sampler, engine, *CHECKED)}
    best, best_name = covariance, name
    starts = {"neighbours": (name, covariance)}
    roughest = list(candidates)[-1]
    rough = candidates[roughest]
    if scores["blocks"].loo_error > UNEXPLAINED * sampler.variance and _is_trainable(rough):
        grouped = start_by_groups(rough, sampler, engine)
        if grouped is not None:
            starts["groups"] = roughest, grouped
    for how, (kernel, there) in starts.items():
        there = trained_on_neighbours(there, sampler, engine, POLISHING)
        highest = max(e.score for e in scores.values())
        scores[how] = evidence_of_fresh_rows(there, sampler, engine, *CHECKED)
        if scores[how].score > highest + WORTHWHILE:
            best, best_name = there, kernel
    listed = ", ".join(f"{how} {e.score:.4f}" for how, e in scores.items())
    report(f"score of fresh rows given their neighbours, after training on: {listed}")
    return Polished(best_name, best, scores, f"{best_name}; score by kind of training: {listed}")


def _is_trainable(covariance: Covariance) -> TypeGuard[StationaryCovariance]:
    return isinstance(covariance, StationaryCovariance) and not covariance.has_shape_parameter

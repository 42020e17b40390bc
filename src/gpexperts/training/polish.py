"""The last stage of training: the density of rows given their neighbours, which is what is predicted."""

from __future__ import annotations

from collections.abc import Callable

from gpexperts.engines.base import Engine
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.stationary import StationaryCovariance
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.evidence import Evidence
from gpexperts.training.predictive import maximise_density, predictive_density

__all__ = ["polished"]

POLISHING = ((1500, 48, 8), (1500, 48, 8))
"""Rows, neighbours and steps of each stage of predictive training."""
PREDICTED = 4
"""Rows of each neighbourhood that are predicted."""
CHECKED = 1000, 128
"""Fresh rows and neighbours by which its result is accepted…"""
WORTHWHILE = 0.01
"""…if their score gains more than this, in nats per row."""


def polished(
    covariance: Covariance, sampler: BlockSampler, engine: Engine, report: Callable[[str], None]
) -> Covariance | None:
    """Maximise the density of rows given their neighbours; None if fresh rows do not gain by the result.

    Parameters
    ----------
    covariance : Covariance
        None is returned as well for a kernel without gradients of this density.
    sampler : BlockSampler
    engine : Engine
    report : callable
    """
    if not isinstance(covariance, StationaryCovariance) or covariance.has_shape_parameter:
        return None
    better = covariance
    for n_rows, m, steps in POLISHING:
        rows = sampler.neighbourhoods(better.metric(sampler.spread), n_rows, m)
        better = maximise_density(better, rows, engine, predicted=PREDICTED, max_steps=steps)
    before, after = (_score(c, sampler, engine) for c in (covariance, better))
    report(f"predictive training: score {before:.4f} before, {after:.4f} after, on fresh rows")
    return better if after > before + WORTHWHILE else None


def _score(covariance: StationaryCovariance, sampler: BlockSampler, engine: Engine) -> float:
    """Mean of log density and −½ log error of fresh rows given their neighbours, per row and output."""
    rows = sampler.fresh_neighbourhoods(covariance.metric(sampler.spread), *CHECKED)
    density = predictive_density(covariance, rows, engine)
    n = density.n_rows * rows.y.shape[2]
    return Evidence(density.log_density / n, density.squared_error / n).score

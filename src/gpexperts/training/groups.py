"""A start of training in which one input tells groups of rows apart.

Length scales start long and shrink along gradients. But an input that repeats its values, such as the number
of a machine or the length of a route, may name a group: rows of other groups carry no information. Its
length scale is then shorter than the step from one value to the next, and no gradient leads there from a long
one, as the likelihood hardly changes in between. So each such input gets a start with a length scale below
its steps. The starts are trained for a few steps on a sample, and the one with the highest density goes on.
"""

from __future__ import annotations

import numpy as np

from gpexperts.engines.base import Engine
from gpexperts.kernels.stationary import StationaryCovariance
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.nearest import Stage, evidence_of_fresh_rows, trained_on_neighbours

__all__ = ["start_by_groups"]

FEWEST_VALUES, ROWS_PER_VALUE = 20, 10
"""An input may name groups if it has at least so many values, and so many rows for each in the mean."""
MOST_INPUTS = 8
"""Inputs that are tried: those with the most values."""
NOISE_AT_START = 0.4
"""Share of the variance."""
SHARE_OF_STEP = 0.1
"""Of the median step between values: the length scale at the start."""
STAGES = (Stage(500, 32, 8), Stage(500, 32, 8))
"""Of the training of each start."""
CHECKED = 1000, 32
"""Fresh rows and neighbours that choose among the starts."""


def start_by_groups(
    covariance: StationaryCovariance, sampler: BlockSampler, engine: Engine
) -> StationaryCovariance | None:
    """Return the kernel at the best of these starts; None if no input can name groups.

    Parameters
    ----------
    covariance : StationaryCovariance
        At its usual start.
    sampler : BlockSampler
    engine : Engine
    """
    values = [np.unique(x) for x in sampler.sample.X.T]
    most = len(sampler.sample.X) / ROWS_PER_VALUE
    index = covariance.scale_index
    n_inputs = (
        np.ones(len(values), dtype=int) if index is None else np.bincount(index)
    )  # of each length scale
    alone = n_inputs == 1 if index is None else n_inputs[index] == 1
    inputs = [k for k, x in enumerate(values) if alone[k] and FEWEST_VALUES <= len(x) <= most]
    inputs = sorted(inputs, key=lambda k: -len(values[k]))[:MOST_INPUTS]
    free = covariance.in_order_of_theta(0.0, np.ones(len(values)), 0.0)
    if not inputs or np.count_nonzero(free) < len(n_inputs):  # fixed length scales, or one for all inputs
        return None
    small, best = sampler.of_sample(), (-np.inf, covariance)
    for k in inputs:
        step = float(np.median(np.diff(values[k])))
        there = _started(covariance, len(values), k, SHARE_OF_STEP * step, sampler.variance)
        there = trained_on_neighbours(there, small, engine, STAGES)
        density = evidence_of_fresh_rows(there, small, engine, *CHECKED).log_likelihood
        best = max(best, (density, there), key=lambda start: start[0])
    return best[1]


def _started(
    covariance: StationaryCovariance, n_inputs: int, k: int, length_scale: float, variance: float
) -> StationaryCovariance:
    """Return the kernel with this length scale of input k, and with much noise."""
    kernel, inputs = covariance.kernel, np.arange(n_inputs)
    is_length = covariance.in_order_of_theta(0.0, (inputs == k).astype(float), 0.0) != 0.0
    is_noise = covariance.in_order_of_theta(0.0, np.zeros(len(inputs)), 1.0) != 0.0
    theta = np.where(is_length, np.log(length_scale), kernel.theta)
    theta[is_noise] = np.log(NOISE_AT_START * variance)
    return covariance.at(np.clip(theta, *kernel.bounds.T))

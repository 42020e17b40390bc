"""Other starts of training, where the usual one leaves much unexplained. No gradient leads to them.

`starts_by_groups`: length scales start long and shrink along gradients. But an input that repeats its
values, such as the number of a machine or the length of a route, may name a group: rows of other groups
carry no information. Its length scale is then shorter than the step from one value to the next, and the
likelihood hardly changes in between.

`starts_without_an_input`: an input that has become important, such as the day, keeps rows apart that agree in
all others. Whether these predict each other better shows only without that input.

`starts_with_little_noise`: blocks explain most of what they do not see as noise. Structure that only the
nearest rows show is found from the other side.

Starts by groups are trained for a few steps on a sample, and the ones that predict best go on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpexperts.engines.base import Engine
from gpexperts.kernels.stationary import StationaryCovariance
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.nearest import Stage, evidence_of_fresh_rows, trained_on_neighbours

__all__ = ["OTHER_STARTS", "starts_by_groups", "starts_with_little_noise", "starts_without_an_input"]

FEWEST_VALUES, ROWS_PER_VALUE = 20, 10
"""An input may name groups if it has at least so many values, and so many rows for each in the mean."""
MOST_INPUTS = 8
"""Inputs that are tried: those with the most values."""
NOISE_AT_START = 0.4
"""Share of the variance."""
SHARE_OF_STEP = 0.1
"""Of the median step between values: the length scale at the start."""
MOST_LEFT_OUT, IRRELEVANT = 2, 100.0
"""Inputs that are left out in turn: those with the shortest length scales; and their length scale then, in
units of their spread."""
QUIET, LOUD = 0.05, 2.0
"""Noise and signal of the start with little noise, in units of the variance of the targets."""
STAGES = (Stage(500, 32, 8), Stage(500, 32, 8))
"""Of the training of each start by groups."""
CHECKED = 1000, 32
"""Fresh rows and neighbours that choose among these starts…"""
MOST_STARTS = 2
"""…so many, at most, which are compared again after more training: a sample shows small groups less well."""


def starts_by_groups(
    covariance: StationaryCovariance, trained: StationaryCovariance, sampler: BlockSampler, engine: Engine
) -> list[StationaryCovariance]:
    """Return the kernel with a very short length scale of one input; none if no input can name groups.

    Parameters
    ----------
    covariance : StationaryCovariance
        At its usual start.
    trained : StationaryCovariance
        At the end of the usual training.
    sampler : BlockSampler
    engine : Engine
    """
    values = [np.unique(x) for x in sampler.sample.X.T]
    most, scale = len(sampler.sample.X) / ROWS_PER_VALUE, _scale_of_input(covariance, len(values))
    alone = np.bincount(scale)[scale] == 1
    inputs = [k for k, x in enumerate(values) if alone[k] and FEWEST_VALUES <= len(x) <= most]
    inputs = sorted(inputs, key=lambda k: -len(values[k]))[:MOST_INPUTS]
    if _n_length_scales(covariance, len(values)) <= scale.max():  # fixed, or one for all inputs
        return []
    noisy = _with(covariance, len(values), noise=NOISE_AT_START * sampler.variance)
    short = [SHARE_OF_STEP * float(np.median(np.diff(values[k]))) for k in inputs]
    starts = [_with(noisy, len(values), {k: to}) for k, to in zip(inputs, short, strict=True)]
    return _best(starts, sampler, engine, MOST_STARTS)


def starts_without_an_input(
    covariance: StationaryCovariance, trained: StationaryCovariance, sampler: BlockSampler, engine: Engine
) -> list[StationaryCovariance]:
    """Return the trained kernel with a very long length scale of one input, and little noise; as
    `starts_by_groups`.
    """
    d = sampler.sample.X.shape[1]
    if _n_length_scales(trained, d) < 2:
        return []
    _, first = np.unique(_scale_of_input(trained, d), return_index=True)  # an input of each length scale
    relative = trained.metric(sampler.spread)[first] / sampler.spread[first]
    shortest = first[np.argsort(relative, kind="stable")[:MOST_LEFT_OUT]].tolist()
    quiet = _with(trained, d, noise=QUIET * sampler.variance)
    return [_with(quiet, d, {k: IRRELEVANT * float(sampler.spread[k])}) for k in shortest]


def starts_with_little_noise(
    covariance: StationaryCovariance, trained: StationaryCovariance, sampler: BlockSampler, engine: Engine
) -> list[StationaryCovariance]:
    """Return the kernel with little noise and a strong signal, as `starts_by_groups`."""
    noise, signal = QUIET * sampler.variance, LOUD * sampler.variance
    return [_with(covariance, sampler.sample.X.shape[1], noise=noise, signal=signal)]


OTHER_STARTS = {
    "without an input": starts_without_an_input,
    "by groups of inputs": starts_by_groups,
    "with little noise": starts_with_little_noise,
}


def _best(
    starts: Sequence[StationaryCovariance], sampler: BlockSampler, engine: Engine, most: int
) -> list[StationaryCovariance]:
    """Train each on the sample, and return those with the best scores of fresh rows."""
    small = sampler.of_sample()
    ends = [trained_on_neighbours(start, small, engine, STAGES) for start in starts]
    scores = [evidence_of_fresh_rows(end, small, engine, *CHECKED).score for end in ends]
    return [ends[k] for k in np.argsort(np.negative(scores), kind="stable")[:most]]


def _scale_of_input(covariance: StationaryCovariance, d: int) -> np.ndarray:
    """The number of the length scale of each input, (d,)."""
    return np.arange(d) if covariance.scale_index is None else covariance.scale_index


def _n_length_scales(covariance: StationaryCovariance, d: int) -> int:
    """Number of free length scales."""
    return int(np.count_nonzero(covariance.in_order_of_theta(0.0, np.ones(d), 0.0)))


def _with(
    covariance: StationaryCovariance,
    d: int,
    length_scales: dict[int, float] | None = None,
    *,
    noise: float | None = None,
    signal: float | None = None,
) -> StationaryCovariance:
    """Return the kernel with other length scales of some of the d inputs, noise and signal, where free."""
    kernel, nothing = covariance.kernel, np.zeros(d)
    theta = kernel.theta.copy()
    for k, value in (length_scales or {}).items():
        theta[covariance.in_order_of_theta(0.0, (np.arange(d) == k) * 1.0, 0.0) != 0.0] = np.log(value)
    if noise is not None:
        theta[covariance.in_order_of_theta(0.0, nothing, 1.0) != 0.0] = np.log(noise)
    if signal is not None:
        theta[covariance.in_order_of_theta(1.0, nothing, 0.0) != 0.0] = np.log(signal)
    return covariance.at(np.clip(theta, *kernel.bounds.T))

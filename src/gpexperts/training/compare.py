"""A quick score of prepared rows: how well a kernel, trained in a second, predicts them from neighbours.

Ways to prepare rows (a trend, a transformed target) are compared before the model is trained, by the log
density of rows given their nearest rows, in the units of the targets. The kernel is trained on few small
blocks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpexperts.columns import InputLayout
from gpexperts.engines.base import Engine
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.raw import candidate_covariances
from gpexperts.row_noise import observation_variance, weights
from gpexperts.rows.base import SAMPLE_ROWS, RowSource
from gpexperts.rows.units import choose_units
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.likelihood import maximise_likelihood
from gpexperts.training.predictive import Neighbourhoods

__all__ = ["Scored", "quick_score"]

BLOCKS = ((16, 100, 20), (16, 150, 12))
"""Blocks, rows in each, and steps of the two stages of training."""
PREDICTED, NEIGHBORS = 1000, 96
"""Rows that are predicted, and rows that predict each."""
SCALES = tuple(np.geomspace(0.3, 3.0, 21).tolist())
CLIPPED = 12.0
"""As in the choice of experts: factors of the variance, and bound of standardised residuals."""


class Scored(NamedTuple):
    """Log densities of some rows, the same rows for the same seed."""

    log_density: np.ndarray
    """(k,) of each row, summed over its outputs, in the units of the targets."""
    weight: np.ndarray
    """(k,) of each row."""
    y: np.ndarray
    """(k, p) targets, in their units."""

    @property
    def nlpd(self) -> float:
        """Negative log density per row and output."""
        return -float(np.average(self.log_density, weights=self.weight)) / self.y.shape[1]

    def gain_over(self, other: Scored) -> tuple[float, float]:
        """Mean gain in log density per row over another preparation of the same rows, and its error."""
        gain = (self.log_density - other.log_density) / self.y.shape[1]
        mean = float(np.average(gain, weights=self.weight))
        spread = float(np.average((gain - mean) ** 2, weights=self.weight))
        return mean, float(np.sqrt(spread / len(gain)))


def quick_score(
    source: RowSource,
    kernel: Any,
    seed: int,
    engine: Engine,
    layout: InputLayout,
    degrees: float | None = None,
) -> Scored:
    """Train a kernel on a few blocks and predict rows from their neighbours.

    Parameters
    ----------
    source : RowSource
        In the units of the targets.
    kernel : str
        Name of the kernel.
    seed : int
        Draws blocks and rows.
    engine : Engine
    layout : InputLayout
        Of the inputs of the source.
    degrees : float, optional
        Of Student-t noise: densities are then those of a Student-t distribution.
    """
    units, varies = choose_units(
        *source.summary(),
        standardize=True,
        kernel_is_object=False,
        learns_noise=degrees is None,
        standardized=layout.standardized,
        warns=False,
    )
    outputs = np.flatnonzero(varies) if varies.any() else np.arange(source.n_outputs)
    rows, random_state = source.in_units(units), np.random.RandomState(seed)
    sample = rows.sample(SAMPLE_ROWS, np.random.RandomState(random_state.randint(2**31 - 1)))
    shared = layout.scale_index
    sampler = BlockSampler(rows, sample, outputs, random_state, shared)
    candidates = candidate_covariances(kernel, sampler.spread, sampler.y_spread, units.x, shared)
    covariance, metric = next(iter(candidates.values())), sampler.spread
    for n_blocks, block_size, steps in BLOCKS:
        blocks = sampler.draw(metric, n_blocks, block_size)
        training = maximise_likelihood(covariance, blocks, engine, max_steps=steps, tolerance=1e-4)
        covariance = training.covariance
        metric = covariance.metric(sampler.spread)
    near = sampler.fresh_neighbourhoods(metric, PREDICTED, NEIGHBORS)
    assert near.noise is not None
    y = near.y[:, -1]
    mean, var = _predicted(covariance, near)
    var += np.asarray(observation_variance(near.noise[:, -1], covariance.noise_variance))
    weight = weights(near.noise[:, -1])
    if degrees is not None:
        weight = np.ones(len(y))  # outliers count as they are
    density = max(
        (_log_density(y, mean, scale * var, degrees) for scale in SCALES),
        key=lambda each: float(np.average(each, weights=weight)),
    )
    scale = units.y.scale[outputs]
    return Scored(density - np.log(scale).sum(), weight, y * scale + units.y.shift[outputs])


def _predicted(covariance: Covariance, near: Neighbourhoods) -> tuple[np.ndarray, np.ndarray]:
    """Mean (B, p) and latent variance (B,) of the last row of each system, given the others."""
    B, m, p = near.y.shape
    mean, var = np.empty((B, p)), np.empty(B)
    for b in range(B):
        X = near.X[b]
        C = covariance.noisy_gram(X[:-1], None if near.noise is None else near.noise[b, :-1])
        C[np.diag_indices(m - 1)] *= 1.0 + 1e-9
        k = covariance(X[-1:], X[:-1])[0]
        q = np.linalg.solve(C, k)
        prior = float(covariance.prior_variance(X[-1:])[0])
        mean[b], var[b] = q @ near.y[b, :-1], max(prior - float(q @ k), 1e-12 * prior)
    return mean, var


def _log_density(y: np.ndarray, mean: np.ndarray, var: np.ndarray, degrees: float | None) -> np.ndarray:
    std = np.sqrt(var)[:, None]
    if degrees is not None:
        from scipy import stats  # late: it imports much

        return np.asarray(stats.t.logpdf(y, degrees, mean, std).sum(axis=1))
    z = np.clip((y - mean) / std, -CLIPPED, CLIPPED)
    return -np.sum(0.5 * z**2 + np.log(std) + 0.5 * np.log(2.0 * np.pi), axis=1)

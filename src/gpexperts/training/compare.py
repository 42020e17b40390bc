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
PREDICTED, NEIGHBORS = 600, 64
"""Rows that are predicted, and rows that predict each."""
MANY_ROWS, PREDICTED_OF_MANY = 20_000, 2000
"""With more rows than this, more are predicted: training takes longer, and the choice may too."""
SCALES = tuple(np.geomspace(0.3, 3.0, 21).tolist())
CLIPPED = 12.0
"""As in the choice of experts: factors of the variance, and bound of standardised residuals."""
_TINY = np.finfo(float).tiny


class Scored(NamedTuple):
    """Log densities of some rows, the same rows for the same seed."""

    log_density: np.ndarray
    """(k,) of each row, summed over its outputs, in the units of the targets."""
    weight: np.ndarray
    """(k,) of each row."""
    y: np.ndarray
    """(k, p) targets, in their units."""
    squared_error: np.ndarray
    """(k, p) of the predictions of the targets that the model is fitted to, in their units."""
    relative_error: float
    """Its mean over rows, by their weights, and outputs, in units of the variance of each output."""

    @property
    def nlpd(self) -> float:
        """Negative log density per row and output."""
        return -float(np.average(self.log_density, weights=self.weight)) / self.y.shape[1]

    def gain_over(self, other: Scored, *, by_error: bool = False) -> tuple[float, float]:
        """Mean gain per row over another preparation of the same rows, and its standard error.

        The gain is that in log density. With `by_error` it is the mean of that and of half the relative gain
        in squared error, so that the error counts as much as the density.
        """
        gain = (self.log_density - other.log_density) / self.y.shape[1]
        if by_error:
            mean_square = np.average(other.squared_error, axis=0, weights=self.weight)
            relative = (other.squared_error - self.squared_error) / np.maximum(mean_square, _TINY)
            gain = 0.5 * (gain + 0.5 * relative.mean(axis=1))
        mean = float(np.average(gain, weights=self.weight))
        spread = float(np.average((gain - mean) ** 2, weights=self.weight))
        return mean, float(np.sqrt(spread / len(gain)))


def quick_score(
    source: RowSource,
    kernel: Any,
    seed: int,
    engine: Engine,
    layout: InputLayout,
    *,
    clipped: float = CLIPPED,
    by_weight: bool = True,
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
    clipped : float
        Bound of standardised residuals.
    by_weight : bool
        Whether rows count by their weights, which are those of outliers too; otherwise all count as one.
    """
    units, varies = choose_units(
        *source.summary(),
        standardize=True,
        kernel_is_object=False,
        learns_noise=True,
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
    n_predicted = PREDICTED if source.n <= MANY_ROWS else PREDICTED_OF_MANY
    near = sampler.fresh_neighbourhoods(metric, n_predicted, NEIGHBORS)
    assert near.noise is not None
    y = near.y[:, -1]
    mean, var = _predicted(covariance, near)
    var += np.asarray(observation_variance(near.noise[:, -1], covariance.noise_variance))
    weight = weights(near.noise[:, -1]) if by_weight else np.ones(len(y))
    density = max(
        (_log_density(y, mean, scale * var, clipped) for scale in SCALES),
        key=lambda each: float(np.average(each, weights=weight)),
    )
    scale = units.y.scale[outputs]
    square = (y - mean) ** 2
    relative = float(np.average(np.mean(square, axis=1), weights=weight))
    in_units = y * scale + units.y.shift[outputs]
    return Scored(density - np.log(scale).sum(), weight, in_units, square * scale**2, relative)


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


def _log_density(y: np.ndarray, mean: np.ndarray, var: np.ndarray, clipped: float) -> np.ndarray:
    """Log densities (n,) of y (n, p), summed over outputs, with standardised residuals clipped."""
    std = np.sqrt(var)[:, None]
    z = np.clip((y - mean) / std, -clipped, clipped)
    return -np.sum(0.5 * z**2 + np.log(std) + 0.5 * np.log(2.0 * np.pi), axis=1)

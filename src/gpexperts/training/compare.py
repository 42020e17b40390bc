"""A quick score of prepared rows: how well a kernel, trained in a second, predicts them from neighbours.

Ways to prepare rows (a trend, a transformed target) are compared by the log density of rows given their
nearest rows, in the units of the targets. The kernel is trained on few small blocks. Where a model is trained
already, its length scales are the start, and the density itself is maximised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpexperts.choices import margins
from gpexperts.columns import InputLayout
from gpexperts.engines.base import Engine
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.raw import candidate_covariances
from gpexperts.rows.base import SAMPLE_ROWS, RowSource, Units
from gpexperts.rows.units import choose_units
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.corrected import predicted_from_neighbours
from gpexperts.training.evidence import CLIPPED
from gpexperts.training.likelihood import maximise_likelihood
from gpexperts.training.nearest import Stage, is_trainable, trained_on_neighbours
from gpexperts.training.start import Start

__all__ = ["Scored", "best_of", "evidence_of", "quick_score", "reason_of", "score_of_trained"]

BLOCKS = ((16, 100, 20), (16, 150, 12))
"""Blocks, rows in each, and steps of the two stages of training."""
NEIGHBOURHOODS = Stage(750, 48, 12)
"""Of training that starts from trained length scales: it maximises what is compared."""
PREDICTED, NEIGHBORS = (1000, 10_000), 96
"""Fewest and most rows that are predicted, and rows that predict each."""
SHARE_PREDICTED = 1 / 15
"""Of the rows, between these: with more rows training takes longer, and the choice may too."""
WORTHWHILE = 0.005
"""Nats per row that a preparation must gain over none, beside half its standard error."""
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
    start: Start | None = None
    """The kernel that was trained to predict, for further training."""

    @property
    def relative_error(self) -> float:
        """Mean squared error in units of the variance of the same targets, mean over the outputs."""
        error = np.average(self.squared_error, axis=0, weights=self.weight)
        centred = self.y - np.average(self.y, axis=0, weights=self.weight)
        variance = np.average(centred**2, axis=0, weights=self.weight)
        return float(np.mean(error / np.maximum(variance, _TINY)))

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
    kernel: str,
    seed: int,
    engine: Engine,
    layout: InputLayout,
    *,
    standardize: bool = True,
    start: Start | None = None,
    fold: np.ndarray | None = None,
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
    standardize : bool
        Whether inputs and targets are.
    start : Start, optional
        Where training starts. The source may have further inputs, after the others.
    fold : ndarray of int, shape (n,), optional
        Rows are predicted from rows of other folds.
    clipped : float
        Bound of standardised residuals.
    by_weight : bool
        Whether rows count by their weights, which are those of outliers too; otherwise all count as one.
    """
    units, varies = choose_units(
        *source.summary(),
        standardize=standardize,
        kernel_is_object=False,
        learns_noise=True,
        standardized=layout.standardized,
        warns=False,
    )
    outputs = np.flatnonzero(varies) if varies.any() else np.arange(source.n_outputs)
    sampler = _sampler(source, units, outputs, seed, layout)
    candidates = candidate_covariances(kernel, sampler.spread, sampler.y_spread, units.x, layout.scale_index)
    covariance = next(iter(candidates.values()))
    if start is not None:
        covariance = start.applied(covariance, units, sampler.variance)
    if start is not None and is_trainable(covariance):
        covariance = trained_on_neighbours(covariance, sampler, engine, (NEIGHBOURHOODS,))
    else:
        covariance = _trained_on_blocks(covariance, sampler, engine)
    scored = _scored(covariance, sampler, engine, units, outputs, fold, clipped, by_weight)
    return scored._replace(start=Start(kernel, covariance, units, "all"))


def _trained_on_blocks(covariance: Covariance, sampler: BlockSampler, engine: Engine) -> Covariance:
    metric = sampler.spread
    for n_blocks, block_size, steps in BLOCKS:
        blocks = sampler.draw(metric, n_blocks, block_size)
        training = maximise_likelihood(covariance, blocks, engine, max_steps=steps, tolerance=1e-4)
        covariance = training.covariance
        metric = covariance.metric(sampler.spread)
    return covariance


def score_of_trained(
    source: RowSource,
    covariance: Covariance,
    units: Units,
    outputs: np.ndarray,
    seed: int,
    engine: Engine,
    layout: InputLayout,
    fold: np.ndarray,
) -> Scored:
    """Predict the rows that `quick_score` predicts with this seed, by a kernel that is trained already."""
    sampler = _sampler(source, units, outputs, seed, layout)
    return _scored(covariance, sampler, engine, units, outputs, fold, CLIPPED, by_weight=True)


def _sampler(
    source: RowSource, units: Units, outputs: np.ndarray, seed: int, layout: InputLayout
) -> BlockSampler:
    rows, random_state = source.in_units(units), np.random.RandomState(seed)
    sample = rows.sample(SAMPLE_ROWS, np.random.RandomState(random_state.randint(2**31 - 1)))
    return BlockSampler(rows, sample, outputs, random_state, layout.scale_index)


def _scored(
    covariance: Covariance,
    sampler: BlockSampler,
    engine: Engine,
    units: Units,
    outputs: np.ndarray,
    fold: np.ndarray | None,
    clipped: float,
    by_weight: bool,
) -> Scored:
    n_predicted = int(np.clip(SHARE_PREDICTED * sampler.n, *PREDICTED))
    near = sampler.fresh_neighbourhoods(covariance.metric(sampler.spread), n_predicted, NEIGHBORS, fold)
    predicted = predicted_from_neighbours(covariance, near, engine, by_weight=by_weight)
    scale = units.y.scale[outputs]
    in_units = near.y[:, -1] * scale + units.y.shift[outputs]
    density = predicted.log_density(clipped) - np.log(scale).sum()
    return Scored(density, predicted.weight, in_units, (predicted.residual * scale) ** 2)


def best_of(scores: dict[str, Scored], *, by_error: bool = False, same: str = "") -> str:
    """The name with the largest gain over "none", if it is clearly better; see `Scored.gain_over`.

    `same` is the name of a preparation that gives the same model, only nearer to the exact GP: it need not
    gain more than half its standard error, and the others are then compared with it.
    """

    def gain(name: str, base: str) -> tuple[float, float]:
        return scores[name].gain_over(scores[base], by_error=by_error)

    base, *others = scores
    if base != "none":
        return max(scores, key=lambda name: gain(name, base)[0])
    if same in scores:
        mean, error = gain(same, base)
        base = same if mean > 0.5 * error else base
    best = max(others, key=lambda name: gain(name, base)[0], default=base)
    mean, error = gain(best, base)
    return best if mean > WORTHWHILE + 0.5 * error else base


def reason_of(best: str, scores: dict[str, Scored], *, by_error: bool = False) -> str:
    """Return the density of the choice, and what it gains over the others by the measure that decided."""
    reason = f"NLPD {scores[best].nlpd:.4g} of {len(scores[best].weight)} rows given their neighbours"
    first = next(iter(scores.values()))
    losses = {name: -score.gain_over(first, by_error=by_error)[0] for name, score in scores.items()}
    others = margins(best, losses)
    if not others:
        return f"{reason}; all others were given up early"
    unclear = ", which is no clear gain" if min(losses.values()) < losses[best] else ""
    return f"{reason}; {'density and error' if by_error else 'density'} {others}{unclear}"


def evidence_of(scores: dict[str, Scored]) -> dict[str, dict[str, float]]:
    """The scores that were compared."""
    return {"nlpd": {name: score.nlpd for name, score in scores.items()}}

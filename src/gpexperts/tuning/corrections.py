"""Corrections of the variance of an observation, chosen by the log density of held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from gpexperts.aggregation import Aggregator
from gpexperts.calibration import Calibration
from gpexperts.experts.moments import ExpertMoments, Prediction
from gpexperts.held_out import Held
from gpexperts.row_noise import observation_variance, weights
from gpexperts.tuning.setups import Tuning, leaves_corrections

__all__ = ["WORTHWHILE", "Residuals", "Score"]

DISAGREEMENTS = (None, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
ROUGH_DISAGREEMENTS = (None, 0.5, 2.0, 16.0)
LOCAL_NOISES = (0.0, 0.25, 0.5, 0.75, 1.0)
ROUGH_LOCAL_NOISES = (0.0, 0.5, 1.0)
SCALES = tuple(np.round(np.geomspace(0.1, 10.0, 41), 3).tolist())
CLIPPED, CLIPPED_OF_SETUPS = 40.0, 10.0
"""Bounds of standardised residuals when corrections of the variance are chosen, and when setups
are compared: otherwise a single row with a gross error in its target would decide."""
FLOORS = tuple(np.round(np.geomspace(16.0, 0.001, 29), 4).tolist())
PREMIUM = 0.01
"""Candidates of the smallest factor of the variance, and what the chosen one may cost in nats per query: rare
large errors, which the held-out rows may not show, decide how small a variance can be."""
WORTHWHILE, CLEARLY_BETTER = 0.002, 0.02
"""Nats per query: what a correction must gain, and a setup that is against expectation: beyond the chance of
500 rows."""


class Score(NamedTuple):
    """How well a setup predicts held-out rows."""

    nlpd: float
    """After the best correction of the variance: the choice does not depend on what is corrected later."""
    squared_error: float

    @property
    def loss(self) -> float:
        """The mean of NLPD and ½ log of the squared error: the error counts as much as the density."""
        return 0.5 * (self.nlpd + 0.5 * float(np.log(self.squared_error)))

    def is_better_than(self, other: Score) -> bool:
        """Whether the loss is clearly smaller, and neither NLPD nor squared error is larger."""
        no_larger = self.nlpd <= other.nlpd and self.squared_error <= other.squared_error
        return no_larger and self.loss < other.loss - CLEARLY_BETTER


class Residuals:
    """Targets of held-out rows, to be compared with predictions of them.

    Parameters
    ----------
    held : list of Held
    aggregator : Aggregator
    """

    def __init__(self, held: list[Held], aggregator: Aggregator) -> None:
        self.aggregator = aggregator
        self.y = np.concatenate([h.y for h in held])
        noise = np.concatenate([h.noise for h in held])
        self.weights = weights(noise)
        self.noise = observation_variance(noise, held[0].rest.covariance.noise_variance)
        self.corrects = leaves_corrections(aggregator)

    def score(self, moments: ExpertMoments) -> Score:
        """NLPD, with the best correction if one is to be chosen, and squared error."""
        prediction = self.aggregator.combine(moments)
        residual = self.y - prediction.mean
        if self.corrects:
            tried = self._corrections(
                Tuning(0), moments, ROUGH_DISAGREEMENTS, ROUGH_LOCAL_NOISES, CLIPPED_OF_SETUPS
            )
            nlpd = min(loss for loss, _ in tried)
        else:
            std = np.sqrt(prediction.observation_var(self.noise))
            nlpd = float(_nlpd(residual, std, self.weights, CLIPPED_OF_SETUPS))
        error = float(np.average(np.mean(residual**2, axis=1), weights=self.weights))
        return Score(nlpd, max(error, np.finfo(float).tiny))

    def choose(self, tuning: Tuning, moments: ExpertMoments) -> tuple[Tuning, dict[str, float]]:
        """Choose the corrections of an observation's variance: the fewest that are as good as the best."""
        tried = self._corrections(tuning, moments, DISAGREEMENTS, LOCAL_NOISES)
        least = min(loss for loss, _ in tried)
        good = [(loss, t) for loss, t in tried if loss <= least + WORTHWHILE]
        fewest = min(_number_of_corrections(t) for _, t in good)
        least, chosen = min((loss, t) for loss, t in good if _number_of_corrections(t) == fewest)
        if chosen.local_noise or chosen.disagreement is not None:
            chosen = self._insured(chosen, moments, least)
        evidence: dict[str, float] = {}
        for loss, t in tried:
            kind = f"disagreement={t.disagreement}, local_noise={t.local_noise}"
            evidence[kind] = min(loss, evidence.get(kind, np.inf))
        return chosen, evidence

    def _insured(self, tuning: Tuning, moments: ExpertMoments, loss: float) -> Tuning:
        """Return the setup with the largest floor of the variance that costs little."""
        for floor in FLOORS:
            floored = tuning._replace(floor=floor)
            prediction = floored.applied(self.aggregator).combine(moments)
            std = np.sqrt(prediction.observation_var(self.noise))
            if _nlpd(self.y - prediction.mean, std, self.weights) <= loss + PREMIUM:
                return floored
        return tuning

    def _corrections(
        self,
        tuning: Tuning,
        moments: ExpertMoments,
        disagreements: Sequence[float | None],
        local_noises: Sequence[float],
        clipped: float = CLIPPED,
    ) -> list[tuple[float, Tuning]]:
        """The NLPD of each correction."""
        tried = []
        scales = SCALES if getattr(self.aggregator, "scale", 1.0) == 1.0 else (1.0,)  # a given one is kept
        several = moments.index.shape[1] > 1 or moments.own_disagreement is not None
        for disagreement, local_noise in product(disagreements if several else (None,), local_noises):
            corrected = tuning._replace(disagreement=disagreement, local_noise=local_noise)
            prediction = corrected.applied(self.aggregator).combine(moments)
            losses = self._losses_by_scale(prediction, moments.prior_var, scales, clipped)
            tried += [(loss, corrected._replace(scale=c)) for loss, c in zip(losses, scales, strict=True)]
        return tried

    def _losses_by_scale(
        self, prediction: Prediction, prior_var: np.ndarray, scales: Sequence[float], clipped: float
    ) -> list[float]:
        """NLPD of a prediction after ``prediction.corrected(scale, prior_var)`` for each scale, at once."""
        share = 1.0 - prediction.var[:, None] / prior_var[:, None]
        root_factor = np.exp(0.5 * np.log(scales)[:, None, None] * share)
        std = np.sqrt(prediction.observation_var(self.noise)) * root_factor
        return _nlpd(self.y - prediction.mean, std, self.weights, clipped).tolist()

    def standardised(self, tuning: Tuning, moments: ExpertMoments) -> Calibration:
        """Return the scores |y − mean| / std of the rows."""
        prediction = tuning.applied(self.aggregator).combine(moments)
        std = np.sqrt(prediction.observation_var(self.noise))
        return Calibration.of(np.abs(self.y - prediction.mean) / std, std, self.weights)


def _nlpd(residual: np.ndarray, std: np.ndarray, weight: np.ndarray, clipped: float = CLIPPED) -> np.ndarray:
    """NLPD (…) of residuals (n, p) and stds (…, n, p), averaged by the weights (n,) of the rows.

    Standardised residuals are clipped to ±`clipped`.
    """
    z = np.clip(residual / std, -clipped, clipped)
    each = np.mean(0.5 * z**2 + np.log(std), axis=-1)
    return np.asarray(np.average(each, axis=-1, weights=weight) + 0.5 * np.log(2.0 * np.pi))


def _number_of_corrections(tuning: Tuning) -> int:
    return (tuning.disagreement is not None) + (tuning.local_noise > 0) + (tuning.scale != 1.0)

"""Calibration of intervals by rows that the model has not seen.

With `calibrate`, some rows are held out before anything is learned: scaling, hyperparameters, parts, experts
and the number of selected experts come from the rest alone. To that model the held-out rows are as new as
future rows, so that the quantiles of their scores |y − mean| / std give calibrated intervals.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from gpexperts.exceptions import TooFewRowsError
from gpexperts.metrics import gaussian_width

__all__ = ["ABSENT", "HELD_OUT", "METHODS", "Calibration", "draw_held_out", "kept_labels"]

METHODS = (None, "scale", "conformal")
HELD_OUT = -2
"""Label of a row that was held out."""
ABSENT = -3
"""Label of a row of weight 0."""

_SHARE = 10
_FEWEST, _MOST = 100, 2000
"""A tenth of the rows is held out; at least 100, for intervals of 99 %, and at most 2,000."""
_FEWEST_ROWS = 20
"""Training rows below which too few are left to hold some out."""


class Calibration(NamedTuple):
    """The scores of the held-out rows."""

    scores: np.ndarray
    """(n, p) |y − mean| / std of every held-out row and output, each column in ascending order."""
    weights: np.ndarray | None = None
    """(n, p) weight of the row of each score; None if all are 1."""

    @classmethod
    def of(cls, scores: np.ndarray, weights: np.ndarray | None = None) -> Calibration:
        """Sort scores (n, p) of rows that may have weights (n,)."""
        if weights is None or bool((weights == 1.0).all()):
            return cls(np.sort(scores, axis=0))
        order = np.argsort(scores, axis=0, kind="stable")
        return cls(np.take_along_axis(scores, order, axis=0), weights[order])

    @property
    def variance_scale(self) -> np.ndarray:
        """(p,) the factor of the variance with the largest likelihood: the weighted mean of score²."""
        scale = np.asarray(np.average(self.scores**2, axis=0, weights=self.weights))
        return np.where(scale > 0, scale, 1.0)  # all residuals 0: no information

    def width(self, level: float) -> np.ndarray:
        """(p,) the quantile of the scores at `level`; beyond the largest, in proportion to a Gaussian."""
        if self.weights is not None:
            return np.array(
                [_weighted_width(s, w, level) for s, w in zip(self.scores.T, self.weights.T, strict=True)]
            )
        n = len(self.scores)
        largest = n / (n + 1)
        inside = np.quantile(self.scores, min(level, largest), axis=0, method="weibull")
        if level <= largest:
            return np.asarray(inside)
        return np.asarray(inside * (gaussian_width(level) / gaussian_width(largest)))

    def quantile(self, level: float) -> np.ndarray:
        """(p,) a bound of a new score with at least the probability `level`.

        It is the ⌈(n + 1) level⌉-th smallest score, where each row counts by its weight and a new one by 1.
        """
        if self.weights is not None:
            return self._weighted_quantile(level)
        n = len(self.scores)
        exact = Fraction(repr(float(level)))  # as it was written: 100 · 0.55 is 55, not a little more
        rank = math.ceil((n + 1) * exact)
        if rank > n:
            raise TooFewRowsError(
                f"An interval of level={level} needs at least {math.ceil(exact / (1 - exact))} rows held out "
                f"for calibrate='conformal', but this model has {n}. Choose a level of at most "
                f"{10_000 * n // (n + 1) / 10_000}, fit more rows, or use calibrate='scale'."
            )
        return np.asarray(self.scores[rank - 1])

    def _weighted_quantile(self, level: float) -> np.ndarray:
        assert self.weights is not None
        total = float(self.weights[:, 0].sum())
        if level * (total + 1.0) > total * (1.0 + 1e-12):
            raise TooFewRowsError(
                f"An interval of level={level} needs rows of a total weight of at least "
                f"{level / (1.0 - level):.4g} held out for calibrate='conformal', but this model has "
                f"{total:.4g}. Choose a level of at most {np.floor(1e4 * total / (total + 1.0)) / 1e4}, fit "
                "more rows, or use calibrate='scale'."
            )
        reached = np.cumsum(self.weights, axis=0) * (1.0 + 1e-12) >= level * (total + 1.0)
        return np.asarray(np.take_along_axis(self.scores, np.argmax(reached, axis=0)[None], axis=0)[0])


def _weighted_width(scores: np.ndarray, weight: np.ndarray, level: float) -> float:
    """`Calibration.width` of one output: w rows of equal score count as one row of weight w."""
    total = weight.sum()
    below = np.cumsum(weight) / (total + 1.0)  # probability below each score
    if level > below[-1]:
        return float(scores[-1] * gaussian_width(level) / gaussian_width(float(below[-1])))
    # The first copy of each score is at the end of the one before, plus one copy.
    first = np.minimum(below - (weight - 1.0).clip(0.0) / (total + 1.0), below)
    return float(np.interp(level, np.column_stack([first, below]).ravel(), np.repeat(scores, 2)))


def draw_held_out(n: int, random_state: np.random.RandomState) -> np.ndarray:
    """Draw the numbers of the rows to hold out, ascending: a tenth, 100 to 2,000, at most a quarter."""
    if n < _FEWEST_ROWS:
        raise ValueError(
            f"calibrate holds rows out of training and needs at least {_FEWEST_ROWS} of them, got {n}. "
            "Use calibrate=None."
        )
    size = min(max(n // _SHARE, _FEWEST), _MOST, n // 4)
    return np.sort(random_state.permutation(n)[:size])


def kept_labels(labels: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Return the labels (n,) that the user gave, of the rows that are not held out."""
    kept = np.delete(labels, held_out)
    lost = np.setdiff1d(labels, kept)
    if len(lost):
        raise ValueError(
            f"All rows of part {lost[0]} were drawn to be held out by calibrate: it has only "
            f"{int((labels == lost[0]).sum())}. Give larger parts, or use calibrate=None."
        )
    return kept

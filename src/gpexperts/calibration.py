"""Calibration of intervals by rows that the model has not seen.

With `calibrate`, some rows are held out before anything is learned: scaling, hyperparameters, parts, experts
and the number of selected experts come from the rest alone. To that model the held-out rows are as new as
future rows, so that the quantiles of their scores |y − mean| / std give calibrated intervals. With
``calibrate="jackknife"`` no row is held out: the scores are those of training rows, each predicted without
it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gpexperts.exceptions import TooFewRowsError
from gpexperts.metrics import gaussian_width
from gpexperts.partition.assign import labels_per_row

__all__ = ["HELD_OUT", "HOLDING", "METHODS", "Calibration", "draw_held_out", "kept_labels"]

METHODS = (None, "scale", "conformal", "jackknife")
HOLDING = ("scale", "conformal")
"""Methods that hold rows out; the jackknife leaves every row out in turn."""
HELD_OUT = -2
"""Label of a row that was held out."""

_SHARE = 10
_FEWEST, _MOST = 100, 2000
"""A tenth of the rows is held out; at least 100, for intervals of 99 %, and at most 2,000."""
_FEWEST_ROWS = 20
"""Training rows below which too few are left to hold some out."""


class Calibration(NamedTuple):
    """The scores of rows that the model has not seen."""

    scores: np.ndarray
    """(n, p) |y − mean| / std of every such row and output, each column in ascending order."""

    @property
    def variance_scale(self) -> np.ndarray:
        """(p,) the factor of the variance with the largest likelihood: the mean of score²."""
        scale = np.asarray(np.mean(self.scores**2, axis=0))
        return np.where(scale > 0, scale, 1.0)  # all residuals 0: no information

    def width(self, level: float) -> np.ndarray:
        """(p,) the quantile of the scores at `level`; beyond the largest, in proportion to a Gaussian."""
        n = len(self.scores)
        largest = n / (n + 1)
        inside = np.quantile(self.scores, min(level, largest), axis=0, method="weibull")
        if level <= largest:
            return np.asarray(inside)
        return np.asarray(inside * (gaussian_width(level) / gaussian_width(largest)))

    def quantile(self, level: float) -> np.ndarray:
        """(p,) the ⌈(n + 1) level⌉-th smallest score, a bound of a new one with at least that probability."""
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


def draw_held_out(n: int, random_state: np.random.RandomState) -> np.ndarray:
    """Draw the numbers of the rows to hold out, ascending: a tenth, 100 to 2,000, at most a quarter."""
    if n < _FEWEST_ROWS:
        raise ValueError(
            f"calibrate holds rows out of training and needs at least {_FEWEST_ROWS} of them, got {n}. "
            "Use calibrate=None."
        )
    size = min(max(n // _SHARE, _FEWEST), _MOST, n // 4)
    return np.sort(random_state.permutation(n)[:size])


def kept_labels(partition: Any, n: int, held_out: np.ndarray) -> np.ndarray:
    """Return the labels that the user gave, of the rows that are not held out."""
    labels = labels_per_row(partition, n)
    kept = np.delete(labels, held_out)
    lost = np.setdiff1d(labels, kept)
    if len(lost):
        raise ValueError(
            f"All rows of part {lost[0]} were drawn to be held out by calibrate: it has only "
            f"{int((labels == lost[0]).sum())}. Give larger parts, or use calibrate=None."
        )
    return kept

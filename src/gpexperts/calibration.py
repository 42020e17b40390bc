"""How far may the intervals be trusted? Rows that the model never saw know.

With `calibrate`, some rows are held out before anything is learned: units, hyperparameters, parts, experts
and the rule of whom to ask come from the rest alone, and stay so. To that model the held-out rows are as new
as tomorrow's, so that their scores |y − mean| / std tell how wide its intervals must be.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gpexperts.exceptions import TooFewRowsError
from gpexperts.partition.assign import labels_per_row

__all__ = ["HELD_OUT", "METHODS", "Calibration", "draw_held_out", "kept_labels"]

METHODS = (None, "scale", "conformal")
HELD_OUT = -2
"""Label of a row that was held out."""

_SHARE = 10
_FEWEST, _MOST = 100, 2000
"""A tenth of the rows; 100 where that is fewer, for intervals of 99 %; more than 2,000 teach little."""
_FEWEST_ROWS = 20
"""Training rows below which nothing is left to hold out."""


class Calibration(NamedTuple):
    """What held-out rows say about a model's standard deviations."""

    scores: np.ndarray
    """(n, p) |y − mean| / std of every held-out row and output, each column in ascending order."""

    @property
    def variance_scale(self) -> np.ndarray:
        """(p,) the factor of the variance that makes the held-out targets likeliest: mean of score²."""
        scale = np.asarray(np.mean(self.scores**2, axis=0))
        return np.where(scale > 0, scale, 1.0)  # a target that was hit every time has nothing to teach

    def quantile(self, level: float) -> np.ndarray:
        """(p,) the ⌈(n + 1) level⌉-th smallest score: a new row's is no larger, with at least that chance."""
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
    """Mark the rows to hold out, shape (n,): a tenth, from 100 to 2,000, but never more than a quarter."""
    if n < _FEWEST_ROWS:
        raise ValueError(
            f"calibrate holds rows out of training and needs at least {_FEWEST_ROWS} of them, got {n}. "
            "Use calibrate=None."
        )
    size = min(max(n // _SHARE, _FEWEST), _MOST, n // 4)
    held_out = np.zeros(n, dtype=bool)
    held_out[random_state.permutation(n)[:size]] = True
    return held_out


def kept_labels(partition: Any, held_out: np.ndarray) -> np.ndarray:
    """Return the labels, given by the user, of the rows that were not held out."""
    labels = labels_per_row(partition, len(held_out))
    lost = np.setdiff1d(labels, labels[~held_out])
    if len(lost):
        raise ValueError(
            f"All rows of part {lost[0]} were drawn to be held out by calibrate: it has only "
            f"{int((labels == lost[0]).sum())}. Give larger parts, or use calibrate=None."
        )
    return labels[~held_out]

"""Calibration of intervals by rows that the model has not seen.

The width of an interval is a quantile of the scores |y − mean| / std of such rows. Where std is too small or
too large may depend on std itself, as with noise that changes more than std does. So rows are divided by std
into groups, each with its own quantile, and the width is a continuous function of std.

With `calibrate`, some rows are held out before anything is learned: scaling, hyperparameters, parts, experts
and the number of selected experts come from the rest alone. To that model the held-out rows are as new as
future rows, so that the quantiles of their scores |y − mean| / std give calibrated intervals.
"""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gpexperts.exceptions import FewRowsWarning, TooFewRowsError
from gpexperts.metrics import gaussian_width, student_width

__all__ = [
    "ABSENT",
    "FEW_ROWS",
    "HELD_OUT",
    "METHODS",
    "Calibration",
    "Widths",
    "draw_held_out",
    "kept_labels",
    "warn_of_few_rows",
]

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
FEW_ROWS = 10
"""Training rows below which intervals are at least those of a model without inputs."""
_WARN_ROWS = 5
"""Training rows below which a fit warns."""
_MOST_GROUPS, _GROUP_ROWS = 5, 100
"""Rows are divided by std into at most so many groups of at least so many rows."""
_SPREAD = 0.2
"""Difference in log std between the outer groups below which there is one group only."""


class Widths(NamedTuple):
    """Half the width of an interval, in units of std, as a continuous function of std."""

    log_std: tuple[np.ndarray, ...]
    """Of each output, ascending; the width is constant beyond the first and the last."""
    values: tuple[np.ndarray, ...]
    """The widths at these points, for each output."""

    least: tuple[float, ...]
    """Half the width of the interval itself is at least this, for each output; in the units of std."""

    @classmethod
    def constant(cls, width: float, n_outputs: int) -> Widths:
        """Return the same width for every std."""
        return cls((np.zeros(1),) * n_outputs, (np.full(1, width),) * n_outputs, (0.0,) * n_outputs)

    @classmethod
    def of_rows(cls, level: float, n: int, n_outputs: int, few: np.ndarray | None) -> Widths:
        """Return the widths by n rows, none of which is held out: those of Student's t with n − 1 degrees.

        `few` are the targets (n, p) of fewer than `FEW_ROWS` rows, which do not show how noise and function
        differ. An interval is then at least as wide as that of a new target without inputs, t s √(1 + 1/n).
        """
        width = student_width(level, max(1, n - 1))
        constant = cls.constant(width, n_outputs)
        if few is None or n < 2:
            return constant
        spread = few.std(axis=0, ddof=1) * np.sqrt(1.0 + 1.0 / n)
        return constant._replace(least=tuple((width * spread).tolist()))

    def __call__(self, std: Any) -> np.ndarray:
        """Return the widths, (n, p) or (n,) for one output, as std is."""
        std = np.asarray(std, dtype=float)
        log_std = np.log(np.maximum(std, np.finfo(float).tiny)).reshape(-1, len(self.values))
        columns = [
            np.maximum(np.interp(column, knots, values), least * np.exp(-column))
            for column, knots, values, least in zip(log_std.T, *self, strict=True)
        ]
        return np.stack(columns, axis=1).reshape(std.shape)

    @property
    def or_one(self) -> Widths:
        """These widths; 1 everywhere if one of them is 0, by which scores cannot be divided."""
        return self if all((v > 0).all() for v in self.values) else Widths.constant(1.0, len(self.values))

    def times(self, factor: np.ndarray) -> Widths:
        """Return these widths times a factor (p,)."""
        values = tuple(v * f for v, f in zip(self.values, factor, strict=True))
        least = tuple(h * f for h, f in zip(self.least, factor.tolist(), strict=True))
        return self._replace(values=values, least=least)

    def in_units(self, unit: np.ndarray) -> Widths:
        """Return the same widths for std multiplied by units (p,)."""
        log_std = tuple(s + np.log(u) for s, u in zip(self.log_std, unit, strict=True))
        least = tuple(h * u for h, u in zip(self.least, unit.tolist(), strict=True))
        return self._replace(log_std=log_std, least=least)


class Calibration(NamedTuple):
    """The scores of held-out rows."""

    scores: np.ndarray
    """(n, p) |y − mean| / std of every held-out row and output."""
    std: np.ndarray
    """(n, p), in the units of the experts."""
    weights: np.ndarray | None = None
    """(n,) weight of each row; None if all are 1."""

    @classmethod
    def of(cls, scores: np.ndarray, std: np.ndarray, weights: np.ndarray | None = None) -> Calibration:
        """Return the scores of rows; weights (n,) are kept if one of them is not 1."""
        return cls(scores, std, None if weights is None or bool((weights == 1.0).all()) else weights)

    @property
    def _weights(self) -> np.ndarray:
        return np.ones(len(self.scores)) if self.weights is None else self.weights

    @property
    def variance_scale(self) -> np.ndarray:
        """(p,) the factor of the variance with the largest likelihood: the weighted mean of score²."""
        scale = np.asarray(np.average(self.scores**2, axis=0, weights=self.weights))
        return np.where(scale > 0, scale, 1.0)  # all residuals 0: no information

    def widths(self, level: float) -> Widths:
        """Return the quantile of the scores at `level`, in groups of rows with similar std."""
        columns = zip(self.scores.T, self.std.T, strict=True)
        points = [_by_std(scores, std, self._weights, level) for scores, std in columns]
        log_std, values = zip(*points, strict=True)
        return Widths(log_std, values, (0.0,) * len(points))

    def quantile(self, level: float, widths: Widths | None = None) -> np.ndarray:
        """(p,) a bound of a new score with at least the probability `level`.

        It is the ⌈(n + 1) level⌉-th smallest score, where each row counts by its weight and a new one by 1.
        With `widths`, scores are divided by them. If they come from other rows, the probability still holds.
        """
        scores = self.scores if widths is None else self.scores / widths(self.std)
        if self.weights is not None:
            return _weighted_rank(scores, self.weights, level)
        n = len(scores)
        exact = Fraction(repr(float(level)))  # as it was written: 100 · 0.55 is 55, not a little more
        rank = math.ceil((n + 1) * exact)
        if rank > n:
            raise TooFewRowsError(
                f"An interval of level={level} needs at least {math.ceil(exact / (1 - exact))} rows held out "
                f"for calibrate='conformal', but this model has {n}. Choose a level of at most "
                f"{10_000 * n // (n + 1) / 10_000}, fit more rows, or use calibrate='scale'."
            )
        return np.asarray(np.partition(scores, rank - 1, axis=0)[rank - 1])


def _by_std(
    scores: np.ndarray, std: np.ndarray, weight: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Median log std and quantile of the scores (n,) of each group of rows with similar std (n,).

    Groups have about equal weight.
    """
    total = float(weight.sum())
    n_groups = max(1, min(_MOST_GROUPS, int(total / _GROUP_ROWS)))
    order = np.argsort(std, kind="stable")
    middle = np.cumsum(weight[order]) - 0.5 * weight[order]
    ends = np.searchsorted(middle, total * np.arange(1, n_groups) / n_groups, side="right")
    groups = [group for group in np.split(order, ends) if len(group)]
    log_std = np.array([_quantile(np.log(std[group]), weight[group], 0.5) for group in groups])
    if log_std[-1] - log_std[0] < _SPREAD:
        return log_std[:1], np.array([_quantile(scores, weight, level)])
    return log_std, np.array([_quantile(scores[group], weight[group], level) for group in groups])


def _quantile(values: np.ndarray, weight: np.ndarray, level: float) -> float:
    """The quantile of values (n,) at `level`; beyond the largest, in proportion to a Gaussian.

    The i-th of n values is the quantile at i / (n + 1); a row of weight w counts as w rows.
    """
    order = np.argsort(values, kind="stable")
    values, weight = values[order], weight[order]
    total = float(weight.sum())
    below = np.cumsum(weight) / (total + 1.0)  # probability below each value
    if level > below[-1]:
        return float(values[-1] * gaussian_width(level) / gaussian_width(float(below[-1])))
    # The first copy of each value is at the end of the one before, plus one copy.
    first = np.minimum(below - (weight - 1.0).clip(0.0) / (total + 1.0), below)
    return float(np.interp(level, np.column_stack([first, below]).ravel(), np.repeat(values, 2)))


def _weighted_rank(scores: np.ndarray, weight: np.ndarray, level: float) -> np.ndarray:
    """(p,) the smallest score up to which rows have the share `level` of the weight with a new row."""
    total = float(weight.sum())
    if level * (total + 1.0) > total * (1.0 + 1e-12):
        raise TooFewRowsError(
            f"An interval of level={level} needs rows of a total weight of at least "
            f"{level / (1.0 - level):.4g} held out for calibrate='conformal', but this model has "
            f"{total:.4g}. Choose a level of at most {np.floor(1e4 * total / (total + 1.0)) / 1e4}, fit "
            "more rows, or use calibrate='scale'."
        )
    order = np.argsort(scores, axis=0, kind="stable")
    reached = np.cumsum(weight[order], axis=0) * (1.0 + 1e-12) >= level * (total + 1.0)
    first = np.take_along_axis(order, np.argmax(reached, axis=0)[None], axis=0)
    return np.asarray(np.take_along_axis(scores, first, axis=0)[0])


def warn_of_few_rows(n: int) -> None:
    """Warn if n rows determine neither the noise nor the length scales."""
    if n < _WARN_ROWS:
        warnings.warn(
            f"The model is fitted to {n} row{'s' * (n > 1)}, which determine neither the noise nor the "
            "length scales: its standard deviations may be far too small. Intervals of `predict_interval` "
            "are wider, at least those of a model without inputs. Fit more rows, or give the kernel with "
            "optimizer=None.",
            FewRowsWarning,
            stacklevel=6,
        )


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

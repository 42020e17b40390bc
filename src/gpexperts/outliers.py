"""A first guess of the outliers among training rows, before any model is trained.

Each target is compared with the median target of its nearest rows in a sample. Rows far beyond the usual
difference get a small precision λ, as Student-t noise has it. The guess keeps gross outliers from spoiling
the trend and the first hyperparameters; leave-one-out residuals of the experts replace it later.

Whether a Gaussian fit would be spoiled at all is seen from the same differences (:func:`gross_share`), in a
fraction of a second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpexperts.row_noise import scaled, student_precision
from gpexperts.rows.base import Rows, RowSource
from gpexperts.rows.neighbours import RowIndex

__all__ = ["DEGREES", "Outliers", "gross_share", "guess_outliers"]

DEGREES = 4.0
"""ν, the degrees of freedom of Student-t noise."""
NEIGHBORS = 12
SAMPLE = 50_000
USUAL = 5.0
"""Differences of up to so many robust standard deviations are those of ordinary rows."""
GROSS, GROSS_IN_ALL = 10.0, 4.0
"""A gross outlier differs from its neighbours by more usual differences than the first number, and by more
robust standard deviations of all targets than the second."""
SCREENED, COMPARED = 10_000, 2000
"""Rows that are searched for neighbours, and rows that are compared with theirs, in `gross_share`."""
FAR = 100.0
"""Others are taken to be so many times larger: at first, suspicious rows count as next to absent."""


@dataclass(frozen=True)
class Outliers:
    """Gives rows the precision λ and the share o of their difference from their neighbours."""

    index: RowIndex
    """Of the sample."""
    number: np.ndarray
    """(k,) of the rows of the sample."""
    y: np.ndarray
    """(k, p)"""
    spread: np.ndarray
    """(p,) usual difference."""
    weight: float
    """The mean weight, which counts as 1."""

    def differences(self, rows: Rows) -> np.ndarray:
        """Target of each row less the median of its neighbours, relative to the usual difference, (n, p)."""
        return np.asarray((rows.y - np.nanmedian(self.neighbours(rows), axis=1)) / self.spread)

    def neighbours(self, rows: Rows) -> np.ndarray:
        """Targets of the nearest rows of each row, (n, m, p); NaN for the row itself."""
        m = min(NEIGHBORS + 1, len(self.number))
        found, _ = self.index.nearest(rows.X, m)
        others = self.number[found] != rows.number[:, None]
        others &= np.cumsum(others, axis=1) < m  # m − 1 of them
        return np.where(others[:, :, None], self.y[found], np.nan)

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `RowSource.mapped`."""
        z2 = np.max(self.differences(rows) ** 2, axis=1)
        noise = scaled(rows.noise, 1.0, self.weight)
        return rows.X, rows.y, student_precision(noise, np.where(z2 <= USUAL**2, 0.0, FAR * z2), DEGREES)


def guess_outliers(
    source: RowSource,
    random_state: np.random.RandomState,
    scale_index: np.ndarray | None = None,
    size: int = SAMPLE,
) -> Outliers:
    """Measure the usual difference of a target from the median of its neighbours, in a sample of `size`.

    Inputs that share a length scale, by its number (d,), count together as one in distances.
    """
    rows = source.sample(size, random_state)
    summary = source.summary()[0]
    weight = 1.0 if summary.weight is None else summary.weight / summary.n
    index = RowIndex(rows.X, summary.shared_spread(scale_index), rows.number)
    guess = Outliers(index, rows.number, rows.y, np.ones(rows.y.shape[1]), weight)
    some = rows.take(np.sort(random_state.permutation(len(rows.number))[:5000]))
    return replace(guess, spread=_robust_std(guess.differences(some), 0.0))


def gross_share(
    source: RowSource, random_state: np.random.RandomState, scale_index: np.ndarray | None = None
) -> float:
    """Squared differences from neighbours of gross outliers, relative to those of all other rows.

    A gross outlier is far from the median of its neighbours, and from each of them: next to a jump there are
    neighbours on both sides. Above 1, more than half of the noise that a Gaussian fit would learn is that of
    outliers. Targets with heavy tails, jumps or rough regions stay below.
    """
    guess = guess_outliers(source, random_state, scale_index, SCREENED)
    rows = source.sample(SCREENED, random_state)
    rows = rows.take(np.sort(random_state.permutation(len(rows.number))[:COMPARED]))
    targets = guess.neighbours(rows)
    z2 = ((rows.y - np.nanmedian(targets, axis=1)) / guess.spread) ** 2
    alone = np.nanmin(np.abs(rows.y[:, None] - targets), axis=1) / guess.spread
    bound = np.maximum(GROSS, GROSS_IN_ALL * _robust_std(guess.y, np.median(guess.y, axis=0)) / guess.spread)
    gross = (z2 > bound**2) & (alone > bound)
    others = np.where(gross, 0.0, z2).sum(axis=0)
    return float(np.max(np.where(gross, z2, 0.0).sum(axis=0) / np.maximum(others, np.finfo(float).tiny)))


def _robust_std(values: np.ndarray, centre: np.ndarray | float) -> np.ndarray:
    """1.4826 times the median distance (p,) of values (n, p) from a centre; the mean where that is 0."""
    away = np.abs(values - centre)
    spread = 1.4826 * np.median(away, axis=0)
    spread = np.where(spread > 0, spread, away.mean(axis=0))
    return np.where(spread > 0, spread, 1.0)

"""A first guess of the outliers among training rows, before any model is trained.

Each target is compared with the median target of its nearest rows in a sample. Rows far beyond the usual
difference get a small precision λ, as Student-t noise has it. The guess keeps gross outliers from spoiling
the trend and the first hyperparameters; leave-one-out residuals of the experts replace it later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpexperts.row_noise import scaled, student_precision
from gpexperts.rows.base import Rows, RowSource
from gpexperts.rows.neighbours import RowIndex

__all__ = ["DEGREES", "Outliers", "guess_outliers"]

DEGREES = 4.0
"""ν, the degrees of freedom of Student-t noise."""
NEIGHBORS = 12
SAMPLE = 50_000
USUAL = 5.0
"""Differences of up to so many robust standard deviations are those of ordinary rows."""
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

    def squared_z(self, rows: Rows) -> np.ndarray:
        """Largest squared difference of each row over its outputs, relative to the usual one, (n,)."""
        m = min(NEIGHBORS + 1, len(self.number))
        found, _ = self.index.nearest(rows.X, m)
        others = self.number[found] != rows.number[:, None]
        others &= np.cumsum(others, axis=1) < m  # m − 1 of them
        targets = np.where(others[:, :, None], self.y[found], np.nan)
        difference = (rows.y - np.nanmedian(targets, axis=1)) / self.spread
        return np.max(difference**2, axis=1)

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `RowSource.mapped`."""
        z2 = self.squared_z(rows)
        noise = scaled(rows.noise, 1.0, self.weight)
        return rows.X, rows.y, student_precision(noise, np.where(z2 <= USUAL**2, 0.0, FAR * z2), DEGREES)


def guess_outliers(
    source: RowSource, random_state: np.random.RandomState, scale_index: np.ndarray | None = None
) -> Outliers:
    """Measure the usual difference of a target from the median of its neighbours.

    Parameters
    ----------
    source : RowSource
    random_state : RandomState
    scale_index : ndarray of int, shape (d,), optional
        Of inputs that share a length scale: together they count as one in distances.
    """
    rows = source.sample(SAMPLE, random_state)
    summary = source.summary()[0]
    weight = 1.0 if summary.weight is None else summary.weight / summary.n
    index = RowIndex(rows.X, summary.shared_spread(scale_index), rows.number)
    first = Outliers(index, rows.number, rows.y, np.ones(rows.y.shape[1]), weight)
    spread = np.empty(rows.y.shape[1])
    some = rows.take(np.sort(random_state.permutation(len(rows.number))[:5000]))
    for k in range(len(spread)):
        one = Outliers(index, rows.number, rows.y[:, k : k + 1], np.ones(1), weight)
        away = np.sqrt(one.squared_z(some._replace(y=some.y[:, k : k + 1])))
        spread[k] = 1.4826 * float(np.median(away)) or float(away.mean()) or 1.0
    return Outliers(first.index, first.number, first.y, spread, weight)

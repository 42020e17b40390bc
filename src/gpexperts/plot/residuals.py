"""Standardised residuals of new rows, or of training rows left out one by one."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gpexperts import inspection
from gpexperts.metrics import gaussian_width
from gpexperts.plot.base import ACCENT, SECOND, Display, as_label

__all__ = ["ResidualsDisplay"]

_BINS = 12
_REACH = 1.6
"""The axis ends at this multiple of the 99 % quantile of the residuals, if some are beyond."""


class ResidualsDisplay(Display):
    """Residuals in units of their predicted standard deviation, (y − mean) / std.

    If the model is right, they scatter evenly around 0, and 95 % of them are between the dashed lines. The
    orange line is their median in bins of equal size. Residuals beyond the axis are triangles at its end, so
    that an outlier does not squash the others.

    Parameters
    ----------
    x : ndarray of shape (n,)
        What they are drawn over.
    residual : ndarray of shape (n,)
    level : float
        Nominal coverage of the dashed lines.
    width : float or ndarray of shape (n,), optional
        Half the widths of the intervals, in units of std; the Gaussian one by default. The lines are at their
        median.
    name : str
        Of x.
    max_rows : int
        At most this many rows are drawn, evenly spaced.
    """

    def __init__(
        self,
        x: np.ndarray,
        residual: np.ndarray,
        *,
        level: float = 0.95,
        width: float | np.ndarray | None = None,
        name: str = "predicted mean",
        max_rows: int = 3000,
    ) -> None:
        self.x, self.residual, self.level, self.name, self.max_rows = x, residual, level, name, max_rows
        self.width = np.broadcast_to(gaussian_width(level) if width is None else width, x.shape)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        feature: int | str | None = None,
        level: float = 0.95,
        ax: Any = None,
    ) -> Self:
        """Draw the residuals of new rows, or without `y` the leave-one-out residuals of the training rows.

        Parameters
        ----------
        estimator : DistributedGPRegressor
        X : array-like of shape (n, d), optional
            New rows; without `y` the training rows, to draw over one of their inputs.
        y : array-like of shape (n,), optional
            Targets of the new rows.
        feature : int or str, optional
            An input, by number or name; by default residuals are drawn over the predicted mean.
        level : float
            Nominal coverage of the dashed lines.
        ax : matplotlib axis, optional
        """
        inspection.single_output(estimator, "ResidualsDisplay")
        if feature is not None and X is None:
            raise ValueError("Give the training rows X to draw residuals over one of their inputs.")
        name = "predicted mean"
        if y is None:
            loo = estimator.loo()
            x, std, residual, rows = loo.mean, loo.std, loo.standardized_residual, loo.row
        else:
            x, std = estimator.predict(X, return_std=True)
            residual, rows = (np.asarray(y, dtype=float) - x) / std, slice(None)
        if feature is not None:
            column = inspection.find_number(estimator, feature)
            x, name = inspection.encoded_rows(estimator, X)[rows, column.inputs.start], column.name
        width = estimator.interval_width(level, std)
        return cls(x, residual, level=level, width=width, name=name).plot(ax)

    @classmethod
    def from_predictions(
        cls, y: Any, mean: Any, std: Any, *, x: Any = None, level: float = 0.95, ax: Any = None
    ) -> Self:
        """Draw the residuals of predictions over the mean, or over x (n,)."""
        mean = np.asarray(mean, dtype=float)
        residual = (np.asarray(y) - mean) / np.asarray(std)
        name = "predicted mean" if x is None else "x"
        return cls(mean if x is None else np.asarray(x), residual, level=level, name=name).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        ax = self._axis(ax)
        rows = np.linspace(0, len(self.x) - 1, min(len(self.x), self.max_rows)).astype(int)
        x, z = self.x[rows], self.residual[rows]
        line, far = float(np.median(self.width)), float(np.abs(z).max())
        largest = max(1.5 * line, float(np.quantile(np.abs(z), 0.99)) * _REACH)
        end = min(largest, 1.1 * far) if far > 1.5 * line else largest
        beyond = np.abs(z) > end
        inside = np.abs(z) <= self.width[rows]
        for which, colour, label in (
            (inside, ACCENT, "inside"),
            (~inside & ~beyond, SECOND, "outside"),
        ):
            ax.plot(x[which], z[which], ".", color=colour, ms=4, alpha=0.5, label=label)
        if beyond.any():
            sign = np.sign(z[beyond])
            for side, mark in ((1, "^"), (-1, "v")):
                at = x[beyond][sign == side]
                ax.plot(at, np.full(len(at), side * 0.97 * end), mark, color=SECOND, ms=5, clip_on=False)
        for height in (-line, line):
            ax.axhline(height, color="0.3", lw=0.8, ls="--")
        ax.axhline(0, color="0.3", lw=0.8)
        centre, median = _medians(self.x, self.residual)
        ax.plot(centre, median, color="#e08214", lw=2, label="median")
        share = 100 * np.mean(np.abs(self.residual) <= self.width)
        ax.set(
            xlabel=as_label(self.name), ylabel="(observed − mean) / std", ylim=(-end, end),
            title=f"{share:.1f} % inside the {100 * self.level:g} % interval",
        )  # fmt: skip
        ax.legend(frameon=False, loc="upper right", ncols=3)
        return self


def _medians(x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median residual in bins with about equally many rows, and the median x of each bin."""
    order = np.argsort(x, kind="stable")
    bins = np.array_split(order, max(1, min(_BINS, len(x) // 10)))
    return np.array([np.median(x[b]) for b in bins]), np.array([np.median(z[b]) for b in bins])

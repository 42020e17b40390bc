"""Predictions over observations, with intervals."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gpexperts.inspection import single_output
from gpexperts.metrics import gaussian_width
from gpexperts.plot.base import ACCENT, SECOND, Display

__all__ = ["PredictedObservedDisplay"]


class PredictedObservedDisplay(Display):
    """Predictions over observations; rows outside their interval are highlighted.

    Parameters
    ----------
    y, mean, std : ndarray of shape (n,)
    level : float
        Nominal coverage of the intervals.
    interval : tuple of ndarray of shape (n,), optional
        Lower and upper ends of the intervals; those of a Gaussian by default.
    max_rows : int
        At most this many rows are drawn, evenly spaced.
    """

    def __init__(
        self,
        y: np.ndarray,
        mean: np.ndarray,
        std: np.ndarray,
        *,
        level: float = 0.95,
        interval: tuple[np.ndarray, np.ndarray] | None = None,
        max_rows: int = 2000,
    ) -> None:
        self.y, self.mean, self.std, self.level, self.max_rows = y, mean, std, level, max_rows
        half = gaussian_width(level) * std
        interval = (mean - half, mean + half) if interval is None else interval
        self.lower, self.upper = interval

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, level: float = 0.95, ax: Any = None) -> Self:
        """Predict X and draw over y."""
        single_output(estimator, "PredictedObservedDisplay")
        mean, std = estimator.predict(X, return_std=True)
        interval = estimator.predict_interval(X, level)
        return cls(np.asarray(y), mean, std, level=level, interval=interval).plot(ax)

    @classmethod
    def from_predictions(cls, y: Any, mean: Any, std: Any, *, level: float = 0.95, ax: Any = None) -> Self:
        """Draw predictions over y."""
        return cls(np.asarray(y), np.asarray(mean), np.asarray(std), level=level).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        ax = self._axis(ax)
        rows = np.linspace(0, len(self.y) - 1, min(len(self.y), self.max_rows)).astype(int)
        y, mean = self.y[rows], self.mean[rows]
        lower, upper = self.lower[rows], self.upper[rows]
        inside = (lower <= y) & (y <= upper)
        # The mean of a transformed target may lie outside its interval.
        bars = np.maximum(0.0, [mean - lower, upper - mean])
        for which, colour, label in ((inside, ACCENT, "inside"), (~inside, SECOND, "outside")):
            ax.errorbar(
                y[which], mean[which], bars[:, which], fmt=".", color=colour, ms=4, elinewidth=0.6, alpha=0.6,
                label=f"{label} the {100 * self.level:g} % interval ({int(which.sum())})",
            )  # fmt: skip
        ends = [min(y.min(), mean.min()), max(y.max(), mean.max())]
        ax.plot(ends, ends, color="0.3", lw=0.8, ls="--")
        ax.set(xlabel="observed", ylabel="predicted")
        ax.legend(frameon=False)
        return self

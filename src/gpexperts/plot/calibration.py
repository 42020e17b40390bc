"""How often intervals of each level hold the truth."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gpexperts.evaluation import Width, share_inside
from gpexperts.inspection import single_output
from gpexperts.metrics import gaussian_width
from gpexperts.plot.base import ACCENT, Display

__all__ = ["CalibrationDisplay", "calibration_curve"]


def calibration_curve(
    y: Any, mean: Any, std: Any, width: Width = gaussian_width
) -> tuple[np.ndarray, np.ndarray]:
    """Return levels from 0.01 to 0.99, where there are intervals, and the share of targets inside each."""
    levels = (np.arange(1, 100) / 100).tolist()
    shares = {level: share_inside(y, mean, std, level, width) for level in levels}
    known = {level: share for level, share in shares.items() if share is not None}
    return np.array(list(known)), np.array(list(known.values()))


class CalibrationDisplay(Display):
    """The share of targets inside their interval over the level of the interval; honest is the diagonal.

    Parameters
    ----------
    levels, shares : ndarray of shape (k,)
    n : int
        Rows the shares come from, for the band that chance alone explains.
    """

    def __init__(self, levels: np.ndarray, shares: np.ndarray, n: int) -> None:
        self.levels, self.shares, self.n = levels, shares, n

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None) -> Self:
        """Predict X and compare with y."""
        single_output(estimator, "CalibrationDisplay")
        mean, std = estimator.predict(X, return_std=True)
        return cls(*calibration_curve(y, mean, std, estimator._width), len(y)).plot(ax)

    @classmethod
    def from_predictions(cls, y: Any, mean: Any, std: Any, *, ax: Any = None) -> Self:
        """Compare given predictions with y."""
        return cls(*calibration_curve(y, mean, std), len(y)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        ax = self._take(ax)
        chance = 2 * np.sqrt(self.levels * (1 - self.levels) / self.n)
        ax.fill_between(
            self.levels, self.levels - chance, self.levels + chance,
            color="0.85", lw=0, label=f"chance, {self.n} rows",
        )  # fmt: skip
        ax.plot([0, 1], [0, 1], color="0.3", lw=0.8, ls="--", label="honest")
        ax.plot(self.levels, self.shares, color=ACCENT, lw=1.6, label="this model")
        ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="level of the interval", ylabel="share inside")
        ax.set_aspect("equal")
        ax.legend(frameon=False)
        return self

"""Empirical coverage of the intervals over their nominal level."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gpexperts.inspection import calibration_curve, scored, single_output
from gpexperts.plot.base import ACCENT, Display

__all__ = ["CalibrationDisplay"]


class CalibrationDisplay(Display):
    """Share of targets inside their interval, over the nominal level; the diagonal is perfect calibration.

    Parameters
    ----------
    levels, shares : ndarray of shape (k,)
        Nominal and empirical coverage.
    n : int
        Number of targets; it determines the band of the sampling error.
    """

    def __init__(self, levels: np.ndarray, shares: np.ndarray, n: int) -> None:
        self.levels, self.shares, self.n = levels, shares, n

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None) -> Self:
        """Predict X and compare with y."""
        single_output(estimator, "CalibrationDisplay")
        mean, std = estimator.predict(X, return_std=True)
        terms = scored(estimator, estimator.model_.encoder.encoded(X)[0], np.asarray(y))
        z, z_std = terms.get("z"), terms.get("z_std")
        return cls(*calibration_curve(y, mean, std, estimator.interval_width, z, z_std), len(y)).plot(ax)

    @classmethod
    def from_predictions(cls, y: Any, mean: Any, std: Any, *, ax: Any = None) -> Self:
        """Compare predictions with y."""
        return cls(*calibration_curve(y, mean, std), len(y)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        ax = self._axis(ax)
        error = 2 * np.sqrt(self.levels * (1 - self.levels) / self.n)
        ax.fill_between(
            self.levels, self.levels - error, self.levels + error,
            color="0.85", lw=0, label=f"± 2 standard errors, {self.n} rows",
        )  # fmt: skip
        ax.plot([0, 1], [0, 1], color="0.3", lw=0.8, ls="--", label="perfect calibration")
        ax.plot(self.levels, self.shares, color=ACCENT, lw=1.6, label="model")
        ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="nominal coverage", ylabel="empirical coverage")
        ax.set_aspect("equal")
        ax.legend(frameon=False)
        return self

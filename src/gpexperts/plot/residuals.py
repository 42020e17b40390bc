"""Leave-one-out residuals over predictions or over an input."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gpexperts.inspection import single_output
from gpexperts.metrics import gaussian_width
from gpexperts.plot.base import ACCENT, SECOND, Display

__all__ = ["ResidualsDisplay"]


class ResidualsDisplay(Display):
    """Standardised residuals; rows outside the band of the given level are highlighted.

    Parameters
    ----------
    x, residual : ndarray of shape (n,)
        What is drawn along the horizontal axis, and standardised residuals.
    label : str
        Of the horizontal axis.
    level : float
        Nominal share of rows inside the band.
    max_rows : int
        At most this many rows are drawn, evenly spaced.
    """

    def __init__(
        self,
        x: np.ndarray,
        residual: np.ndarray,
        *,
        label: str = "predicted",
        level: float = 0.95,
        max_rows: int = 5000,
    ) -> None:
        self.x, self.residual, self.label, self.level, self.max_rows = x, residual, label, level, max_rows

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any = None, *, feature: Any = None, ax: Any = None) -> Self:
        """Draw the leave-one-out residuals of a fitted estimator.

        Parameters
        ----------
        estimator : DistributedGPRegressor
        X : array-like of shape (n, d), optional
            The training rows, to draw over one of their inputs.
        feature : int or str, optional
            Which input; by default predictions are drawn along the horizontal axis.
        ax : matplotlib axis, optional
        """
        single_output(estimator, "ResidualsDisplay")
        loo = estimator.loo()
        if feature is None:
            return cls(loo.mean, loo.standardized_residual).plot(ax)
        if X is None:
            raise ValueError("Give the training rows X to draw residuals over one of their inputs.")
        values = X[feature] if isinstance(feature, str) else np.asarray(X)[:, feature]
        label = feature if isinstance(feature, str) else f"input {feature}"
        return cls(np.asarray(values)[loo.row], loo.standardized_residual, label=label).plot(ax)

    @classmethod
    def from_predictions(cls, y: Any, mean: Any, std: Any, *, ax: Any = None) -> Self:
        """Draw the residuals of predictions."""
        y, mean, std = (np.asarray(column) for column in (y, mean, std))
        return cls(mean, (y - mean) / std).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        ax = self._axis(ax)
        rows = np.linspace(0, len(self.x) - 1, min(len(self.x), self.max_rows)).astype(int)
        x, residual, width = self.x[rows], self.residual[rows], gaussian_width(self.level)
        inside = np.abs(residual) <= width
        for which, colour, name in ((inside, ACCENT, "inside"), (~inside, SECOND, "outside")):
            label = f"{name} ±{width:.3g} ({int(which.sum())})"
            ax.plot(x[which], residual[which], ".", color=colour, ms=4, alpha=0.6, label=label)
        ax.axhline(0.0, color="0.3", lw=0.8)
        ax.set(xlabel=self.label, ylabel="standardised residual")
        ax.legend(frameon=False)
        return self

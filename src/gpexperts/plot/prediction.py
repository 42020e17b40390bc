"""Mean and interval over a single input."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gpexperts.inspection import feature_names, input_ranges, single_output
from gpexperts.metrics import gaussian_width
from gpexperts.plot.base import ACCENT, Display, as_label

__all__ = ["PredictionDisplay1D"]


class PredictionDisplay1D(Display):
    """Predictions of a model of one input, with an interval as a band.

    Parameters
    ----------
    x, mean, std : ndarray of shape (n,)
    level : float
        Nominal coverage of the band.
    interval : tuple of ndarray of shape (n,), optional
        Lower and upper end of the band; those of a Gaussian by default.
    data : tuple of ndarray or None
        (x, y) of observations, drawn as points.
    name : str
        Name of the input.
    """

    def __init__(
        self,
        x: np.ndarray,
        mean: np.ndarray,
        std: np.ndarray,
        *,
        level: float = 0.95,
        interval: tuple[np.ndarray, np.ndarray] | None = None,
        data: tuple[np.ndarray, np.ndarray] | None = None,
        name: str = "x",
    ) -> None:
        self.x, self.mean, self.std = x, mean, std
        self.level, self.data, self.name = level, data, name
        half = gaussian_width(level) * std
        interval = (mean - half, mean + half) if interval is None else interval
        self.lower, self.upper = interval

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, level: float = 0.95, ax: Any = None
    ) -> Self:
        """Draw a model over the range of its training inputs plus 10 % on each side, and the rows (X, y)."""
        single_output(estimator, "PredictionDisplay1D")
        d = estimator.model_.experts.n_features
        if d != 1:
            raise ValueError(f"PredictionDisplay1D is for models of one input; this one has {d}.")
        ((low, high),) = input_ranges(estimator)
        x = np.linspace(low - 0.1 * (high - low), high + 0.1 * (high - low), 400)
        grid: Any = x[:, None]
        if hasattr(estimator, "feature_names_in_") and hasattr(X, "columns"):
            grid = type(X)({X.columns[0]: x})
        mean, std = estimator.predict(grid, return_std=True)
        data = None if X is None or y is None else (np.asarray(X, dtype=float)[:, 0], np.asarray(y))
        interval, name = estimator.predict_interval(grid, level), feature_names(estimator)[0]
        return cls(x, mean, std, level=level, interval=interval, data=data, name=name).plot(ax)

    @classmethod
    def from_predictions(
        cls, x: Any, mean: Any, std: Any, *, y: Any = None, level: float = 0.95, ax: Any = None
    ) -> Self:
        """Draw predictions, and optionally observations y (n,), at x (n,)."""
        x = np.asarray(x, dtype=float).ravel()
        order = np.argsort(x)
        data = None if y is None else (x, np.asarray(y))
        display = cls(x[order], np.asarray(mean)[order], np.asarray(std)[order], level=level, data=data)
        return display.plot(ax)

    def plot(self, ax: Any = None) -> Self:
        ax = self._axis(ax)
        if self.data is not None:
            ax.plot(*self.data, ".", color="0.45", ms=3, zorder=1, label="observed")
        ax.fill_between(
            self.x, self.lower, self.upper,
            color=ACCENT, alpha=0.2, lw=0, label=f"{100 * self.level:g} % interval",
        )  # fmt: skip
        ax.plot(self.x, self.mean, color=ACCENT, lw=1.6, label="mean")
        ax.set(xlabel=as_label(self.name), ylabel="target")
        ax.legend(frameon=False)
        return self

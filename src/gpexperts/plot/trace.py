"""Log marginal likelihood over the training steps."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gpexperts.inspection import stages
from gpexperts.plot.base import ACCENT, Display

__all__ = ["TraceDisplay"]


class TraceDisplay(Display):
    """Log marginal likelihood at each training step.

    Parameters
    ----------
    values : list of ndarray
        Log marginal likelihood of the steps of each stage. Stages train on different rows, so that their
        lines are not connected.
    """

    def __init__(self, values: list[np.ndarray]) -> None:
        self.values = values

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the trace of a fitted model."""
        values = [[row.log_marginal_likelihood for row in stage] for stage in stages(estimator)]
        return cls.from_predictions(*values, ax=ax)

    @classmethod
    def from_predictions(cls, *values: Any, ax: Any = None) -> Self:
        """Draw values (n_steps,), one array per stage."""
        return cls([np.asarray(v, dtype=float) for v in values]).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        ax = self._axis(ax)
        begin = 0
        for value in self.values:
            ax.plot(begin + np.arange(len(value)), value, ".-", color=ACCENT, lw=1.4, ms=4)
            begin += len(value)
        ax.set(xlabel="step", ylabel="log marginal likelihood")
        return self

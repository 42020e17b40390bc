"""The log likelihood over the steps of training."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpexperts.inspection import stages
from gpexperts.plot.base import ACCENT, Display

__all__ = ["TraceDisplay"]


class TraceDisplay(Display):
    """What training reached at each step.

    Parameters
    ----------
    values : list of ndarray
        Log marginal likelihood of the steps of each stage. Stages train on different rows; a line does
        not join them.
    """

    def __init__(self, values: list[np.ndarray]) -> None:
        self.values = values

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the trace of a fitted model."""
        check_is_fitted(estimator)
        values = [[row.log_marginal_likelihood for row in stage] for stage in stages(estimator)]
        return cls.from_predictions(*values, ax=ax)

    @classmethod
    def from_predictions(cls, *values: Any, ax: Any = None) -> Self:
        """Draw given values (n_steps,), one array for each stage."""
        return cls([np.asarray(v, dtype=float) for v in values]).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        ax = self._take(ax)
        begin = 0
        for value in self.values:
            ax.plot(begin + np.arange(len(value)), value, ".-", color=ACCENT, lw=1.4, ms=4)
            begin += len(value)
        ax.set(xlabel="step", ylabel="log marginal likelihood")
        return self

"""The log likelihood over the steps of training."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpexperts.plot.base import ACCENT, Display

__all__ = ["TraceDisplay"]


class TraceDisplay(Display):
    """What training reached at each step.

    Parameters
    ----------
    value : ndarray of shape (n_steps,)
        Log marginal likelihood.
    """

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the trace of a fitted model."""
        check_is_fitted(estimator)
        return cls.from_predictions([row.log_marginal_likelihood for row in estimator.trace_], ax=ax)

    @classmethod
    def from_predictions(cls, value: Any, *, ax: Any = None) -> Self:
        """Draw given values (n_steps,)."""
        return cls(np.asarray(value, dtype=float)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        ax = self._take(ax)
        ax.plot(np.arange(len(self.value)), self.value, ".-", color=ACCENT, lw=1.4, ms=4)
        ax.set(xlabel="step", ylabel="log marginal likelihood")
        return self

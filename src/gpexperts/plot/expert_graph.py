"""The Gaussian graphical model of the experts' predictions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gpexperts.inspection import expert_graph
from gpexperts.plot.base import ACCENT, SECOND, Display

__all__ = ["ExpertGraphDisplay"]


class ExpertGraphDisplay(Display):
    """Experts on a circle; edges are non-zero partial correlations of their predictions.

    Parameters
    ----------
    precision : ndarray of shape (M, M)
        Ω; the partial correlation of experts i and j is −Ω_ij / √(Ω_ii Ω_jj).
    selected : ndarray of int
        Experts to highlight: those that the ggm selection selects.
    """

    def __init__(self, precision: np.ndarray, selected: np.ndarray) -> None:
        self.precision, self.selected = precision, selected

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the graph of a fitted model. It is estimated here unless the selection is ggm."""
        return cls(*expert_graph(estimator)).plot(ax)

    @classmethod
    def from_predictions(cls, precision: Any, selected: Any = (), *, ax: Any = None) -> Self:
        """Draw a precision matrix (M, M)."""
        return cls(np.asarray(precision), np.asarray(selected, dtype=int)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        ax = self._axis(ax)
        scale = np.sqrt(np.diagonal(self.precision))
        partial = -self.precision / np.outer(scale, scale)
        M = len(partial)
        angle = 2 * np.pi * np.arange(M) / M
        positions = np.column_stack([np.cos(angle), np.sin(angle)])
        i, j = np.nonzero(np.triu(partial, 1))
        for a, b in zip(i, j, strict=True):
            strength = float(np.clip(abs(partial[a, b]), 0.0, 1.0))
            ax.plot(
                *positions[[a, b]].T, color=ACCENT if partial[a, b] > 0 else SECOND,
                lw=0.4 + 4 * strength, alpha=0.2 + 0.6 * strength, zorder=1, solid_capstyle="round",
            )  # fmt: skip
        highlighted = np.isin(np.arange(M), self.selected)
        ax.scatter(
            *positions.T, s=260 if M <= 40 else 40, zorder=2,
            c=np.where(highlighted, ACCENT, "white"), edgecolor=ACCENT,
        )  # fmt: skip
        if M <= 40:
            for k, position in enumerate(positions):
                colour = "white" if highlighted[k] else "black"
                ax.annotate(str(k), position, ha="center", va="center", fontsize=8, color=colour)
        ax.set(aspect="equal", title="Partial correlations of the experts; filled: selected")
        ax.set_axis_off()
        ax.margins(0.1)
        return self

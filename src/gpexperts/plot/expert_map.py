"""Position and size of the experts, and how often each is selected."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gpexperts.inspection import expert_positions, selection_counts
from gpexperts.plot.base import Display

__all__ = ["ExpertMapDisplay"]

_DARK = 0.5
"""Share of the colours from which on a label is white."""


class ExpertMapDisplay(Display):
    """A map of the experts: the area is the number of rows, the colour the number of queries.

    Parameters
    ----------
    positions : ndarray of shape (M, 2)
    sizes : ndarray of shape (M,)
        Rows of each expert.
    counts : ndarray of shape (M,) or None
        Queries that select each expert.
    """

    def __init__(self, positions: np.ndarray, sizes: np.ndarray, counts: np.ndarray | None = None) -> None:
        self.positions, self.sizes, self.counts = positions, sizes, counts

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any = None, *, ax: Any = None) -> Self:
        """Draw the experts of a model; with queries X, how often each is selected."""
        positions = expert_positions(estimator)
        counts = None if X is None else selection_counts(estimator.select(X), estimator.n_experts_)
        return cls(positions, estimator.model_.experts.sizes, counts).plot(ax)

    @classmethod
    def from_predictions(cls, positions: Any, sizes: Any, counts: Any = None, *, ax: Any = None) -> Self:
        """Draw positions (M, 2), sizes (M,) and counts (M,)."""
        counts = None if counts is None else np.asarray(counts)
        return cls(np.asarray(positions), np.asarray(sizes), counts).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        ax = self._axis(ax)
        area = 300 * self.sizes / self.sizes.max()
        colour = np.zeros(len(area)) if self.counts is None else self.counts
        drawn = ax.scatter(
            *self.positions.T, s=area, c=colour, cmap="viridis_r", alpha=0.75, edgecolor="white"
        )
        if self.counts is not None:
            ax.figure.colorbar(drawn, ax=ax, label="queries that select the expert")
        if len(area) <= 40:
            for i, (position, shade) in enumerate(zip(self.positions, drawn.norm(colour), strict=True)):
                dark = self.counts is not None and shade > _DARK
                ax.annotate(
                    str(i), position, ha="center", va="center", fontsize=8, color="white" if dark else "black"
                )
        ax.set(xlabel="first principal axis (length scales)", ylabel="second principal axis", title="Experts")
        ax.margins(0.12)
        return self

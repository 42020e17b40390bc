"""Which experts depend on each other, as a Gaussian graphical model of their predictions sees it."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpexperts.plot.base import ACCENT, SECOND, Display
from gpexperts.selection import GGMSelector

__all__ = ["ExpertGraphDisplay"]


class ExpertGraphDisplay(Display):
    """Experts on a circle, joined where their partial correlation is not zero.

    Parameters
    ----------
    precision : ndarray of shape (M, M)
        Ω; the partial correlation of experts i and j is −Ω_ij / √(Ω_ii Ω_jj).
    selected : ndarray of int
        Experts to point out: those the ggm selection asks.
    """

    def __init__(self, precision: np.ndarray, selected: np.ndarray) -> None:
        self.precision, self.selected = precision, selected

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the graph of a fitted model; it is learned here unless its selection is ggm."""
        check_is_fitted(estimator)
        selector = estimator._selector()
        if not isinstance(selector, GGMSelector):
            selector = GGMSelector().fit(estimator._experts_view())
        n_selected = selector.default_n_selected(estimator.n_experts_)
        selected = selector.select(np.zeros((1, estimator.n_features_in_)), n_selected)[0]
        return cls(selector.precision_, selected).plot(ax)

    @classmethod
    def from_predictions(cls, precision: Any, selected: Any = (), *, ax: Any = None) -> Self:
        """Draw a given precision matrix (M, M)."""
        return cls(np.asarray(precision), np.asarray(selected, dtype=int)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        ax = self._take(ax)
        scale = np.sqrt(np.diagonal(self.precision))
        partial = -self.precision / np.outer(scale, scale)
        M = len(partial)
        angle = 2 * np.pi * np.arange(M) / M
        places = np.column_stack([np.cos(angle), np.sin(angle)])
        i, j = np.nonzero(np.triu(partial, 1))
        for a, b in zip(i, j, strict=True):
            strength = float(np.clip(abs(partial[a, b]), 0.0, 1.0))
            ax.plot(
                *places[[a, b]].T, color=ACCENT if partial[a, b] > 0 else SECOND,
                lw=0.4 + 4 * strength, alpha=0.2 + 0.6 * strength, zorder=1, solid_capstyle="round",
            )  # fmt: skip
        chosen = np.isin(np.arange(M), self.selected)
        ax.scatter(
            *places.T, s=260 if M <= 40 else 40, zorder=2,
            c=np.where(chosen, ACCENT, "white"), edgecolor=ACCENT,
        )  # fmt: skip
        if M <= 40:
            for k, place in enumerate(places):
                colour = "white" if chosen[k] else "black"
                ax.annotate(str(k), place, ha="center", va="center", fontsize=8, color=colour)
        ax.set(aspect="equal", title="Partial correlations of experts; filled: selected")
        ax.set_axis_off()
        ax.margins(0.1)
        return self

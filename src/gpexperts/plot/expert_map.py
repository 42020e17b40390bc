"""Where the experts are, how large, and how often asked."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpexperts.plot.base import Display, plane_of

__all__ = ["ExpertMapDisplay", "map_of_experts", "times_asked"]


def map_of_experts(estimator: Any) -> np.ndarray:
    """Return a place in the plane for each expert, (M, 2): centroids, in the directions they vary most.

    Distances are those the kernel sees: each input is divided by its length scale first, so that inputs
    that do not matter do not stretch the map.
    """
    check_is_fitted(estimator)
    scale = estimator._experts.covariance.length_scale(estimator.n_features_in_)
    Z = estimator._centroids / scale
    centre, axes = plane_of(Z)
    return np.asarray((Z - centre) @ axes)


def times_asked(index: np.ndarray, n_experts: int) -> np.ndarray:
    """Return how many queries asked each expert, (M,), from `select`'s answer."""
    return np.bincount(index[index >= 0], minlength=n_experts)


class ExpertMapDisplay(Display):
    """A map of the experts: area is the rows each owns, colour how often each was asked.

    Parameters
    ----------
    places : ndarray of shape (M, 2)
    sizes : ndarray of shape (M,)
    asked : ndarray of shape (M,) or None
    """

    def __init__(self, places: np.ndarray, sizes: np.ndarray, asked: np.ndarray | None = None) -> None:
        self.places, self.sizes, self.asked = places, sizes, asked

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any = None, *, ax: Any = None) -> Self:
        """Draw the experts of a model; with queries X, how often each is asked."""
        places = map_of_experts(estimator)
        asked = None if X is None else times_asked(estimator.select(X), estimator.n_experts_)
        return cls(places, estimator._experts.sizes, asked).plot(ax)

    @classmethod
    def from_predictions(cls, places: Any, sizes: Any, asked: Any = None, *, ax: Any = None) -> Self:
        """Draw given places (M, 2), sizes (M,) and counts (M,)."""
        asked = None if asked is None else np.asarray(asked)
        return cls(np.asarray(places), np.asarray(sizes), asked).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        ax = self._take(ax)
        area = 300 * self.sizes / self.sizes.max()
        colour = np.zeros(len(area)) if self.asked is None else self.asked
        drawn = ax.scatter(*self.places.T, s=area, c=colour, cmap="viridis_r", alpha=0.75, edgecolor="white")
        if self.asked is not None:
            ax.figure.colorbar(drawn, ax=ax, label="times asked")
        if len(area) <= 40:
            for i, place in enumerate(self.places):
                ax.annotate(str(i), place, ha="center", va="center", fontsize=8)
        ax.set(xlabel="first direction (length scales)", ylabel="second direction", title="Experts")
        ax.margins(0.12)
        return self

"""What the displays share: an axis to draw on, and the projection of inputs to a plane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from gpexperts.exceptions import MissingExtraError

__all__ = ["ACCENT", "SECOND", "Display", "plane_of"]

ACCENT = "#1f5fa8"
SECOND = "#c2571a"


class Display(ABC):
    """A plot: `plot` draws it on an axis, which is then `ax_`, its figure `figure_`."""

    ax_: Any
    figure_: Any

    @abstractmethod
    def plot(self, ax: Any = None) -> Self:
        """Draw on `ax`, or on a new figure's axis."""

    def _take(self, ax: Any) -> Any:
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise MissingExtraError("Plotting", "plot") from error
            _, ax = plt.subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def plane_of(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the centre (d,) and the two directions (d, 2) in which the rows of Z (n, d) vary most.

    With one input the second direction is zero. The sign of a direction is fixed, so that the same
    data give the same picture.
    """
    centre = Z.mean(axis=0)
    _, _, rows = np.linalg.svd(Z - centre, full_matrices=False)
    axes = np.zeros((Z.shape[1], 2))
    for k, row in enumerate(rows[:2]):
        axes[:, k] = row * np.sign(row[np.argmax(np.abs(row))] or 1.0)
    return centre, axes

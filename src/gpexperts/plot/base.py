"""The base class of the displays, and their colours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

from gpexperts.exceptions import MissingExtraError

__all__ = ["ACCENT", "SECOND", "Display"]

ACCENT = "#1f5fa8"
SECOND = "#c2571a"


class Display(ABC):
    """A plot. `plot` draws on an axis, and stores it as `ax_` and its figure as `figure_`."""

    ax_: Any
    figure_: Any

    @abstractmethod
    def plot(self, ax: Any = None) -> Self:
        """Draw on `ax`, or on the axis of a new figure."""

    def _axis(self, ax: Any) -> Any:
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise MissingExtraError("Plotting", "plot") from error
            _, ax = plt.subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax

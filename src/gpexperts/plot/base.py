"""The base class of the displays, and their colours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

from gpexperts.exceptions import MissingExtraError
from gpexperts.text import printable

__all__ = ["ACCENT", "SECOND", "Display", "as_label"]

ACCENT = "#1f5fa8"
SECOND = "#c2571a"
_LONGEST = 60
"""Characters of a label."""


class Display(ABC):
    """A plot. `plot` draws on an axis, and stores it as `ax_` and its figure as `figure_`."""

    ax_: Any
    figure_: Any

    @abstractmethod
    def plot(self, ax: Any = None) -> Self:
        """Draw on `ax`, or on the axis of a new figure."""

    def _axis(self, ax: Any) -> Any:
        if ax is None:
            _, ax = _pyplot().subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _axes(self, n: int, ax: Any) -> list[Any]:
        """Return n axes: those given, or those of a new figure with up to three in a row."""
        if ax is None:
            n_columns = min(3, n)
            n_rows = -(-n // n_columns)
            size = (max(6.4, 3.8 * n_columns), 3.6 * n_rows)
            _, grid = _pyplot().subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
            for unused in grid.flat[n:]:
                unused.set_axis_off()
            axes = list(grid.flat[:n])
        else:
            axes = list(ax.flat) if hasattr(ax, "flat") else list(ax) if hasattr(ax, "__iter__") else [ax]
            if len(axes) != n:
                raise ValueError(f"{type(self).__name__} needs {n} axes, got {len(axes)}.")
        self.ax_, self.figure_ = axes[0], axes[0].figure
        return axes


def as_label(text: object) -> str:
    """Return text of a table as matplotlib draws it unchanged, in one line of limited length.

    Between two dollar signs, matplotlib reads a formula, and raises an error if there is none.
    """
    line = printable(text)
    line = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
    return line.replace("$", r"\$")


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("Plotting", "plot") from error
    return plt

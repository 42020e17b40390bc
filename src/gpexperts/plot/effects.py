"""The effects of single inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from gpexperts import inspection
from gpexperts.effects import Effect, effects, most_relevant
from gpexperts.plot.base import ACCENT, Display, as_label

__all__ = ["EffectDisplay"]

_MOST = 6
"""Inputs that are drawn if none are given."""
_CHARACTERS = 30
"""Labels with more characters than this are turned."""


class EffectDisplay(Display):
    """One panel per input: the prediction as the input varies, averaged over rows.

    The line is the average over the rows (partial dependence). The band holds the central 80 % of the rows:
    where it is wide beyond the differences between rows, the effect depends on other inputs. The panels share
    their vertical axis. A date has one panel for elapsed time, and one for each of its cycles.

    Parameters
    ----------
    effects : list of Effect
    target : str
        Name of the target.

    Attributes
    ----------
    axes_ : list of Axes
        One per panel; `ax_` is the first.
    """

    def __init__(self, effects: list[Effect], *, target: str = "target") -> None:
        self.effects, self.target = effects, target

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        features: Sequence[int | str] | None = None,
        n_rows: int = 100,
        ax: Any = None,
    ) -> Self:
        """Compute and draw the effects of inputs.

        Parameters
        ----------
        estimator : DistributedGPRegressor
            Fitted to one target.
        X : array-like of shape (n, d), optional
            Rows to average over; the training rows by default.
        features : sequence of int or str, optional
            The inputs, by number or name; by default up to six that change the predictions most if their
            values are shuffled among the rows. The first six panels are drawn.
        n_rows : int
            At most this many of the rows are used, evenly spaced.
        ax : sequence of Axes, optional
            One per panel.
        """
        inspection.single_output(estimator, "EffectDisplay")
        rows = inspection.training_inputs(estimator) if X is None else inspection.encoded_rows(estimator, X)
        rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), n_rows)).astype(int)]
        if features is None:
            chosen = most_relevant(estimator, _MOST, rows)
        else:
            chosen = [inspection.find_column(estimator, feature) for feature in features]
        table = getattr(estimator, "table_", None)
        target = "target" if table is None else str(table.target)
        found = effects(estimator, chosen, rows)
        return cls(found if features is not None else found[:_MOST], target=target).plot(ax)

    @classmethod
    def from_predictions(cls, effects: Any, *, target: str = "target", ax: Any = None) -> Self:
        """Draw effects that `gpexperts.effects.effect` has computed."""
        return cls(list(effects), target=target).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the given axes, one per input, or on a new figure."""
        self.axes_ = self._axes(len(self.effects), ax)
        low = min(float(one.low.min()) for one in self.effects)
        high = max(float(one.high.max()) for one in self.effects)
        margin = 0.05 * (high - low) or 1.0
        for axis, one in zip(self.axes_, self.effects, strict=True):
            if isinstance(one.values[0], str) and not one.dates:
                places = np.arange(len(one.values))
                axis.vlines(places, one.low, one.high, color=ACCENT, alpha=0.5, lw=3)
                axis.plot(places, one.mean, "o", color=ACCENT, ms=5)
                turned = len(one.values) * max(map(len, one.values)) > _CHARACTERS
                axis.set_xticks(
                    places,
                    [as_label(value) for value in one.values],
                    rotation=45 if turned else 0,
                    ha="right" if turned else "center",
                )
                axis.margins(x=0.5 / len(places))
            else:
                places = np.array(one.values, dtype="datetime64[s]" if one.dates else float)
                axis.fill_between(places, one.low, one.high, color=ACCENT, alpha=0.2, lw=0)
                axis.plot(places, one.mean, color=ACCENT, lw=1.8)
                if one.dates:
                    from matplotlib.dates import ConciseDateFormatter

                    axis.xaxis.set_major_formatter(ConciseDateFormatter(axis.xaxis.get_major_locator()))
            axis.set(xlabel=as_label(one.name), ylim=(low - margin, high + margin))
        self.axes_[0].set_ylabel(f"effect on {as_label(self.target)}")
        return self

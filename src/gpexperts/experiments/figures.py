"""Line and bar figures of rows, one panel per score, as the paper draws them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpexperts.exceptions import MissingExtraError
from gpexperts.experiments.base import Row
from gpexperts.experiments.tables import TITLES, summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["bars", "lines", "new_figure", "save"]

COLOURS = {
    "PoE": "C6", "GPoE": "C5", "BCM": "C7", "RBCM": "C1", "GRBCM": "C4", "NPAE": "C2",
    "GGM": "C3", "KNN": "C0", "DNN": "#17becf", "full GP": "0.2", "full GP, own θ": "0.5",
}  # fmt: skip
MARKERS = "osD^vP*Xph<>"


def new_figure(columns: int, rows: int = 1, width: float = 4.2, height: float = 3.3) -> tuple[Figure, Any]:
    """An empty figure and its axes, (rows, columns), without any global state."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("Drawing a figure", "plot") from error
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def save(figure: Figure, path: Path) -> None:
    """Write NAME.png and NAME.svg; the same figure gives the same bytes."""
    import matplotlib as mpl

    figure.savefig(path.with_suffix(".png"), dpi=90, metadata={"Software": None})
    with mpl.rc_context({"svg.hashsalt": "gpexperts"}):
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


def lines(
    rows: list[Row],
    x: str,
    scores: Sequence[str],
    *,
    by: str = "method",
    panels: str | None = None,
    baselines: Sequence[str] = (),
    log: Sequence[str] = (),
    logx: bool = False,
) -> Figure:
    """Draw each score against `x`, one line per value of `by`, with bars of ± one spread over seeds.

    `panels` names a column with one row of panels per value. A `baseline` is a level: a dashed line
    across. Scores (or x) in `log` get a logarithmic axis.
    """
    values = list(dict.fromkeys(row[panels] for row in rows)) if panels else [None]
    figure, axes = new_figure(len(scores), len(values))
    for value, row_of_axes in zip(values, axes, strict=True):
        mine = [row for row in rows if panels is None or row[panels] == value]
        for score, ax in zip(scores, row_of_axes, strict=True):
            _lines(ax, mine, x, score, by, baselines)
            ax.set_xlabel(TITLES.get(x, x))
            ax.set_ylabel(TITLES.get(score, score))
            if score in log:
                ax.set_yscale("log")
            if logx:
                ax.set_xscale("log", base=2)
            elif len({row[x] for row in mine}) <= 12:
                ax.set_xticks(sorted({row[x] for row in mine if row[by] not in baselines}))
            if panels:
                ax.set_title(f"{TITLES.get(panels, panels)} = {value}", fontsize=10)
    _legend(figure, axes[0][0])
    return figure


def _lines(ax: Axes, rows: list[Row], x: str, score: str, by: str, baselines: Sequence[str]) -> None:
    drawn = set()
    for i, name in enumerate(dict.fromkeys(row[by] for row in rows)):
        mine = [row for row in rows if row[by] == name]
        # "KNN-5" and "PoE + KNN" take the colour of their kind, dashed where it is there already.
        colour = COLOURS.get(re.split(r"-| \+ ", str(name))[0], f"C{i}")
        style = "--" if colour in drawn else "-"
        drawn.add(colour)
        if name in baselines:
            ((level, _, _),) = (line[score] for line in summarise(mine, (by,), (score,)).values())
            ax.axhline(level, color=colour, ls="--", lw=1.5, label=name)
            continue
        summary = summarise(mine, (x,), (score,))
        places = sorted(summary)
        means = [summary[p][score][0] for p in places]
        spreads = [summary[p][score][1] or 0.0 for p in places]
        ax.errorbar(
            [p[0] for p in places], means, spreads, color=colour, ls=style, marker=MARKERS[i % len(MARKERS)],
            ms=4, lw=1.4, elinewidth=0.7, capsize=2, label=name,
        )  # fmt: skip
    ax.grid(alpha=0.25)


def bars(
    rows: list[Row], panels: str, scores: Sequence[str], *, by: str = "method", width: float = 2.6
) -> Figure:
    """Draw one panel per value of `panels` and score, one bar per value of `by`."""
    values = list(dict.fromkeys(row[panels] for row in rows))
    figure, axes = new_figure(len(values), len(scores), width=width, height=2.6)
    for value, column in zip(values, axes.T, strict=True):
        mine = [row for row in rows if row[panels] == value]
        for score, ax in zip(scores, column, strict=True):
            summary = summarise(mine, (by,), (score,))
            names = [key[0] for key in summary]
            ax.bar(
                names,
                [line[score][0] for line in summary.values()],
                yerr=[line[score][1] or 0.0 for line in summary.values()],
                color=[COLOURS.get(str(name).split(",")[0], "C0") for name in names],
                error_kw={"lw": 0.8},
            )
            ax.tick_params(axis="x", rotation=90, labelsize=8)
            ax.tick_params(axis="y", labelsize=8)
            ax.grid(axis="y", alpha=0.25)
            if score == scores[0]:
                title = value if panels in ("data", "method") else f"{TITLES.get(panels, panels)} = {value}"
                ax.set_title(title, fontsize=10)
        column[-1].set_xlabel("")
    for score, row_of_axes in zip(scores, axes, strict=True):
        row_of_axes[0].set_ylabel(TITLES.get(score, score))
    return figure


def _legend(figure: Figure, ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(8, len(labels)), fontsize=9, frameon=False
    )

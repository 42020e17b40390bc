"""Line and dot plots of rows, one panel per score."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpexperts.exceptions import MissingExtraError
from gpexperts.paper.experiment import Row
from gpexperts.paper.tables import TITLES, summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["dots", "lines", "new_figure", "save", "save_png"]

COLOURS = {
    "PoE": "C6", "GPoE": "C5", "BCM": "C7", "RBCM": "C1", "GRBCM": "C4", "NPAE": "C2",
    "GGM": "C3", "KNN": "C0", "DNN": "#17becf", "full GP": "0.2", "full GP, own θ": "0.5",
}  # fmt: skip
MARKERS = "osD^vP*Xph<>"


def new_figure(columns: int, rows: int = 1, width: float = 4.2, height: float = 3.3) -> tuple[Figure, Any]:
    """Return an empty figure, independent of pyplot, and its axes (rows, columns)."""
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

    save_png(figure, path)
    with mpl.rc_context({"svg.hashsalt": "gpexperts"}):
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


def save_png(figure: Figure, path: Path) -> None:
    """Write NAME.png."""
    figure.savefig(path.with_suffix(".png"), dpi=90, metadata={"Software": None})


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

    `panels` names a column with one row of panels per value. A `baseline` is a dashed horizontal line.
    Scores in `log` have a logarithmic axis, and so has x if `logx`.
    """
    values = list(dict.fromkeys(row[panels] for row in rows)) if panels else [None]
    figure, axes = new_figure(len(scores), len(values))
    for value, row_of_axes in zip(values, axes, strict=True):
        mine = [row for row in rows if panels is None or row[panels] == value]
        for score, ax in zip(scores, row_of_axes, strict=True):
            _lines(ax, mine, x, score, by, baselines, logx)
            ax.set_xlabel(TITLES.get(x, x))
            ax.set_ylabel(TITLES.get(score, score))
            if score in log:
                _log_scale(ax)
            if logx:
                ax.set_xscale("log", base=2)
            elif len({row[x] for row in mine}) <= 12:
                ax.set_xticks(sorted({row[x] for row in mine if row[by] not in baselines}))
            if panels:
                ax.set_title(f"{TITLES.get(panels, panels)} = {value}", fontsize=10)
    _legend(figure, axes[0][0])
    return figure


def _lines(
    ax: Axes, rows: list[Row], x: str, score: str, by: str, baselines: Sequence[str], logx: bool
) -> None:
    drawn = set()
    names = list(dict.fromkeys(row[by] for row in rows))
    for i, name in enumerate(names):
        mine = [row for row in rows if row[by] == name]
        # "KNN-5" and "PoE + KNN" have the colour of KNN and PoE, dashed if it is already used.
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
        shift = min(0.01, 0.05 / len(names)) * (i - (len(names) - 1) / 2)
        ax.errorbar(
            _shifted([p[0] for p in places], shift, logx), means, spreads, color=colour, ls=style,
            marker=MARKERS[i % len(MARKERS)], ms=4, lw=1.2, elinewidth=0.7, capsize=1.5, label=name,
        )  # fmt: skip
    ax.grid(alpha=0.25)


def _shifted(places: list[float], share: float, logarithmic: bool) -> list[float]:
    """Shift x by a share of its range, so that error bars do not overlap."""
    low, high = min(places), max(places)
    if logarithmic:
        return [p * (high / low) ** share for p in places]
    return [p + (high - low) * share for p in places]


def dots(
    rows: list[Row],
    x: str,
    scores: Sequence[str],
    *,
    by: str | None = None,
    panels: str | None = None,
    log: Sequence[str] = (),
    per_row: int = 4,
    width: float = 2.9,
) -> Figure:
    """Draw each score over the values of `x`, a dot per value of `by`, with bars of ± one spread over seeds.

    `panels` names a column with one panel per value and score, `per_row` panels in a row. The number of the
    paper, if the rows have it (see `with_paper`), is a hollow diamond.
    """
    values = list(dict.fromkeys(row[panels] for row in rows)) if panels else [None]
    if panels is None:
        figure, axes = new_figure(len(scores), 1, width=width)
        places = {(None, score): ax for score, ax in zip(scores, axes[0], strict=True)}
    else:
        columns = min(per_row, len(values))
        figure, axes = new_figure(columns, -(-len(values) // columns) * len(scores), width=width, height=2.3)
        places = {
            (value, score): axes[k // columns * len(scores) + s][k % columns]
            for k, value in enumerate(values)
            for s, score in enumerate(scores)
        }
    for (value, score), ax in places.items():
        _dots(ax, [row for row in rows if panels is None or row[panels] == value], x, score, by)
        if panels and score == scores[0]:
            ax.set_title(value, fontsize=10)
        if panels is None or value in values[::per_row]:
            ax.set_ylabel(TITLES.get(score, score))
        if score in log:
            _log_scale(ax)
    for ax in axes.flat:
        if not ax.has_data():
            ax.axis("off")
    _legend(figure, *axes.flat)
    return figure


def _log_scale(ax: Axes) -> None:
    """Set a logarithmic axis with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0,)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _dots(ax: Axes, rows: list[Row], x: str, score: str, by: str | None) -> None:
    names = list(dict.fromkeys(row[x] for row in rows))
    kinds = list(dict.fromkeys(row[by] for row in rows)) if by else [None]
    for k, kind in enumerate(kinds):
        shift = 0.3 * (k - (len(kinds) - 1) / 2)
        mine = [row for row in rows if by is None or row[by] == kind]
        for i, name in enumerate(names):
            here = [row for row in mine if row[x] == name]
            colour = f"C{k}" if by else COLOURS.get(re.split("-|,", str(name))[0], "0.5")
            for mean, spread, _ in _single(here, score):
                ax.errorbar(
                    [i + shift], [mean], [spread or 0.0], fmt="o", ms=5, color=colour, elinewidth=0.8,
                    capsize=2, label=str(kind) if by else None,
                )  # fmt: skip
            for number, _, _ in _single(here, f"{score}_paper"):
                ax.plot(
                    [i + shift], [number], "D", ms=7, mfc="none", mec=colour if by else "k", mew=1,
                    label=f"{kind}, the paper" if by else "the paper",
                )  # fmt: skip
    ax.set_xticks(range(len(names)), names, rotation=90 if len(names) > 3 else 0, fontsize=8)
    ax.set_xlim(-0.6, len(names) - 0.4)
    ax.tick_params(axis="y", labelsize=8)
    ax.grid(axis="y", alpha=0.25)


def _single(rows: list[Row], score: str) -> list[tuple[float, float | None, int]]:
    """The mean of a score over the rows, if any row has it."""
    return [line[score] for line in summarise(rows, (), (score,)).values()]


def _legend(figure: Figure, *axes: Axes) -> None:
    """One legend for all axes; equal labels appear once."""
    named = {
        label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    if named:
        figure.legend(
            named.values(), named, loc="outside lower center", ncols=min(8, len(named)), fontsize=9,
            frameon=False,
        )  # fmt: skip

"""Writes the tables and the figure of docs/calibration.md: `python benchmarks/calibration.py --page`."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom, chi2

import common
from calibration import ALL, BINS, FEW, LEVELS, RULES, ZONES, all_methods

PAGE = common.HERE.parent / "docs" / "calibration.md"
FIGURE = PAGE.parent / "images" / "calibration.png"
BAND = 0.999
"""Probability that a calibrated result is inside its band."""
Row = dict[str, Any]


def write() -> None:
    """Write the figure and the tables of the page."""
    draw(_prior_results(), FIGURE)
    for name, lines in tables().items():
        common.write_between(PAGE, name, lines)


def tables() -> dict[str, str]:
    """Return the tables by the name of their markers."""
    prior = _prior_results()
    return {
        "prior": "\n".join([*_verdicts(prior), "", *_details(prior)]),
        "real": "\n".join(_real(common.rows("calibration-real"))),
    }


def _prior_results() -> dict[Any, Row]:
    return {(r["rule"], r["selection"], r["zone"], r["of"]): r for r in common.rows("calibration-prior")}


def verdict(share: float, level: float, n: int) -> str:
    """Return ▼ for coverage below its band, ▲ for coverage above it, else nothing."""
    low, high = binom.ppf([0.5 - BAND / 2, 0.5 + BAND / 2], n, level)
    return "▼" if share * n < low else "▲" if share * n > high else ""


def verdict_of_squares(mean_square: float, n: int) -> str:
    """Return the same for the mean squared z-score; n times it is χ² with n degrees of freedom."""
    low, high = chi2.ppf([0.5 - BAND / 2, 0.5 + BAND / 2], n)
    return "▲" if mean_square * n < low else "▼" if mean_square * n > high else ""


def _cell(row: Row, level: float) -> str:
    share = row["coverage"][f"{level:g}"]
    return f"{100 * share:.1f}{verdict(share, level, row['draws'])}"


def _squares(row: Row) -> str:
    return f"{row['squared_z']:.2f}{verdict_of_squares(row['squared_z'], row['draws'])}"


def _verdicts(prior: dict[Any, Row]) -> list[str]:
    draws = next(iter(prior.values()))["draws"]
    lines = [
        f"Coverage of the 95 % intervals of f, in per cent of {draws:,} draws; in brackets, the mean squared",
        "z-score. ▼: too narrow (overconfident). ▲: too wide (underconfident). For a calibrated method, one",
        "cell in 1,000 has a mark.",
        "",
        "| aggregation | selection | " + " | ".join(ZONES) + " |",
        "| --- | --- |" + " ---: |" * len(ZONES),
    ]
    for rule, selection in all_methods():
        cells = []
        for zone in ZONES:
            row = prior.get((rule, selection, zone, "latent"))
            cells.append("" if row is None else f"{_cell(row, 0.95)} ({_squares(row)})")
        lines.append(f"| {rule} | {selection} | " + " | ".join(cells) + " |")
    return lines


def _details(prior: dict[Any, Row]) -> list[str]:
    lines = []
    for zone in ZONES:
        lines += [
            f"<details><summary>All levels, {zone}</summary>",
            "",
            "| aggregation | selection |" + "".join(f" f {100 * p:g} % |" for p in LEVELS) + " f z² |"
            + "".join(f" y {100 * p:g} % |" for p in LEVELS) + " y z² |",
            "| --- | --- |" + " ---: |" * (2 * len(LEVELS) + 2),
        ]  # fmt: skip
        for rule, selection in all_methods():
            if (rule, selection, zone, "latent") not in prior:
                continue
            cells = []
            for of in ("latent", "observation"):
                row = prior[rule, selection, zone, of]
                cells += [_cell(row, p) for p in LEVELS] + [_squares(row)]
            lines.append(f"| {rule} | {selection} | " + " | ".join(cells) + " |")
        lines += ["", "</details>", ""]
    return lines[:-1]


def _real(results: list[Row]) -> list[str]:
    if not results:
        return ["Not measured yet."]
    lines = [
        "| data | test rows | calibrate | 50 % | 90 % | 95 % | 99 % | width of the 95 % interval | SMSE |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for data in dict.fromkeys(r["data"] for r in results):
        for calibrate in (None, "scale", "conformal"):
            runs = [r for r in results if (r["data"], r["calibrate"]) == (data, calibrate)]
            done = [r for r in runs if r["status"] == "done"]
            if not done:
                lines += [f"| {data} | | `{calibrate!r}` | {runs[0]['status']} | | | | | |"] if runs else []
                continue

            def mean(get: Any, done: list[Row] = done) -> float:
                return statistics.fmean(map(get, done))

            n = sum(r["test_rows"] for r in done)
            cells = []
            for p in LEVELS:
                share = mean(lambda r, p=p: r["coverage"][f"{p:g}"])
                cells.append(f"{100 * share:.1f}{verdict(share, p, n)}")
            splits = f" in {len(done)} splits" if len(done) > 1 else ""
            width, error = mean(lambda r: r["width"]["0.95"]), mean(lambda r: r["smse"])
            lines.append(
                f"| {data} | {n:,}{splits} | `{calibrate!r}` | " + " | ".join(cells)
                + f" | {width:.3f} | {error:.4f} |"
            )  # fmt: skip
    dates = sorted({r["date"] for r in results})
    return [*lines, "", f"Measured {dates[0]}" + (f" to {dates[-1]}." if len(dates) > 1 else ".")]


def draw(prior: dict[Any, Row], path: Path) -> None:
    """Draw PIT histograms, one row per aggregation and one column per zone and selection."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = [(zone, selection) for zone in ZONES[:3] for selection in (ALL, FEW)] + [(ZONES[3], ALL)]
    figure, axes = plt.subplots(
        len(RULES), len(columns), figsize=(11, 8), sharex=True, sharey=True, layout="constrained"
    )
    edges = np.linspace(0, 1, BINS + 1)
    for rule, across in zip(RULES, axes, strict=True):
        for (zone, selection), ax in zip(columns, across, strict=True):
            observed, latent = (prior[rule, selection, zone, of] for of in ("observation", "latent"))
            n = observed["draws"]
            low, high = BINS / n * binom.ppf([0.5 - BAND / 2, 0.5 + BAND / 2], n, 1 / BINS)
            ax.axhspan(low, high, color="0.85", lw=0)
            ax.stairs(BINS / n * np.array(observed["pit"]), edges, color="#1f5fa8", fill=True, alpha=0.45)
            ax.stairs(BINS / n * np.array(latent["pit"]), edges, color="#c2571a", lw=1.2)
            ax.set(xlim=(0, 1), ylim=(0, 3), xticks=[0, 0.5, 1], yticks=[0, 1, 2])
            ax.spines[["top", "right"]].set_visible(False)
        across[0].set_ylabel(rule, fontweight="bold")
    for (zone, selection), ax in zip(columns, axes[0], strict=True):
        ax.set_title(f"{zone}\n{selection}", fontsize=10)
    handles = [
        plt.Rectangle((0, 0), 1, 1, color="#1f5fa8", alpha=0.45, label="observation"),
        plt.Line2D([], [], color="#c2571a", label="latent function"),
        plt.Rectangle((0, 0), 1, 1, color="0.85", label=f"{100 * BAND:g} % band of a calibrated method"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)
    figure.supxlabel("probability integral transform", fontsize=10)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)

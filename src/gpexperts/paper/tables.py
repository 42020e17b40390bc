"""Rows as a CSV file, and as a Markdown table with the numbers of the paper."""

from __future__ import annotations

import csv
import math
import statistics
from pathlib import Path
from typing import Any

from gpexperts.paper.experiment import Row, TableSpec

__all__ = ["Summary", "markdown_table", "mean_of", "read_csv", "summarise", "with_paper", "write_csv"]

TITLES = {
    "data": "data", "n": "n", "n_experts": "M", "n_selected": "K", "ratio": "K/M", "method": "method",
    "selection": "selection", "partition": "parts", "output": "output", "batch_size": "batch",
    "smse": "SMSE", "msll": "MSLL", "coverage": "95 % coverage", "coverage99": "99 % coverage",
    "select_seconds": "selection s", "predict_seconds": "prediction s", "fit_seconds": "fit s",
    "to_full_gp": "distance to full GP", "to_truth": "distance to truth", "std_ratio": "std over full GP's",
    "select_cpu": "selection CPU s", "predict_cpu": "prediction CPU s", "fit_cpu": "fit CPU s",
    "log_likelihood": "log likelihood", "factor": "factor",
}  # fmt: skip
DECIMALS = {
    "smse": 4,
    "msll": 3,
    "coverage": 3,
    "coverage99": 3,
    "exponent": 2,
    "expected": 1,
    "log_likelihood": 0,
}

Summary = dict[tuple[Any, ...], dict[str, tuple[float, float | None, int]]]
"""Values of the keys ↦ score ↦ mean over seeds, standard deviation over seeds, number of seeds."""


def write_csv(rows: list[Row], path: Path) -> None:
    """Write rows as CSV, with the union of their columns."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path: Path) -> list[Row]:
    """Read a file of `write_csv`; numbers are converted, empty cells are left out."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            {key: _value(cell) for key, cell in row.items() if cell != ""} for row in csv.DictReader(file)
        ]


def _value(cell: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def summarise(rows: list[Row], keys: tuple[str, ...], scores: tuple[str, ...]) -> Summary:
    """Average the scores over the rows of each seed, then over seeds, in the order of the rows."""
    cells: dict[tuple[Any, ...], dict[str, dict[int, list[float]]]] = {}
    for row in rows:
        line = cells.setdefault(tuple(row.get(key) for key in keys), {})
        for score in scores:
            if row.get(score) is not None:
                line.setdefault(score, {}).setdefault(row.get("seed", 0), []).append(float(row[score]))
    return {
        key: {score: _mean_and_spread(by_seed) for score, by_seed in line.items()}
        for key, line in cells.items()
        if line
    }


def mean_of(rows: list[Row], score: str, **where: Any) -> float:
    """Return the mean of a score over the rows with these values; NaN if there are none."""
    mine = [row for row in rows if all(row.get(key) == value for key, value in where.items())]
    values = [row[score] for row in mine if row.get(score) is not None]
    return statistics.fmean(values) if values else math.nan


def with_paper(rows: list[Row], spec: TableSpec) -> list[Row]:
    """Return the rows with the numbers of the paper in further columns such as "smse_paper"."""
    numbers = [spec.paper.get(tuple(row.get(key) for key in spec.keys), {}) for row in rows]
    return [
        row | {f"{score}_paper": number for score, number in paper.items()}
        for row, paper in zip(rows, numbers, strict=True)
    ]


def markdown_table(rows: list[Row], spec: TableSpec) -> str:
    """Return a table of mean ± standard deviation over seeds, with the numbers of the paper."""
    summary = summarise(rows, spec.keys, spec.scores)
    ours = [s for s in spec.scores if any(s in line for line in summary.values())]
    papers = {s for line in spec.paper.values() for s in line}
    header = [TITLES.get(key, key) for key in spec.keys]
    for score in ours:
        header.append(TITLES.get(score, score))
        if score in papers:
            header.append(f"{TITLES.get(score, score)}, paper")
    lines = [header, ["---"] * len(spec.keys) + ["---:"] * (len(header) - len(spec.keys))]
    for key, line in summary.items():
        cells = ["–" if value is None else str(value) for value in key]
        for score in ours:
            cells.append(_cell(score, line.get(score)))
            if score in papers:
                number = spec.paper.get(key, {}).get(score)
                cells.append("–" if number is None else f"{number:g}".replace("-", "−"))
        lines.append(cells)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def _mean_and_spread(by_seed: dict[int, list[float]]) -> tuple[float, float | None, int]:
    values = [statistics.fmean(v) for v in by_seed.values()]
    spread = statistics.stdev(values) if len(values) > 1 else None
    return statistics.fmean(values), spread, len(values)


def _cell(score: str, value: tuple[float, float | None, int] | None) -> str:
    if value is None:
        return "–"
    mean, spread, _ = value
    text = _number(score, mean)
    return text if spread is None else f"{text} ± {_number(score, spread)}"


def _number(score: str, value: float) -> str:
    if score in DECIMALS:
        return f"{value:.{DECIMALS[score]}f}".replace("-", "−")
    return f"{value:.3g}".replace("-", "−")

"""Summaries of results for the page and its pictures: values, newest runs, medians over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]

OURS = "gpexperts"
_FORMER = {
    "rows": "nearest_rows",
    "widen": "disagreement",
    "surprise": "local noise",
    "no surprise": "no local noise",
}
"""Labels of older results ↦ labels of today."""


def plain(label: str) -> str:
    """Return the label of today for a label of the results."""
    return _FORMER.get(label, label)


def values(results: list[Row], key: str) -> list[str]:
    """The different values of a column, in the order of the results."""
    return list(dict.fromkeys(r[key] for r in results))


def latest(results: list[Row], key: str) -> list[Row]:
    """The newest finished run of each value of a column."""
    return list({r[key]: r for r in results if r["status"] == "done"}.values())


def by_rows(results: list[Row], data: str) -> list[Row]:
    """The runs on one data set, the smallest first."""
    return sorted((r for r in results if r["data"] == data), key=lambda r: r["rows"])


def median(runs: list[Row]) -> Row | None:
    """The median of each number over the finished runs, if there are any."""
    done = [r for r in runs if r["status"] == "done"]
    if not done:
        return None
    numbers = [k for k, v in done[0].items() if isinstance(v, float)]
    return {k: statistics.median(r[k] for r in done) for k in numbers if all(k in r for r in done)}


def total(row: Row) -> float:
    """Seconds of fit and prediction."""
    return float(row["fit_seconds"] + row["predict_seconds"])


def per_query(row: Row, prediction: str) -> float:
    """Seconds per query of one of the predictions of scale.py."""
    n = row["queries" if prediction in ("predict", "again") else prediction]
    return float(row[f"{prediction}_seconds"] / n)


def markdown_table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def seconds(row: Row, stage: str) -> str:
    """Return wall-clock / CPU seconds of a stage."""
    clock, cpu = row[f"{stage}_seconds"], row[f"{stage}_cpu"]
    return f"{clock:.1f} / {cpu:.1f}" if clock >= 1 else f"{clock:.2f} / {cpu:.2f}"

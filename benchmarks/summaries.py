"""What the page and its pictures ask of results: their values, the newest, the median of several seeds."""

from __future__ import annotations

import statistics
from typing import Any

Row = dict[str, Any]

OURS = "gpexperts"


def values(results: list[Row], key: str) -> list[str]:
    """The different values of a column, in the order in which they came."""
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
    return {k: statistics.median(r[k] for r in done) for k in numbers}


def total(row: Row) -> float:
    """Seconds of fit and prediction."""
    return float(row["fit_seconds"] + row["predict_seconds"])


def per_query(row: Row, asked: str) -> float:
    """Seconds, where queries were asked in one of the ways of scale.py."""
    n = row["queries" if asked in ("predict", "again") else asked]
    return float(row[f"{asked}_seconds"] / n)

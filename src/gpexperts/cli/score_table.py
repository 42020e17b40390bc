"""Scores of several models, averaged over splits and printed as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["averaged", "print_scores"]

_SHOWN = ("smse", "rmse", "msll", "crps")


def averaged(scores: Mapping[str, list[Any]]) -> dict[str, dict[str, float | None]]:
    """Return the scores of each model, averaged over splits with their numbers of rows as weights."""
    result: dict[str, dict[str, float | None]] = {}
    for name, splits in scores.items():
        n = np.array([split.n for split in splits])
        values = {key: [getattr(split, key) for split in splits] for key in _SHOWN}
        values["coverage95"] = [split.coverage[0.95] for split in splits]
        result[name] = {key: _mean(numbers, n) for key, numbers in values.items()}
        if (rmse := result[name]["rmse"]) is not None:
            result[name]["rmse"] = float(np.sqrt(_mean([r**2 for r in values["rmse"]], n) or rmse**2))
    return result


def _mean(values: list[float | None], n: np.ndarray) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.average(known, weights=n)) if len(known) == len(values) else None


def print_scores(scores: Mapping[str, Mapping[str, float | None]], title: str) -> None:
    """Print one line per model on standard error."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from gpexperts.text import printable

    def shown(value: float | None, percent: bool = False) -> str:
        if value is None:
            return "not defined"
        return f"{100 * value:.1f} %" if percent else f"{value:.4g}"

    table = Table(title=Text(printable(title)), title_justify="left")
    table.add_column("")
    for name in ("SMSE", "RMSE", "MSLL", "CRPS", "in 95 % interval"):
        table.add_column(name, justify="right")
    for model, values in scores.items():
        cells = [shown(values[key]) for key in _SHOWN]
        table.add_row(model, *cells, shown(values["coverage95"], percent=True))
    Console(stderr=True).print(table)

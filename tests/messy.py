"""A messy table, as people bring them, and the clean numbers that it was made from.

``python -m tests.messy FOLDER`` writes ``readings.csv`` and ``new_readings.csv``.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np

__all__ = ["COLUMNS", "TARGET", "Messy", "messy", "write_messy"]

TARGET = "Verbrauch [kWh]"
COLUMNS = (
    "Schlüssel", "Zeitpunkt", "Region", "Zählpunkt", "Außentemperatur °C",
    "Menge, netto", "Auslastung", "beheizt", "Währung", TARGET,
)  # fmt: skip
START = datetime(2023, 1, 9)
N_POINTS = 400
GAPS = 0.08
OUTLIERS = 0.005


class Messy(NamedTuple):
    """The text of a table, and its truth."""

    text: str
    """CSV with semicolons, decimal commas and thousands separators, UTF-8."""
    X: np.ndarray
    """(n, 9) hours since the start, sine and cosine of the hour, region (two columns), effect of the
    metering point, temperature, amount, load."""
    y: np.ndarray
    """(n,) without outliers."""
    outlier: np.ndarray
    """(n,) whether the text has an outlier instead."""
    known: np.ndarray
    """(n,) whether the metering point is one of the training table's."""


def messy(n: int = 5000, seed: int = 0, *, new: bool = False, gaps: float = GAPS) -> Messy:
    """Make a table of n rows.

    Parameters
    ----------
    n, seed : int
    new : bool
        Rows to predict: without outliers, 1 % of them with metering points that `new=False` has not, and
        one with a new region.
    gaps : float
        Share of missing values in four of the columns.
    """
    effects = np.random.default_rng(99).normal(size=N_POINTS + 20)  # the same in every table
    rng = np.random.default_rng([seed, new])
    hours = rng.uniform(0, 24 * 420, size=n)
    region = rng.integers(0, 3, size=n)
    point = rng.integers(0, N_POINTS, size=n)
    if new:
        point[rng.permutation(n)[: max(1, n // 100)]] = N_POINTS + rng.integers(0, 20, size=max(1, n // 100))
    day = 2 * np.pi * hours / 24
    temperature = 9 - 9 * np.cos(2 * np.pi * hours / (24 * 365.25)) + 4 * rng.normal(size=n)
    amount = np.exp(rng.uniform(np.log(200.0), np.log(20_000.0), size=n))
    load = rng.uniform(0, 100, size=n)
    heated = rng.random(n) < 0.5
    y = 40.0 + 0.8 * np.sin(day) + 1.0 * np.cos(temperature / 6) + 0.9 * np.sin(amount / 4000)
    y += 0.7 * effects[point] + np.array([0.0, 1.5, -1.0])[region] + 0.6 * heated * np.sin(load / 15)
    y += 0.0002 * hours + rng.normal(size=n)
    outlier = (rng.random(n) < OUTLIERS) & (not new)
    X = np.column_stack(
        [hours, np.sin(day), np.cos(day), region == 1, region == 2, effects[point], temperature, amount, load]
    )
    X = np.column_stack([X, heated]).astype(float)
    written = np.where(outlier, y * rng.choice([-20.0, 30.0], size=n), y)
    names = np.array(["Küste", "Gebirge", "Tal"])[region]
    if new:
        names[0] = "Übersee"
    columns = [
        [f"K-{seed}{i:06d}" for i in range(n)],
        [(START + timedelta(hours=float(h))).strftime("%d.%m.%Y %H:%M:%S") for h in hours],
        names.tolist(),
        [f"Z{p:03d}" for p in point],
        [_comma(t, 2) for t in temperature],
        [_comma(a, 1, thousands=True) for a in amount],
        [f"{_comma(a, 2)} %" for a in load],
        ["true" if h else "false" for h in heated],
        ["EUR"] * n,
        [_comma(v, 3) for v in written],
    ]
    for k in (2, 4, 5, 6):
        for i in np.flatnonzero(rng.random(n) < gaps):
            columns[k][i] = ("", "NA", "-")[i % 3] if k > 2 else ""
    lines = [";".join(COLUMNS), *map(";".join, zip(*columns, strict=True))]
    return Messy("\n".join(lines) + "\n", X, y, outlier, point < N_POINTS)


def _comma(value: float, digits: int, thousands: bool = False) -> str:
    text = f"{value:,.{digits}f}" if thousands else f"{value:.{digits}f}"
    return text.translate(str.maketrans(",.", ".,"))


def write_messy(folder: Path, n: int = 5000, n_new: int = 1000) -> tuple[Messy, Messy]:
    """Write the two tables and return them."""
    table, queries = messy(n), messy(n_new, new=True)
    (folder / "readings.csv").write_text(table.text, encoding="utf-8")
    (folder / "new_readings.csv").write_text(queries.text, encoding="utf-8")
    return table, queries


if __name__ == "__main__":
    write_messy(Path(sys.argv[1]))

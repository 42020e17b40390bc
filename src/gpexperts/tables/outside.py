"""Rows outside the range of the training inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpexperts.columns import ColumnEncoder
from gpexperts.columns.frames import frame_of
from gpexperts.schema import TableColumn
from gpexperts.tables.arrow import pa, pc

__all__ = ["outside_columns", "outside_texts", "training_range"]


def outside_columns(
    table: pa.Table, columns: Sequence[TableColumn], encoder: ColumnEncoder
) -> dict[str, np.ndarray]:
    """Return, for each column with such rows, which rows are outside, (n,).

    Numbers and dates are outside beyond the smallest and the largest training value. A category is outside
    at a level that training has not seen, or so rarely that it is not told apart. A missing value is not
    outside.
    """
    found, frame = {}, frame_of(table)
    for k, (column, encoded) in enumerate(zip(columns, encoder.columns, strict=True)):
        if encoded.kind == "category":
            rows = encoded.level_index(frame.levels(k)) == len(encoded.levels)
        elif column.low is None or column.high is None:
            continue
        else:
            values = seconds(table.column(k)) if column.kind == "date" else table.column(k)
            outside = pc.or_(pc.less(values, column.low), pc.greater(values, column.high))
            rows = pc.fill_null(outside, False).to_numpy()
        if rows.any():
            found[column.name] = rows
    return found


def training_range(values: pa.ChunkedArray, column: TableColumn) -> TableColumn:
    """Return a column with the smallest and the largest of its training values, if it is ordered."""
    if column.kind not in ("number", "date"):
        return column
    limits = pc.min_max(seconds(values) if column.kind == "date" else values)
    return replace(column, low=limits["min"].as_py(), high=limits["max"].as_py())


def seconds(dates: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates as seconds since 1970."""
    return pc.multiply(dates.cast(pa.int64()).cast(pa.float64(), safe=False), 1e-6)


def outside_texts(outside: dict[str, np.ndarray], n: int) -> list[str | None]:
    """Return for each of n rows the names of the columns that are outside; None if none is."""
    texts: list[str | None] = [None] * n
    for name, rows in outside.items():
        for i in np.flatnonzero(rows):
            texts[i] = name if texts[i] is None else f"{texts[i]}; {name}"
    return texts

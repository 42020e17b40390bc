"""Rows outside the range of the training inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpexperts.schema import Column
from gpexperts.tables.arrow import pa, pc

__all__ = ["outside_columns", "outside_texts"]


def outside_columns(table: pa.Table, columns: Sequence[Column]) -> dict[str, np.ndarray]:
    """Return, for each column with such rows, which rows are outside, (n,).

    Numbers and dates are outside beyond the smallest and the largest training value; a category is outside
    at a level that training has not seen. A missing value is not outside.
    """
    found = {}
    for column in columns:
        values = table.column(column.name)
        if column.kind == "category":
            outside = pc.invert(pc.is_in(values, value_set=pa.array(column.levels, pa.string())))
            outside = pc.and_(outside, values.is_valid())
        elif column.low is None or column.high is None or column.kind == "boolean":
            continue
        else:
            if column.kind == "date":
                values = pc.multiply(values.cast(pa.int64()).cast(pa.float64()), 1e-6)
            outside = pc.or_(pc.less(values, column.low), pc.greater(values, column.high))
        rows = pc.fill_null(outside, False).to_numpy()
        if rows.any():
            found[column.name] = rows
    return found


def outside_texts(outside: dict[str, np.ndarray], n: int) -> list[str | None]:
    """Return for each of n rows the names of the columns that are outside; None if none is."""
    texts: list[str | None] = [None] * n
    for name, rows in outside.items():
        for i in np.flatnonzero(rows):
            texts[i] = name if texts[i] is None else f"{texts[i]}, {name}"
    return texts

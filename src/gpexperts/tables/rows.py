"""Rows of a table as a model takes them, batch by batch, and what it predicts for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpexperts.exceptions import TableError
from gpexperts.inspection import names_were_checked, single_output
from gpexperts.tables.arrow import pa
from gpexperts.tables.encoding import columns_of, csv_types, encode, missing_message, require
from gpexperts.tables.reading import TableReader
from gpexperts.tables.schema import Column

__all__ = ["BATCH_ROWS", "Predicted", "Rows", "predict_rows", "predict_table", "rows_of", "target_column"]

BATCH_ROWS = 65_536
_OUTPUTS = ("mean", "std", "lower", "upper", "experts", "weights")


class Rows(NamedTuple):
    """Complete rows of a batch."""

    table: pa.Table
    X: np.ndarray
    """(n, d)"""
    n_dropped: int
    """Rows of the batch that were left out because a value is missing."""


class Predicted(NamedTuple):
    """Predictions for a whole table, and what was observed."""

    X: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    seconds: float
    """What the predictions took, without reading."""
    n_dropped: int


def rows_of(
    reader: TableReader,
    columns: Sequence[Column],
    *,
    others: Sequence[str] = (),
    drop_missing: bool,
    size: int = BATCH_ROWS,
) -> Iterator[Rows]:
    """Yield the rows of a table as numbers.

    Parameters
    ----------
    reader : TableReader
    columns : sequence of Column
        The numbers wanted, in the order of X's columns.
    others : sequence of str
        Further columns, to be passed on as they are.
    drop_missing : bool
        Whether rows with missing values are left out; otherwise they are an error that counts them.
    size : int
        Rows per batch, before any are left out.
    """
    names = [column.name for column in columns]
    require(reader.names, [*names, *others], reader.source)
    wanted = list(dict.fromkeys([*names, *others]))
    # In a CSV, what is only passed on stays the text it is.
    types = {**dict.fromkeys(others, pa.string()), **csv_types(columns)}
    missing: dict[str, int] = {}
    n_rows = 0
    for table in reader.batches(wanted, types, size):
        encoded = encode(table, columns, reader.source)
        n_rows += table.num_rows
        if encoded.missing and not drop_missing:
            # Read on, only to count: the user should hear of all of them at once.
            for name, count in encoded.missing.items():
                missing[name] = missing.get(name, 0) + count
        if missing:
            continue
        if encoded.complete.all():
            yield Rows(table, encoded.X, 0)
        else:
            kept = table.filter(pa.array(encoded.complete))
            yield Rows(kept, encoded.X[encoded.complete], table.num_rows - kept.num_rows)
    if missing:
        raise TableError(missing_message(missing, n_rows, reader.source))


def target_column(model: Any, target: str | None) -> Column:
    """Return the column of the target: the one the model was trained on, unless the user names another."""
    table: Any = getattr(model, "table_", None)
    if target is None and table is None:
        raise TableError("The model does not know the name of its target; say it with --target COLUMN.")
    return Column(target or table.target, "number")


def predict_rows(model: Any, reader: TableReader, target: Column, *, drop_missing: bool) -> Predicted:
    """Predict a whole table that also holds what was observed."""
    single_output(model, "A table's target")
    columns = columns_of(model)
    parts, seconds, n_dropped = [], 0.0, 0
    for rows in rows_of(reader, [*columns, target], drop_missing=drop_missing):
        n_dropped += rows.n_dropped
        began = time.perf_counter()
        mean, std = _predict(model, rows.X[:, :-1])
        seconds += time.perf_counter() - began
        parts.append((rows.X[:, :-1], rows.X[:, -1], mean, std))
    X, y, mean, std = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    if len(y) == 0:
        raise TableError(f"{reader.source} has no complete rows: there is nothing to compare with.")
    return Predicted(X, y, mean, std, seconds, n_dropped)


def predict_table(
    model: Any,
    reader: TableReader,
    write: Callable[[pa.Table], None],
    *,
    keep: Sequence[str] = (),
    level: float = 0.95,
    explain: bool = False,
    drop_missing: bool = False,
    batch_rows: int = BATCH_ROWS,
) -> tuple[int, int]:
    """Write the kept columns, mean, std, and the interval's ends for every row of a table.

    Returns
    -------
    n_rows, n_dropped : int
        Rows written, and rows left out because a value is missing.
    """
    single_output(model, "A table of predictions")
    clash = [name for name in keep if name in _OUTPUTS]
    if clash:
        raise TableError(f"The column {clash[0]} cannot be kept: the output has a column of that name.")
    width = model._width(level)
    n_rows = n_dropped = 0
    rows_in = rows_of(reader, columns_of(model), others=keep, drop_missing=drop_missing, size=batch_rows)
    for rows in rows_in:
        out = {name: rows.table.column(name) for name in keep}
        out |= _predicted(model, rows.X, width, explain)
        write(pa.table(out))
        n_rows += len(rows.X)
        n_dropped += rows.n_dropped
    return n_rows, n_dropped


def _predicted(model: Any, X: np.ndarray, width: float, explain: bool) -> dict[str, Any]:
    if not explain:
        mean, std = _predict(model, X)
        return {"mean": mean, "std": std, "lower": mean - width * std, "upper": mean + width * std}
    with names_were_checked():
        explanation = model.explain(X)
    mean, std, asked = explanation.mean, explanation.std, explanation.experts >= 0
    ends = np.concatenate([[0], np.cumsum(asked.sum(axis=1))]).astype(np.int32)
    return {
        "mean": mean,
        "std": std,
        "lower": mean - width * std,
        "upper": mean + width * std,
        "experts": pa.ListArray.from_arrays(ends, explanation.experts[asked].astype(np.int64)),
        "weights": pa.ListArray.from_arrays(ends, explanation.weight[asked]),
    }


def _predict(model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with names_were_checked():
        return model.predict(X, return_std=True)

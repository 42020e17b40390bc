"""Predict the rows of a table, in batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpexperts.calibration import Widths
from gpexperts.exceptions import TableError
from gpexperts.explanation import OwnExplanation
from gpexperts.schema import Column
from gpexperts.tables.arrow import pa
from gpexperts.tables.encoding import (
    columns_of,
    csv_types,
    encode,
    missing_message,
    require_columns,
    to_frame,
)
from gpexperts.tables.formulas import quoted_name, quoted_texts
from gpexperts.tables.reading import TableReader

__all__ = [
    "BATCH_ROWS",
    "Rows",
    "TablePredictions",
    "complete_rows",
    "predict_rows",
    "predict_table",
    "target_column",
]

BATCH_ROWS = 65_536
_OUTPUTS = ("mean", "std", "lower", "upper", "experts", "weights", "own_weight", "rows", "row_weights")
_MAX_NEIGHBOURS = 10
"""Rows of the own expert that an explanation lists."""


class Rows(NamedTuple):
    """Complete rows of a batch."""

    table: pa.Table
    X: np.ndarray
    """(n, d)"""
    n_dropped: int
    """Rows of the batch that were left out because a value is missing."""


class TablePredictions(NamedTuple):
    """Predictions for all complete rows of a table, with the observed targets."""

    X: np.ndarray
    """(n, d)"""
    y: np.ndarray
    """(n,)"""
    mean: np.ndarray
    std: np.ndarray
    seconds: float
    """Time of the predictions, without reading."""
    n_dropped: int


def complete_rows(
    reader: TableReader,
    columns: Sequence[Column],
    *,
    others: Sequence[str] = (),
    drop_missing: bool,
    size: int = BATCH_ROWS,
    in_memory: bool = False,
) -> Iterator[Rows]:
    """Yield the complete rows of a table, encoded as numbers.

    Parameters
    ----------
    reader : TableReader
    columns : sequence of Column
        The inputs, in the order of the columns of X.
    others : sequence of str
        Further columns, which are not encoded.
    drop_missing : bool
        Whether rows with missing values are left out; otherwise they are an error that counts them.
    size : int
        Rows per batch, before any are left out.
    in_memory : bool
        Whether the caller keeps all rows.
    """
    names = [column.name for column in columns]
    require_columns(reader.names, [*names, *others], reader.source)
    wanted = list(dict.fromkeys([*names, *others]))
    # In a CSV, columns that are not encoded stay text.
    types = {**dict.fromkeys(others, pa.string()), **csv_types(columns)}
    missing: dict[str, int] = {}
    n_rows = 0
    for table in reader.batches(wanted, types, size, in_memory):
        encoded = encode(table, columns, reader.source)
        n_rows += table.num_rows
        if encoded.missing and not drop_missing:
            # Read on and count, so that one error reports all missing values.
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
    """Return the column of the target: that of the training table, or `target` if given."""
    table: Any = getattr(model, "table_", None)
    if target is None and table is None:
        raise TableError("The model file has no name of the target; give it with --target COLUMN.")
    return Column(target or table.target, "number")


def predict_rows(model: Any, reader: TableReader, target: Column, *, drop_missing: bool) -> TablePredictions:
    """Predict all rows of a table that also holds the observed targets."""
    _check_one_target(model)
    columns = columns_of(model)
    names = _input_names(columns)
    parts, seconds, n_dropped = [], 0.0, 0
    for rows in complete_rows(reader, [*columns, target], drop_missing=drop_missing, in_memory=True):
        n_dropped += rows.n_dropped
        began = time.perf_counter()
        mean, std = model.predict(to_frame(rows.X[:, :-1], names), return_std=True)
        seconds += time.perf_counter() - began
        parts.append((rows.X[:, :-1], rows.X[:, -1], mean, std))
    X, y, mean, std = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    if len(y) == 0:
        raise TableError(f"{reader.source} has no complete rows to compare with.")
    return TablePredictions(X, y, mean, std, seconds, n_dropped)


def predict_table(
    model: Any,
    reader: TableReader,
    write: Callable[[pa.Table], None],
    *,
    keep: Sequence[str] = (),
    level: float = 0.95,
    explain: bool = False,
    quote_formulas: bool = False,
    drop_missing: bool = False,
    batch_rows: int = BATCH_ROWS,
) -> tuple[int, int]:
    """Write the kept columns, mean, std and interval of every row of a table.

    With `quote_formulas`, kept names and texts that a spreadsheet would run get an apostrophe in front.

    Returns
    -------
    n_rows, n_dropped : int
        Rows written, and rows left out because a value is missing.
    """
    _check_one_target(model)
    clash = [name for name in keep if name in _OUTPUTS]
    if clash:
        raise TableError(f"The column {clash[0]} cannot be kept: the output has a column of that name.")
    widths = model.predictor_.interval_widths(level)
    n_rows = n_dropped = 0
    columns = columns_of(model)
    names = _input_names(columns)
    batches = complete_rows(reader, columns, others=keep, drop_missing=drop_missing, size=batch_rows)
    for rows in batches:
        out = {name: rows.table.column(name) for name in keep}
        if quote_formulas:
            out = {quoted_name(name): quoted_texts(column) for name, column in out.items()}
        out |= _predicted(model, to_frame(rows.X, names), widths, explain)
        write(pa.table(out))
        n_rows += len(rows.X)
        n_dropped += rows.n_dropped
    return n_rows, n_dropped


def _predicted(model: Any, X: pa.Table, widths: Widths, explain: bool) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if explain:
        explanation = model.explain(X)
        mean, std, selected = explanation.mean, explanation.std, explanation.experts >= 0
        ends = np.concatenate([[0], np.cumsum(selected.sum(axis=1))]).astype(np.int32)
        more["experts"] = pa.ListArray.from_arrays(ends, explanation.experts[selected].astype(np.int64))
        more["weights"] = pa.ListArray.from_arrays(ends, explanation.weight[selected])
        if explanation.own is not None:
            more |= _own(explanation.own)
    else:
        mean, std = model.predict(X, return_std=True)
    half = widths(std) * std
    return {"mean": mean, "std": std, "lower": mean - half, "upper": mean + half, **more}


def _own(own: OwnExplanation) -> dict[str, Any]:
    """The weight of the own expert, and its rows with the largest weights; rows are numbered from 1."""
    columns = own.largest(_MAX_NEIGHBOURS)
    ends = (columns.shape[1] * np.arange(len(columns) + 1)).astype(np.int32)
    rows = 1 + np.take_along_axis(own.rows, columns, axis=1).astype(np.int64)
    weights = np.take_along_axis(own.row_weight, columns, axis=1)
    return {
        "own_weight": own.weight,
        "rows": pa.ListArray.from_arrays(ends, rows.ravel()),
        "row_weights": pa.ListArray.from_arrays(ends, weights.ravel()),
    }


def _input_names(columns: Sequence[Column]) -> list[str]:
    return [name for column in columns for name in column.feature_names]


def _check_one_target(model: Any) -> None:
    if not model.model_.one_output:
        raise ValueError("A table has one target; the model must be fitted on y of shape (n,).")

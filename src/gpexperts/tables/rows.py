"""Predict the rows of a table, in batches. Every row is kept: those that cannot be predicted stay empty."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpexperts.exceptions import TableError
from gpexperts.schema import TableColumn
from gpexperts.tables.arrow import pa
from gpexperts.tables.convert import Converted, Converter
from gpexperts.tables.fingerprint import Fingerprint
from gpexperts.tables.formulas import quoted_name, quoted_texts
from gpexperts.tables.inputs import columns_of, counted_elsewhere, model_inputs
from gpexperts.tables.kept import kept_types
from gpexperts.tables.messages import display_name
from gpexperts.tables.names import require_columns
from gpexperts.tables.outputs import check_kept, output_columns
from gpexperts.tables.outside import outside_columns, outside_texts
from gpexperts.tables.reader import TableReader
from gpexperts.tables.tally import Tally

__all__ = ["BATCH_ROWS", "TablePredictions", "predict_rows", "predict_table", "target_columns"]

BATCH_ROWS = 65_536


@dataclass(frozen=True)
class TablePredictions:
    """Predictions for all rows of a table that can be predicted and have targets."""

    inputs: pa.Table
    """(n, columns) as the model takes them."""
    y: np.ndarray
    """(n,), or (n, p) for several targets."""
    mean: np.ndarray
    std: np.ndarray
    rows: np.ndarray
    """(n,) numbers of the rows in the file."""
    outside: list[str]
    """(n,) for each row the columns that are outside the range of the training rows; "" if none is."""
    seconds: float
    """Time of the predictions, without reading."""
    tally: Tally
    is_training_table: bool


class _Batch(NamedTuple):
    table: pa.Table
    converted: Converted
    possible: np.ndarray
    """(n,) whether a row can be predicted."""
    X: pa.Table
    """Inputs of the rows that can be predicted, as the model takes them."""
    outside: dict[str, np.ndarray]
    start: int
    """Number of the first row in the file."""


def target_columns(model: Any, given: Sequence[str] = ()) -> list[TableColumn]:
    """Return the columns of the targets: those of the training table, or as given."""
    table: Any = getattr(model, "table_", None)
    if not given and table is None:
        raise TableError("The model file has no name of the target; give it with --target COLUMN.")
    names = list(given) or list(table.targets)
    n_outputs = model.model_.experts.n_outputs
    if len(names) != n_outputs:
        raise TableError(f"The model has {n_outputs} targets, but --target names {len(names)}.")
    return [TableColumn(name, "number") for name in names]


def _batches(
    model: Any, reader: TableReader, tally: Tally, others: Sequence[TableColumn] = (),
    keep: Sequence[str] = (), size: int = BATCH_ROWS, in_memory: bool = False,
) -> Iterator[_Batch]:  # fmt: skip
    """Yield the rows of a table; `tally` counts what was found in them.

    `in_memory` says whether the caller keeps all of them.
    """
    columns, encoder = columns_of(model), model.model_.encoder
    names = [column.name for column in (*columns, *others)]
    require_columns(reader.names, [*names, *keep], reader.source)
    types = kept_types(reader, keep, inputs={column.name: column.kind for column in (*columns, *others)})
    converter = Converter(columns, reader.source, reader.options, reader.dialect)
    table_ = getattr(model, "table_", None)
    fills = table_ is None or not table_.drop_missing
    start = reader.first_row
    for table in reader.batches(list(dict.fromkeys([*names, *keep])), types, size, in_memory):
        converted = converter.convert(table)
        missing = np.column_stack([c.is_null().to_numpy() for c in converted.table.columns])
        lacking = missing.all(axis=1) if fills else missing.any(axis=1)
        possible = ~(converted.unreadable | lacking)
        outside = outside_columns(converted.table, columns, encoder)
        tally.add(converted, encoder.columns, possible, missing, outside, start)
        X = model_inputs(model, converted.table.filter(pa.array(possible)))
        yield _Batch(table, converted, possible, X, outside, start)
        start += table.num_rows


def predict_rows(model: Any, reader: TableReader, targets: Sequence[TableColumn]) -> TablePredictions:
    """Predict all rows of a table that also holds the observed targets."""
    tally, seen = Tally(), Fingerprint()
    one, table_ = model.model_.one_output, getattr(model, "table_", None)
    drops = table_ is not None and table_.drop_missing
    converter = Converter(targets, reader.source, reader.options, reader.dialect)
    inputs, parts, outside, seconds = [], [], [], 0.0
    for batch in _batches(model, reader, tally, targets, in_memory=True):
        converted = converter.convert(batch.table)
        y = np.column_stack([np.asarray(c, dtype=float) for c in converted.table.columns])
        known = np.isfinite(y).all(axis=1)
        tally.add_targets(converted, known, batch.start)
        trained = known & batch.possible if drops else known
        seen.update(batch.converted.table.filter(pa.array(trained)), y[trained])
        began = time.perf_counter()
        use = known[batch.possible]
        X = batch.X.filter(pa.array(use))
        with counted_elsewhere():
            mean, std = model.predict(X, return_std=True)
        seconds += time.perf_counter() - began
        rows = np.flatnonzero(batch.possible & known)
        texts = outside_texts(batch.outside, len(known))
        outside += [texts[i] or "" for i in rows]
        inputs.append(X)
        parts.append((y[rows, 0] if one else y[rows], mean, std, batch.start + rows))
    y_, mean_, std_, rows_ = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    if len(y_) == 0:
        raise TableError(
            f"{display_name(reader.source)} has no rows to compare with. {tally.sentence()}".strip()
        )
    _check_squares(reader.source, y_, mean_, rows_)
    same = table_ is not None and table_.sha256 == seen.hexdigest()
    return TablePredictions(pa.concat_tables(inputs), y_, mean_, std_, rows_, outside, seconds, tally, same)


def _check_squares(source: str, y: np.ndarray, mean: np.ndarray, rows: np.ndarray) -> None:
    """Refuse a target so far from its prediction that the sum of squared errors is no finite number."""
    with np.errstate(over="ignore"):
        size = np.abs(y - mean).reshape(len(y), -1).max(axis=1)
        worst = int(np.argmax(size))
        finite = np.isfinite(size[worst] * size[worst] * size.size)
    if not finite:
        raise TableError(
            f"Row {rows[worst]} of {display_name(source)}: the target is {np.max(np.abs(y[worst])):.3g} in "
            "magnitude, so far from its prediction that the sum of squared errors overflows. Correct the row."
        )


def predict_table(
    model: Any,
    reader: TableReader,
    write: Callable[[pa.Table], None],
    *,
    keep: Sequence[str] = (),
    level: float = 0.95,
    explain: bool = False,
    quote_formulas: bool = False,
    batch_rows: int = BATCH_ROWS,
) -> Tally:
    """Write the kept columns, mean, std and interval of every row of a table.

    Rows that cannot be predicted have empty predictions. The column `outside` names the inputs that are
    outside the range of the training rows, or levels that training has not seen. With `quote_formulas`, kept
    names and texts that a spreadsheet would run get an apostrophe in front, and so do names of targets.

    Returns
    -------
    Tally
        Counts of rows, of empty predictions and of rows outside, with reasons.
    """
    check_kept(model, keep, explain)
    tally = Tally()
    for batch in _batches(model, reader, tally, keep=keep, size=batch_rows):
        out = {name: batch.table.column(name) for name in keep}
        with counted_elsewhere():
            out |= output_columns(model, batch.X, batch.possible, level, explain)
        out["outside"] = pa.array(outside_texts(batch.outside, len(batch.possible)), pa.string())
        if quote_formulas:
            out = {quoted_name(name): quoted_texts(column) for name, column in out.items()}
        write(pa.table(out))
    if tally.n_rows and tally.n_empty == tally.n_rows:
        raise TableError(f"No row of {display_name(reader.source)} can be predicted. {tally.sentence()}")
    return tally

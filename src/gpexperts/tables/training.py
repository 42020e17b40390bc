"""Read the training rows of a model from a table."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpexperts.exceptions import TableError
from gpexperts.schema import Column, TableSchema
from gpexperts.tables.arrow import pa
from gpexperts.tables.encoding import (
    choose_encoding,
    column_kind,
    encode,
    missing_message,
    require_columns,
    to_frame,
)
from gpexperts.tables.formats import STANDARD_STREAM
from gpexperts.tables.messages import display_name
from gpexperts.tables.numeric_text import numeric_text_problem
from gpexperts.tables.reading import TableReader

__all__ = ["TrainingRows", "read_training_rows"]


class TrainingRows(NamedTuple):
    """Inputs and target, and a description of the table."""

    frame: pa.Table
    """Inputs (n, d), with their names."""
    y: np.ndarray
    """(n,)"""
    schema: TableSchema


def read_training_rows(
    reader: TableReader,
    target: str,
    *,
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    one_hot: str | None = None,
    drop_missing: bool = False,
    config: dict[str, Any] | None = None,
) -> TrainingRows:
    """Read a table's columns as inputs and target.

    Parameters
    ----------
    reader : TableReader
    target : str
        The column to predict.
    features : sequence of str
        The input columns; by default all others.
    drop : sequence of str
        Columns to leave out.
    one_hot : str or None
        Columns to one-hot encode, separated by commas; "auto" for every column of text.
    drop_missing : bool
        Whether rows with missing values are left out; otherwise they are an error.
    config : dict, optional
        Parameters to store in the description.
    """
    source = display_name(reader.source)
    chosen = None if one_hot == "auto" else [n.strip() for n in (one_hot or "").split(",") if n.strip()]
    require_columns(reader.names, [target, *features, *drop, *(chosen or [])], source)
    if target in features:
        raise TableError(f"The target {target} is also among --features; it cannot be an input, too.")
    left_out = {target, *drop}
    names = [n for n in (features or reader.names) if n not in left_out]
    if not names:
        raise TableError(f"No column of {source} is left as an input besides the target {target}.")
    stray = [name for name in chosen or [] if name not in names]
    if stray:
        raise TableError(f"--one-hot names {', '.join(stray)}, which is not among the inputs.")
    table = reader.read([*names, target], dict.fromkeys(chosen or [], pa.string()))
    if table.num_rows == 0:
        raise TableError(f"{source} has no rows.")
    columns = choose_encoding(table, names, chosen)
    inputs = Counter(name for column in columns for name in column.feature_names)
    if repeated := [name for name, count in inputs.items() if count > 1]:
        raise TableError(f"One-hot encoding makes an input {repeated[0]}, which is also a column. Rename it.")
    rows = encode(table, [*columns, _target(table, target)], source)
    if rows.missing and not drop_missing:
        raise TableError(missing_message(rows.missing, table.num_rows, source))
    data = rows.X[rows.complete]
    if len(data) == 0:
        raise TableError(f"{source} has no row without missing values: {_most_missing(rows.missing)}.")
    y = np.ascontiguousarray(data[:, -1])
    schema = TableSchema(
        target=target,
        columns=columns,
        source="standard input" if reader.source == STANDARD_STREAM else Path(source).name,
        sha256=hashlib.sha256(data.tobytes()).hexdigest(),
        n_rows=len(y),
        n_dropped=table.num_rows - len(y),
        target_low=float(y.min()),
        target_high=float(y.max()),
        config=dict(config or {}),
    )
    return TrainingRows(to_frame(data[:, :-1], schema.feature_names), y, schema)


def _target(table: pa.Table, target: str) -> Column:
    type_ = table.schema.field(target).type
    kind = column_kind(type_)
    if kind in ("text", "unsupported"):
        fault = numeric_text_problem(table.column(target).cast(pa.string())) if kind == "text" else None
        hint = f" It {fault}." if fault else ""
        raise TableError(f"The target {target} holds {type_}; a regression needs numbers.{hint}")
    return Column(target, "number")


def _most_missing(missing: dict[str, int]) -> str:
    name = max(missing, key=missing.__getitem__)
    return f"{missing[name]} are missing in {name}"

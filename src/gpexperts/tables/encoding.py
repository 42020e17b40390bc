"""The columns of a table that a model reads: their names and types, and rows with gaps.

How values become numbers is decided by the model (`gpexperts.columns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpexperts.columns import Column
from gpexperts.columns.frames import frame_of
from gpexperts.exceptions import TableError
from gpexperts.tables.arrow import pa, pacsv, pc
from gpexperts.tables.messages import display_name, join_names

__all__ = [
    "columns_of",
    "csv_types",
    "gap_counts",
    "is_text",
    "missing_message",
    "require_columns",
    "target_values",
    "with_gaps",
]

_NULL_TEXTS = pa.array(pacsv.ConvertOptions().null_values)


def require_columns(names: Sequence[str], wanted: Sequence[str], source: str) -> None:
    """Raise an error that lists missing columns and those that the table has."""
    known = set(names)
    lacking = [name for name in wanted if name not in known]
    if lacking:
        hint = "Column names must match exactly; their order does not matter."
        separator = next((mark for mark in ";\t" if mark in names[0]), None)
        if len(names) == 1 and separator:
            hint = f"It seems to be separated by {separator!r}; a CSV is separated by commas."
        raise TableError(
            f"{display_name(source)} has no column {join_names(lacking)}; "
            f"its columns are {join_names(names, most=30)}. {hint}"
        )


def columns_of(model: Any) -> list[Column]:
    """Return the input columns of a fitted model, from the table or the data frame it was fitted on."""
    if getattr(model, "feature_names_in_", None) is None:
        raise TableError(
            "The model was fitted on an array without column names, so the columns of a table cannot be "
            "matched. Fit it with `gpexperts fit`, or in Python on a data frame."
        )
    return list(model.model_.encoder.columns)


def csv_types(columns: Sequence[Column]) -> dict[str, pa.DataType]:
    """Return the types of columns in a CSV."""
    types = {"number": pa.float64(), "boolean": pa.bool_(), "category": pa.string(), "empty": pa.string()}
    return {
        column.name: pa.timestamp("us", "UTC" if column.zone else None)
        if column.kind == "date"
        else types[column.kind]
        for column in columns
    }


def is_text(type_: pa.DataType) -> bool:
    """Whether a column holds text."""
    if pa.types.is_dictionary(type_):
        return is_text(type_.value_type)
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)


def with_gaps(table: pa.Table) -> pa.Table:
    """Return a table where texts that CSV readers take for missing are null."""
    for k, field in enumerate(table.schema):
        if is_text(field.type):
            texts = table.column(k).cast(pa.string())
            texts = pc.if_else(pc.is_in(texts, value_set=_NULL_TEXTS), None, texts)
            table = table.set_column(k, field.name, texts)
    return table


def gap_counts(table: pa.Table) -> tuple[np.ndarray, dict[str, int]]:
    """Return which rows have a value in every column, and the gaps of each column that has any."""
    complete, missing = np.ones(table.num_rows, dtype=bool), {}
    for name in table.column_names:
        gap = np.asarray(pc.is_null(table.column(name), nan_is_null=True).to_numpy())
        complete &= ~gap
        if gap.any():
            missing[name] = int(gap.sum())
    return complete, missing


def target_values(table: pa.Table, target: str, source: str) -> np.ndarray:
    """Return the target (n,) as numbers, NaN where it is missing."""
    try:
        y = frame_of(table.select([target])).numbers(0)
    except ValueError as error:
        raise TableError(
            f"Column {target} of {source} should hold numbers; it holds {table.schema.field(target).type}."
        ) from error
    n_infinite = int(np.isinf(y).sum())
    if n_infinite:
        raise TableError(
            f"Column {target} of {source} holds infinity in {n_infinite} rows; a model needs finite numbers."
        )
    return y


def missing_message(missing: dict[str, int], n_rows: int, source: str) -> str:
    """Return a message that counts missing values per column."""
    counts = ", ".join(f"{name}: {count}" for name, count in missing.items())
    return (
        f"{source} has missing values ({counts}; of {n_rows} rows). Fill them in, "
        "or leave those rows out with --drop-missing."
    )

"""Encode the columns of a table as numbers; errors name the column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpexperts.exceptions import TableError
from gpexperts.schema import Column
from gpexperts.tables.arrow import pa, pacsv, pc
from gpexperts.tables.messages import display_name, join_names
from gpexperts.tables.numeric_text import numeric_text_problem

__all__ = [
    "Encoded",
    "choose_encoding",
    "column_kind",
    "columns_of",
    "csv_types",
    "encode",
    "missing_message",
    "require_columns",
    "to_frame",
]

_MAX_CATEGORIES = 100
_NULL_TEXTS = pa.array(pacsv.ConvertOptions().null_values)


class Encoded(NamedTuple):
    """The rows of a batch as numbers."""

    X: np.ndarray
    """(n, d); NaN where a value is missing."""
    complete: np.ndarray
    """(n,) whether a row has no missing value."""
    missing: dict[str, int]
    """Missing values of each column that has any."""


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
    table = getattr(model, "table_", None)
    if table is not None:
        return list(table.columns)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise TableError(
            "The model was fitted on an array without column names, so the columns of a table cannot be "
            "matched. Fit it with `gpexperts fit`, or in Python on a data frame."
        )
    return [Column(str(name), "number") for name in names]


def csv_types(columns: Sequence[Column]) -> dict[str, pa.DataType]:
    """Return the types of columns in a CSV."""
    types = {"number": pa.float64(), "boolean": pa.bool_(), "categories": pa.string()}
    return {column.name: types[column.kind] for column in columns}


# ----------------------------------------------------------------------------------------- training


def choose_encoding(table: pa.Table, names: Sequence[str], one_hot: Sequence[str] | None) -> list[Column]:
    """Choose how each column is encoded.

    Parameters
    ----------
    table : Table
        All training rows.
    names : sequence of str
        The input columns.
    one_hot : sequence of str or None
        Columns to one-hot encode; None for every column of text ("auto").
    """
    kinds = {name: column_kind(table.schema.field(name).type) for name in names}
    text = [name for name in names if kinds[name] == "text"]
    chosen = text if one_hot is None else list(one_hot)
    left = [name for name in text if name not in chosen]
    if left:
        counts = [f"{name} ({len(_values(table.column(name), name))} different values)" for name in left]
        faults = {name: numeric_text_problem(_texts(table.column(name), name)) for name in left}
        hints = "".join(f" {name} {fault}." for name, fault in faults.items() if fault)
        raise TableError(
            f"These columns hold text, but a model needs numbers: {'; '.join(counts)}. Either encode them "
            f"with --one-hot auto (or --one-hot {','.join(left)}), or leave them out with --drop "
            f"{','.join(left)}.{hints}"
        )
    unsupported = [
        f"{n} ({table.schema.field(n).type})" for n in names if kinds[n] == "unsupported" and n not in chosen
    ]
    if unsupported:
        raise TableError(
            f"These columns hold neither numbers nor text: {', '.join(unsupported)}. Convert them to "
            "numbers (a date to days, for example), or leave them out with --drop."
        )
    return [
        _encoding(table.column(n), n, "categories" if n in chosen else kinds[n], one_hot is None)
        for n in names
    ]


def _encoding(values: pa.ChunkedArray, name: str, kind: str, automatic: bool) -> Column:
    if kind == "categories":
        categories = _values(values, name)
        if automatic and (fault := numeric_text_problem(_texts(values, name))):
            raise TableError(
                f"Column {name} {fault}. Correct it, leave it out with --drop {name}, or encode it "
                f"with --one-hot {name}."
            )
        if automatic and len(categories) > _MAX_CATEGORIES:
            raise TableError(
                f"Column {name} has {len(categories)} different values; --one-hot auto encodes at "
                f"most {_MAX_CATEGORIES}. Leave it out with --drop {name}, or name it: --one-hot {name}."
            )
        return Column(name, kind, categories=categories)
    limits = pc.min_max(_floats(values, name))
    return Column(name, kind, limits["min"].as_py(), limits["max"].as_py())


def column_kind(type_: pa.DataType) -> str:
    """Return "number", "boolean", "text", or "unsupported" otherwise."""
    if pa.types.is_dictionary(type_):
        return column_kind(type_.value_type)
    if pa.types.is_boolean(type_):
        return "boolean"
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return "text"
    return "number" if pa.types.is_null(type_) else "unsupported"


def _values(column: pa.ChunkedArray, name: str) -> list[str]:
    return sorted(value for value in pc.unique(_texts(column, name)).to_pylist() if value is not None)


# ------------------------------------------------------------------------------------------ numbers


def encode(table: pa.Table, columns: Sequence[Column], source: str) -> Encoded:
    """Return the rows of `table`, encoded as `columns` describe."""
    X = np.empty((table.num_rows, sum(len(column.feature_names) for column in columns)))
    missing: dict[str, int] = {}
    position = 0
    for column in columns:
        values = table.column(column.name)
        width = len(column.feature_names)
        block = X[:, position : position + width]
        if column.kind == "categories":
            _one_hot(_texts(values, column.name), column, source, block)
        else:
            block[:, 0] = _floats(values, column.name, source).to_numpy()
        position += width
        n_infinite = int(np.isinf(block).any(axis=1).sum())
        if n_infinite:
            raise TableError(
                f"Column {column.name} of {source} holds infinity in {n_infinite} rows; "
                "a model needs finite numbers."
            )
        n_missing = int(np.isnan(block).any(axis=1).sum())
        if n_missing:
            missing[column.name] = n_missing
    return Encoded(X, np.logical_not(np.isnan(X).any(axis=1)), missing)


def to_frame(X: np.ndarray, names: Sequence[str]) -> pa.Table:
    """Return encoded rows (n, d) as a table with the names of the inputs, which scikit-learn checks."""
    return pa.Table.from_arrays([pa.array(column) for column in X.T], names=list(names))


def missing_message(missing: dict[str, int], n_rows: int, source: str) -> str:
    """Return a message that counts missing values per column."""
    counts = ", ".join(f"{name}: {count}" for name, count in missing.items())
    return (
        f"{source} has missing values ({counts}; of {n_rows} rows). Fill them in, "
        "or leave those rows out with --drop-missing."
    )


def _one_hot(values: pa.ChunkedArray, column: Column, source: str, block: np.ndarray) -> None:
    index = pc.index_in(values, value_set=pa.array(column.categories, pa.string()))
    absent = values.is_null().to_numpy()
    known = index.is_valid().to_numpy()
    if not np.all(known | absent):
        unknown = sorted(set(values.filter(pa.array(~(known | absent))).unique().to_pylist()))
        raise TableError(
            f"Column {column.name} of {source} holds {join_names(unknown)}, which the training table did not "
            f"contain; it has {join_names(column.categories)}. Leave those rows out, or fit again with rows "
            "that contain them."
        )
    block[:] = 0.0
    rows = np.flatnonzero(known)
    block[rows, index.to_numpy()[rows].astype(np.int64)] = 1.0
    block[absent] = np.nan


def _texts(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return text; values that CSV readers take for missing become null."""
    try:
        texts = values.cast(pa.string())
    except pa.ArrowException as error:
        raise TableError(f"Column {name} should hold text; it holds {values.type}.") from error
    return pc.if_else(pc.is_in(texts, value_set=_NULL_TEXTS), None, texts)


def _floats(values: pa.ChunkedArray, name: str, source: str = "The table") -> pa.ChunkedArray:
    try:
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.int8())
        return values.cast(pa.float64(), safe=False)
    except pa.ArrowException as error:
        raise TableError(
            f"Column {name} of {source} should hold numbers, as it did in training; it holds {values.type}."
        ) from error

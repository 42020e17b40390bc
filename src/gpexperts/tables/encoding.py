"""From columns to the numbers a model takes, with every complaint by the column's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpexperts.exceptions import TableError
from gpexperts.tables.arrow import pa, pacsv, pc
from gpexperts.tables.messages import listed, named
from gpexperts.tables.numeric_text import disguised_numbers
from gpexperts.tables.schema import Column

__all__ = [
    "Encoded",
    "columns_of",
    "csv_types",
    "encode",
    "kind_of",
    "learn_columns",
    "missing_message",
    "require",
]

_MOST_CATEGORIES = 100
_NOTHING = pa.array(pacsv.ConvertOptions().null_values)


class Encoded(NamedTuple):
    """The rows of a batch as numbers."""

    X: np.ndarray
    """(n, d); NaN where a value is missing."""
    complete: np.ndarray
    """(n,) whether a row has no missing value."""
    missing: dict[str, int]
    """Missing values of each column that has any."""


def require(names: Sequence[str], wanted: Sequence[str], source: str) -> None:
    """Raise an error that lists the wanted columns a table lacks, and what it has."""
    known = set(names)
    lacking = [name for name in wanted if name not in known]
    if lacking:
        hint = "Column names must match to the letter; their order does not matter."
        separator = next((mark for mark in ";\t" if mark in names[0]), None)
        if len(names) == 1 and separator:
            hint = f"It seems to be separated by {separator!r}; a CSV is separated by commas."
        raise TableError(
            f"{named(source)} has no column {listed(lacking)}; its columns are {listed(names, most=30)}. "
            f"{hint}"
        )


def columns_of(model: Any) -> list[Column]:
    """Return the columns a fitted model wants, from the table or the data frame it was fitted on."""
    table = getattr(model, "table_", None)
    if table is not None:
        return list(table.columns)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise TableError(
            "The model was fitted on an array and knows no column names, so that a table cannot be matched "
            "to it. Fit it with `gpexperts fit`, or in Python on a data frame."
        )
    return [Column(str(name), "number") for name in names]


def csv_types(columns: Sequence[Column]) -> dict[str, pa.DataType]:
    """Return what the text of a CSV's columns stands for."""
    types = {"number": pa.float64(), "boolean": pa.bool_(), "categories": pa.string()}
    return {column.name: types[column.kind] for column in columns}


# ----------------------------------------------------------------------------------------- training


def learn_columns(table: pa.Table, names: Sequence[str], one_hot: Sequence[str] | None) -> list[Column]:
    """Decide how each column becomes numbers.

    Parameters
    ----------
    table : Table
        All training rows.
    names : sequence of str
        The input columns.
    one_hot : sequence of str or None
        Columns to turn into one input per value; None for every column of text ("auto").
    """
    kinds = {name: kind_of(table.schema.field(name).type) for name in names}
    text = [name for name in names if kinds[name] == "text"]
    chosen = text if one_hot is None else list(one_hot)
    left = [name for name in text if name not in chosen]
    if left:
        counts = [f"{name} ({len(_values(table.column(name), name))} different values)" for name in left]
        faults = {name: disguised_numbers(_texts(table.column(name), name)) for name in left}
        hints = "".join(f" {name} {fault}." for name, fault in faults.items() if fault)
        raise TableError(
            f"These columns hold text, and a model takes numbers: {'; '.join(counts)}. There are two "
            f"ways out: --one-hot auto (or --one-hot {','.join(left)}) makes an input of every value, --drop "
            f"{','.join(left)} leaves them out.{hints}"
        )
    unfit = [f"{n} ({table.schema.field(n).type})" for n in names if kinds[n] == "unfit" and n not in chosen]
    if unfit:
        raise TableError(
            f"These columns hold neither numbers nor text: {', '.join(unfit)}. Turn them into numbers (a "
            "date into days, say), or leave them out with --drop."
        )
    return [
        _learn(table.column(n), n, "categories" if n in chosen else kinds[n], one_hot is None) for n in names
    ]


def _learn(values: pa.ChunkedArray, name: str, kind: str, automatic: bool) -> Column:
    if kind == "categories":
        categories = _values(values, name)
        if automatic and (fault := disguised_numbers(_texts(values, name))):
            raise TableError(
                f"Column {name} {fault}. Mend it, leave it out with --drop {name}, or have an input made of "
                f"every value: --one-hot {name}."
            )
        if automatic and len(categories) > _MOST_CATEGORIES:
            raise TableError(
                f"Column {name} has {len(categories)} different values; --one-hot auto makes inputs of at "
                f"most {_MOST_CATEGORIES}. Leave it out with --drop {name}, or name it: --one-hot {name}."
            )
        return Column(name, kind, categories=categories)
    limits = pc.min_max(_floats(values, name))
    return Column(name, kind, limits["min"].as_py(), limits["max"].as_py())


def kind_of(type_: pa.DataType) -> str:
    """Return "number", "boolean", "text", or "unfit" for what is none of them."""
    if pa.types.is_dictionary(type_):
        return kind_of(type_.value_type)
    if pa.types.is_boolean(type_):
        return "boolean"
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return "text"
    return "number" if pa.types.is_null(type_) else "unfit"


def _values(column: pa.ChunkedArray, name: str) -> list[str]:
    return sorted(value for value in pc.unique(_texts(column, name)).to_pylist() if value is not None)


# ------------------------------------------------------------------------------------------ numbers


def encode(table: pa.Table, columns: Sequence[Column], source: str) -> Encoded:
    """Return the rows of `table` as the numbers of `columns`."""
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
                "a model takes finite numbers."
            )
        n_missing = int(np.isnan(block).any(axis=1).sum())
        if n_missing:
            missing[column.name] = n_missing
    return Encoded(X, np.logical_not(np.isnan(X).any(axis=1)), missing)


def missing_message(missing: dict[str, int], n_rows: int, source: str) -> str:
    """Count missing values per column, and say what can be done."""
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
            f"Column {column.name} of {source} holds {listed(unknown)}, which the model has not seen in "
            f"training; it knows {listed(column.categories)}. Leave those rows out, or fit again with rows "
            "that hold them."
        )
    block[:] = 0.0
    rows = np.flatnonzero(known)
    block[rows, index.to_numpy()[rows].astype(np.int64)] = 1.0
    block[absent] = np.nan


def _texts(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Text, with what CSV readers take for nothing being missing."""
    try:
        texts = values.cast(pa.string())
    except pa.ArrowException as error:
        raise TableError(f"Column {name} should hold text; it holds {values.type}.") from error
    return pc.if_else(pc.is_in(texts, value_set=_NOTHING), None, texts)


def _floats(values: pa.ChunkedArray, name: str, source: str = "The table") -> pa.ChunkedArray:
    try:
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.int8())
        return values.cast(pa.float64(), safe=False)
    except pa.ArrowException as error:
        raise TableError(
            f"Column {name} of {source} should hold numbers, as it did in training; it holds {values.type}."
        ) from error

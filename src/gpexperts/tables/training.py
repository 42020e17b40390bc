"""Read the training rows of a model from a table."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpexperts.columns.frames import frame_of
from gpexperts.exceptions import TableError
from gpexperts.schema import TableSchema
from gpexperts.tables.arrow import pa
from gpexperts.tables.encoding import (
    gap_counts,
    is_text,
    missing_message,
    require_columns,
    target_values,
    with_gaps,
)
from gpexperts.tables.formats import STANDARD_STREAM
from gpexperts.tables.messages import display_name
from gpexperts.tables.numeric_text import numeric_text_problem
from gpexperts.tables.reading import TableReader

__all__ = ["TrainingRows", "read_training_rows"]


class TrainingRows(NamedTuple):
    """Inputs and target, and a description of the table."""

    frame: pa.Table
    """The columns of the inputs, for `DistributedGPRegressor.fit`."""
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
        Columns that are categories, separated by commas, besides those of text; "auto" adds none.
    drop_missing : bool
        Whether rows with missing values are left out; otherwise the model learns from gaps in its inputs,
        and a missing target is an error.
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
    table = with_gaps(reader.read([*names, target], dict.fromkeys(chosen or [], pa.string())))
    if table.num_rows == 0:
        raise TableError(f"{source} has no rows.")
    _check_target(table, target)
    _check_inputs(table, names, chosen or [])
    n_rows = table.num_rows
    complete, missing = gap_counts(table if drop_missing else table.select([target]))
    if missing and not drop_missing:
        raise TableError(missing_message(missing, n_rows, source))
    table = table if complete.all() else table.filter(pa.array(complete))
    if table.num_rows == 0:
        raise TableError(f"{source} has no row without missing values: {_most_missing(missing)}.")
    y = target_values(table, target, source)
    frame = _with_categories(table.select(names), chosen or [])
    schema = TableSchema(
        target=target,
        source="standard input" if reader.source == STANDARD_STREAM else Path(source).name,
        sha256=_sha256(frame, y),
        n_rows=len(y),
        n_dropped=n_rows - len(y),
        target_low=float(y.min()),
        target_high=float(y.max()),
        config=dict(config or {}),
    )
    return TrainingRows(frame, y, schema)


def _check_inputs(table: pa.Table, names: Sequence[str], chosen: Sequence[str]) -> None:
    """Refuse columns that cannot be inputs, and numbers that were read as text."""
    frame, unsupported = frame_of(table.select(names)), []
    for k, name in enumerate(names):
        type_ = table.schema.field(name).type
        try:
            frame.kind(k)
        except ValueError:
            unsupported.append(f"{name} ({type_})")
        if is_text(type_) and name not in chosen and (fault := numeric_text_problem(table.column(name))):
            raise TableError(
                f"Column {name} {fault}. Correct it, leave it out with --drop {name}, or make it a category "
                f"with --one-hot {name}."
            )
    if unsupported:
        raise TableError(
            f"These columns hold neither numbers, text nor dates: {', '.join(unsupported)}. Convert them, or "
            "leave them out with --drop."
        )


def _with_categories(frame: pa.Table, chosen: Sequence[str]) -> pa.Table:
    """Make text of the columns that are chosen as categories."""
    for name in chosen:
        k = frame.column_names.index(name)
        if not is_text(frame.schema.field(k).type):
            frame = frame.set_column(k, name, _as_text(frame.column(k), name))
    return frame


def _as_text(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowException as error:
        raise TableError(f"Column {name} should hold text; it holds {column.type}.") from error


def _sha256(frame: pa.Table, y: np.ndarray) -> str:
    """The hash of values, whatever the types in which a file stores them."""
    digest, columns = hashlib.sha256(), frame_of(frame)
    for k, name in enumerate(columns.names):
        kind = columns.kind(k)
        digest.update(f"{name}\0{kind}\0".encode())
        if kind == "number":
            digest.update(columns.numbers(k).tobytes())
        elif kind == "date":
            digest.update(columns.times(k, None).utc.tobytes())
        else:
            codes, levels = columns.levels(k)
            order = np.argsort(np.array([*levels, ""]))
            rank = np.empty(len(order), dtype=np.int64)
            rank[order] = np.arange(len(order))
            digest.update(np.where(codes < 0, -1, rank[codes]).tobytes())
            digest.update("\0".join(sorted(levels)).encode())
    digest.update(y.tobytes())
    return digest.hexdigest()


def _check_target(table: pa.Table, target: str) -> None:
    type_ = table.schema.field(target).type
    fault = numeric_text_problem(table.column(target)) if is_text(type_) else None
    hint = f" It {fault}." if fault else ""
    try:
        wrong = frame_of(table.select([target])).kind(0) not in ("number", "boolean")
    except ValueError:
        wrong = True
    if wrong:
        raise TableError(f"The target {target} holds {type_}; a regression needs numbers.{hint}")


def _most_missing(missing: dict[str, int]) -> str:
    name = max(missing, key=missing.__getitem__)
    return f"{missing[name]} are missing in {name}"

"""Read the training rows of a model from a table, and fit a model to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpexperts.exceptions import TableError
from gpexperts.schema import TableColumn, TableSchema
from gpexperts.tables.arrow import pa
from gpexperts.tables.columns_seen import see_column
from gpexperts.tables.convert import Converter
from gpexperts.tables.fingerprint import Fingerprint
from gpexperts.tables.formats import STANDARD_STREAM
from gpexperts.tables.messages import display_name
from gpexperts.tables.names import require_columns
from gpexperts.tables.outside import training_range
from gpexperts.tables.reader import TableReader
from gpexperts.tables.understand import Plan, Understanding, understand

__all__ = ["TrainingTable", "fit_table", "read_training_table", "read_understood"]


@dataclass(frozen=True)
class TrainingTable:
    """Rows to fit a model to."""

    inputs: pa.Table
    """(n, columns) numbers, booleans, text and dates; null where missing."""
    y: np.ndarray
    """(n,), or (n, p) for several targets."""
    positions: np.ndarray
    """(n,) of the rows in the file, from 0."""
    understanding: Understanding
    plan: Plan
    reader: TableReader
    drop_missing: bool
    sample_weight: np.ndarray | None = None
    noise_std: np.ndarray | None = None
    time: np.ndarray | None = None
    """(n,) the column of --time-split, as numbers; NaN where missing."""

    @property
    def n_dropped(self) -> int:
        """Rows of the file that are not used."""
        return self.understanding.n_rows - len(self.y)

    def take(self, rows: np.ndarray) -> TrainingTable:
        """Return some of the rows."""

        def some(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else values[rows]

        return replace(
            self,
            inputs=self.inputs.take(pa.array(rows)),
            y=self.y[rows],
            positions=self.positions[rows],
            sample_weight=some(self.sample_weight),
            noise_std=some(self.noise_std),
            time=some(self.time),
        )


def read_understood(reader: TableReader, plan: Plan) -> tuple[pa.Table, Understanding]:
    """Read the columns of a table that are not left out by the plan, and understand them."""
    require_columns(reader.names, plan.named, reader.source)
    keep = {*plan.targets, *plan.features, plan.weights, plan.noise_std, plan.split}
    wanted = [n for n in reader.names if n in keep or (not plan.features and n not in plan.drop)]
    text = {name: pa.string() for name, kind in plan.types.items() if kind.partition(":")[0] == "category"}
    table = reader.read(wanted, {name: type_ for name, type_ in text.items() if name in wanted})
    return table, understand(reader, table, plan)


def read_training_table(reader: TableReader, plan: Plan, *, drop_missing: bool = False) -> TrainingTable:
    """Read a table's columns as inputs and targets; all problems are one error.

    Parameters
    ----------
    reader : TableReader
    plan : Plan
    drop_missing : bool
        Whether rows with missing inputs are left out; rows without a target always are.
    """
    table, understood = read_understood(reader, plan)
    understood.check()
    special = [*plan.targets, *(name for name in (plan.weights, plan.noise_std) if name is not None)]
    columns = {facts.name: facts.column for facts in understood.columns}
    numbers = [TableColumn(name, "number", format=columns[name].format) for name in special]
    converter = Converter([*understood.inputs, *numbers], reader.source, reader.options)
    typed = converter.convert(table).table
    values = np.column_stack([np.asarray(typed.column(name), dtype=float) for name in special])
    complete = np.isfinite(values).all(axis=1)
    inputs = typed.select([column.name for column in understood.inputs])
    if drop_missing:
        for column in inputs.columns:
            complete &= column.is_valid().to_numpy()
    kept = np.flatnonzero(complete)
    if len(kept) == 0:
        raise TableError(f"{display_name(reader.source)} has no row without missing values: {_most(typed)}.")
    p = len(plan.targets)
    y = values[:, 0] if p == 1 else values[:, :p]
    others = dict(zip(special[p:], values.T[p:], strict=True))
    everything = TrainingTable(
        inputs, np.ascontiguousarray(y), np.arange(len(values)), understood, plan, reader, drop_missing,
        others.get(plan.weights or ""), others.get(plan.noise_std or ""), _time(reader, table, plan),
    )  # fmt: skip
    return everything if len(kept) == len(values) else everything.take(kept)


def _time(reader: TableReader, table: pa.Table, plan: Plan) -> np.ndarray | None:
    if plan.split is None:
        return None
    seen = see_column(reader, table.column(plan.split), plan.split, plan.types.get(plan.split))
    if seen.values is None or seen.column.kind not in ("date", "number"):
        raise TableError(f"--time-split {plan.split}: rows are ordered by a date or a number; it holds text.")
    values = seen.values.cast(pa.int64()) if seen.column.kind == "date" else seen.values
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy())


def fit_table(model: Any, table: TrainingTable) -> Any:
    """Fit a model; its `table_` describes how the rows were read."""
    given = {"sample_weight": table.sample_weight, "noise_std": table.noise_std}
    model.fit(table.inputs, table.y, **{k: v for k, v in given.items() if v is not None})
    columns = [
        training_range(values, column)
        for values, column in zip(table.inputs.columns, table.understanding.inputs, strict=True)
    ]
    model.table_ = _schema(table, columns)
    return model


def _schema(table: TrainingTable, columns: Sequence[TableColumn]) -> TableSchema:
    seen = Fingerprint()
    seen.update(table.inputs, table.y)
    first = table.y if table.y.ndim == 1 else table.y[:, 0]
    reader, options = table.reader, table.reader.options
    reading = {
        "decimal": options.decimal,
        "thousands": options.thousands,
        "na_values": list(options.na_values) or None,
    }
    return TableSchema(
        targets=list(table.plan.targets),
        columns=list(columns),
        source="standard input" if reader.source == STANDARD_STREAM else Path(reader.source).name,
        sha256=seen.hexdigest(),
        n_rows=len(table.y),
        n_dropped=table.n_dropped,
        target_low=float(first.min()),
        target_high=float(first.max()),
        config={},
        left_out=table.understanding.left_out,
        reading={name: value for name, value in reading.items() if value is not None},
        skips=_skips(table.positions),
        first_row=reader.first_row,
        drop_missing=table.drop_missing,
    )


def _skips(positions: np.ndarray) -> list[list[int]]:
    """[row, position in the file] of each row that does not follow the row before it."""
    starts = np.flatnonzero(np.diff(positions, prepend=-2) != 1)
    return [[int(row), int(positions[row])] for row in starts]


def _most(typed: pa.Table) -> str:
    name = max(typed.column_names, key=lambda n: typed.column(n).null_count)
    return f"{typed.column(name).null_count} are missing in {name}"

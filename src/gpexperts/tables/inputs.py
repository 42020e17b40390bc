"""From the typed columns of a table to the inputs of a model, which encodes them itself."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpexperts.exceptions import ColumnWarning, TableError
from gpexperts.schema import TableColumn
from gpexperts.tables.arrow import pa, pc

__all__ = ["columns_of", "counted_elsewhere", "model_inputs"]


def columns_of(model: Any) -> list[TableColumn]:
    """Return the input columns of a fitted model, from the table or the data frame it was fitted on."""
    table = getattr(model, "table_", None)
    if table is not None:
        return list(table.columns)
    if getattr(model, "feature_names_in_", None) is None:
        raise TableError(
            "The model was fitted on an array without column names, so the columns of a table cannot be "
            "matched. Fit it with `gpexperts fit`, or in Python on a data frame."
        )
    kinds = {"empty": "category"}  # whatever is in it, it has no effect
    return [TableColumn(c.name, kinds.get(c.kind, c.kind)) for c in model.model_.encoder.columns]


def model_inputs(model: Any, table: pa.Table) -> pa.Table:
    """Return converted columns as the model takes them: dates are in UTC where training had a time zone."""
    for k, column in enumerate(model.model_.encoder.columns):
        if column.zone is not None:
            table = table.set_column(k, column.name, pc.assume_timezone(table.column(k), "UTC"))
    return table


@contextmanager
def counted_elsewhere() -> Iterator[None]:
    """Silence the model's warnings of unseen levels and gaps, which a `Tally` counts for all batches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)
        yield

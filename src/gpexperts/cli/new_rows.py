"""Open a table of rows for a fitted model."""

from __future__ import annotations

from typing import Any

__all__ = ["open_new_rows"]


def open_new_rows(model: Any, table: str, format: str | None, given: dict[str, Any]) -> Any:
    """Open a table; what the user said about the training table holds here too, unless `given` differs."""
    from gpexperts.tables.dialect import TableOptions
    from gpexperts.tables.reading import open_table

    schema = getattr(model, "table_", None)
    reading = {**({} if schema is None else schema.reading), **given}
    return open_table(
        table, format, TableOptions(**{**reading, "na_values": tuple(reading.get("na_values", ()))})
    )

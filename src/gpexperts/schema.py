"""Description of the table that a model was fitted on (the attribute `table_`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["TableSchema"]


@dataclass(frozen=True)
class TableSchema:
    """Source of the training rows; how they were encoded is in the model."""

    target: str
    source: str
    """Name of the file, without its folder."""
    sha256: str
    """Of the training rows, column by column, the target last: the same for a CSV and a Parquet file."""
    n_rows: int
    """Rows the model was trained on."""
    n_dropped: int
    """Rows left out because a value was missing."""
    target_low: float
    target_high: float
    config: dict[str, Any]
    """Parameters given by options and configuration file."""

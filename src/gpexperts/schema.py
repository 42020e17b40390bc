"""Description of the table that a model was fitted on (the attribute `table_`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["KINDS", "TableColumn", "TableSchema"]

KINDS = ("number", "boolean", "category", "date")
"""What a column may hold."""


@dataclass(frozen=True)
class TableColumn:
    """How a column of the table is read; how its values become inputs is in the model."""

    name: str
    kind: str
    """One of `KINDS`."""
    format: str = ""
    """Decimal mark and thousands separator of numbers that are text; the format of dates that are text."""
    low: float | None = None
    """Smallest training value of numbers, and of dates in seconds since 1970."""
    high: float | None = None
    """Largest training value."""


@dataclass(frozen=True)
class TableSchema:
    """Source of the training rows, and how they were read; how they were encoded is in the model."""

    targets: list[str]
    columns: list[TableColumn]
    source: str
    """Name of the file, without its folder."""
    sha256: str
    """Of the training values, inputs before targets: the same for a CSV and a Parquet file."""
    n_rows: int
    """Rows the model was trained on."""
    n_dropped: int
    """Rows left out because a value was missing."""
    target_low: float
    """Smallest value of the first target."""
    target_high: float
    config: dict[str, Any]
    """Parameters given by options and configuration file."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Columns that are no inputs, and why."""
    reading: dict[str, Any] = field(default_factory=dict)
    """Options of reading that the user gave and that also hold for new rows."""
    skips: list[list[int]] = field(default_factory=list)
    """[row, position in the file] of each training row that does not follow the row before it."""
    first_row: int = 1
    """Number of the first row of the file."""
    drop_missing: bool = False
    """Whether rows with missing inputs were left out: then they cannot be predicted."""
    scores: dict[str, Any] = field(default_factory=dict)
    """Scores on rows that were left out, before the fit on all rows."""

    @property
    def target(self) -> str:
        """The first target."""
        return self.targets[0]

    def row_numbers(self, rows: np.ndarray) -> np.ndarray:
        """Return the numbers in the file of training rows, which are counted from 0."""
        if not self.skips:
            return rows + self.first_row
        starts, positions = np.array(self.skips).T
        after = np.searchsorted(starts, rows, side="right") - 1
        return np.asarray(rows - starts[after] + positions[after] + self.first_row)

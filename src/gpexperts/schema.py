"""Description of the table that a model was fitted on (the attribute `table_`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["KINDS", "Column", "TableSchema"]

KINDS = ("number", "boolean", "category", "date")
"""What a column may hold."""


@dataclass(frozen=True)
class Column:
    """A column of the table that is an input."""

    name: str
    kind: str
    """One of `KINDS`."""
    low: float | None = None
    """Smallest training value, of a date in seconds since 1970; None for categories."""
    high: float | None = None
    """Largest training value; None for categories."""
    levels: list[str] = field(default_factory=list)
    """The training values of a category."""
    format: str = ""
    """Decimal mark and thousands separator of numbers that are text; the format of dates that are text."""
    gaps: bool = False
    """Whether values were missing in training."""
    fill: list[float] = field(default_factory=list)
    """Encoded value of a missing value, for each input without the indicator."""
    codes: list[float] = field(default_factory=list)
    """One number for each level, where there are many; otherwise one input for each level."""
    cycles: list[str] = field(default_factory=list)
    """Of a date: "hour", "weekday", "season"."""
    feature_names: list[str] = field(default_factory=list)
    """Names of the inputs that are made from this column."""


@dataclass(frozen=True)
class TableSchema:
    """Source of the training rows and how they were encoded as numbers."""

    targets: list[str]
    columns: list[Column]
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

    @property
    def feature_names(self) -> list[str]:
        """Names of the inputs, in their order."""
        return [name for column in self.columns for name in column.feature_names]

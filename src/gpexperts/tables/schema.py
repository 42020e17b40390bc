"""The table a model was trained on, as the model remembers it (the attribute `table_`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Column", "TableSchema"]


@dataclass(frozen=True)
class Column:
    """A column of the table that serves as an input."""

    name: str
    kind: str
    """"number", "boolean" or "categories"."""
    low: float | None = None
    """Smallest training value; None for categories."""
    high: float | None = None
    """Largest training value; None for categories."""
    categories: list[str] = field(default_factory=list)
    """The values that one-hot encoding knows, in the order of their columns."""

    @property
    def feature_names(self) -> list[str]:
        """Names of the model's inputs that this column becomes."""
        return [f"{self.name}={c}" for c in self.categories] if self.kind == "categories" else [self.name]


@dataclass(frozen=True)
class TableSchema:
    """Where the training rows came from and how they became numbers."""

    target: str
    columns: list[Column]
    source: str
    """Name of the file, without its folder."""
    sha256: str
    """Of the training numbers, row by row, inputs and then target: the same for a CSV and a Parquet file."""
    n_rows: int
    """Rows the model was trained on."""
    n_dropped: int
    """Rows left out because a value was missing."""
    target_low: float
    target_high: float
    config: dict[str, Any]
    """The estimator's parameters as they were resolved from options and configuration file."""

    @property
    def feature_names(self) -> list[str]:
        """Names of the model's inputs, in their order."""
        return [name for column in self.columns for name in column.feature_names]

"""Description of the table that a model was fitted on (the attribute `table_`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Column", "TableSchema"]


@dataclass(frozen=True)
class Column:
    """A column of the table that is an input."""

    name: str
    kind: str
    """"number", "boolean" or "categories"."""
    low: float | None = None
    """Smallest training value; None for categories."""
    high: float | None = None
    """Largest training value; None for categories."""
    categories: list[str] = field(default_factory=list)
    """The values of one-hot encoding, in the order of their inputs."""

    @property
    def feature_names(self) -> list[str]:
        """Names of the inputs that are made from this column."""
        return [f"{self.name}={c}" for c in self.categories] if self.kind == "categories" else [self.name]


@dataclass(frozen=True)
class TableSchema:
    """Source of the training rows and how they were encoded as numbers."""

    target: str
    columns: list[Column]
    source: str
    """Name of the file, without its folder."""
    sha256: str
    """Of the encoded training rows, inputs before target: the same for a CSV and a Parquet file."""
    n_rows: int
    """Rows the model was trained on."""
    n_dropped: int
    """Rows left out because a value was missing."""
    target_low: float
    target_high: float
    config: dict[str, Any]
    """Parameters given by options and configuration file."""

    @property
    def feature_names(self) -> list[str]:
        """Names of the inputs, in their order."""
        return [name for column in self.columns for name in column.feature_names]

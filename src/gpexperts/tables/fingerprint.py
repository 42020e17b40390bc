"""A checksum of rows, the same for every format and however they are cut into batches."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from gpexperts.tables.arrow import pa, pc

__all__ = ["Fingerprint"]


class Fingerprint:
    """Checksum of converted inputs and targets."""

    def __init__(self) -> None:
        self._columns: dict[str, Any] = {}

    def update(self, inputs: pa.Table, y: np.ndarray) -> None:
        """Add the rows of a batch: `inputs` of n rows, and y of shape (n,) or (n, p)."""
        for name in inputs.column_names:
            self._add(f"input {name}", _bytes(inputs.column(name)))
        for i, column in enumerate((y if y.ndim == 2 else y[:, None]).T):
            self._add(f"target {i}", np.ascontiguousarray(column, dtype=float).tobytes())

    def _add(self, name: str, content: bytes) -> None:
        self._columns.setdefault(name, hashlib.sha256()).update(content)

    def hexdigest(self) -> str:
        """Return the checksum of all rows so far."""
        total = hashlib.sha256()
        for name, column in self._columns.items():
            total.update(name.encode() + b"\0" + column.digest())
        return total.hexdigest()


def _bytes(values: pa.ChunkedArray) -> bytes:
    if pa.types.is_string(values.type):
        # A missing value differs from every text.
        return "".join("N;" if v is None else f"{len(v)};{v}" for v in values.to_pylist()).encode()
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    numbers = pc.fill_null(values.cast(pa.float64(), safe=False), np.nan)
    return np.ascontiguousarray(numbers.to_numpy()).tobytes()

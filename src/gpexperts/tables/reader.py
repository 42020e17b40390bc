"""A table that is open for reading, whatever its format."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpexperts.exceptions import TableError
from gpexperts.tables.arrow import pa
from gpexperts.tables.dialect import Dialect, TableOptions
from gpexperts.tables.formats import STANDARD_STREAM
from gpexperts.tables.messages import display_name, join_names, readable_errors

__all__ = ["TableReader", "signature", "too_wide"]

_MAX_COLUMNS = 100_000


class TableReader(ABC):
    """A table that is open for reading.

    Attributes
    ----------
    source : str
        Its name, for messages.
    names : list of str
        Its columns, in their order.
    n_rows : int or None
        Number of rows; None if the format does not store it.
    as_opened : tuple or None
        Inode, size and time of the file when it was opened, to detect changes.
    options : TableOptions
        What the user said about the table.
    dialect : Dialect or None
        Of a CSV.
    first_row : int
        Number of the first row of values in messages; in a CSV the names are row 1.
    """

    as_opened: tuple[int, ...] | None = None
    options = TableOptions()
    dialect: Dialect | None = None
    first_row = 1

    def __init__(self, source: str, names: Sequence[str], n_rows: int | None = None) -> None:
        self.source, self.names, self.n_rows = source, list(names), n_rows
        source = display_name(source)
        if not self.names:
            raise TableError(f"{source} is empty: it has no columns.")
        if len(self.names) > _MAX_COLUMNS:
            raise too_wide(source, f"{len(self.names):,} columns")
        repeated = sorted(name for name, count in Counter(self.names).items() if count > 1)
        if repeated:
            which = join_names([name or "(no name)" for name in repeated])
            raise TableError(f"{source} has several columns of the same name: {which}.")

    def read(self, columns: Sequence[str], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
        """Return all rows of some columns; for a CSV, types are inferred from all rows."""
        with self._checked():
            self._check_unpacked(in_memory=True)
            return self._read(list(columns), types or {})

    def batches(
        self,
        columns: Sequence[str],
        types: Mapping[str, pa.DataType],
        size: int,
        in_memory: bool = False,
    ) -> Iterator[pa.Table]:
        """Yield tables of `size` rows, the last one shorter; one without rows if there are none.

        Parameters
        ----------
        columns : sequence of str
        types : mapping from column to type
            Types of the columns of a CSV; other formats store types and ignore this.
        size : int
        in_memory : bool
            Whether the caller keeps all batches.
        """
        with self._checked():
            self._check_unpacked(in_memory)
            empty = True
            for table in _of_size(self._batches(list(columns), types), size):
                empty = False
                yield table
            if empty:
                yield pa.table({name: pa.array([], types.get(name, pa.string())) for name in columns})

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Raise a TableError for errors while reading, and if the file has changed meanwhile."""
        fault = None
        try:
            with readable_errors(self.source, self.names):
                yield
        except TableError as error:
            fault = error
        if signature(self.source) != self.as_opened:
            raise TableError(
                f"{self.source} was changed while it was being read, so its rows may be of two "
                "versions. Try again when no other program writes to it."
            ) from fault
        if fault is not None:
            raise fault

    @abstractmethod
    def _check_unpacked(self, in_memory: bool) -> None:
        """Refuse a small file that takes gigabytes of memory."""

    @abstractmethod
    def _read(self, columns: list[str], types: Mapping[str, pa.DataType]) -> pa.Table: ...

    @abstractmethod
    def _batches(self, columns: list[str], types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]: ...


def signature(source: str) -> tuple[int, ...] | None:
    """Return values that differ after a file was written to or replaced."""
    if source == STANDARD_STREAM or not Path(source).exists():
        return None
    status = os.stat(source)
    return status.st_ino, status.st_size, status.st_mtime_ns


def too_wide(source: str, what: str) -> TableError:
    return TableError(
        f"{source} has {what}; tables may have up to {_MAX_COLUMNS:,} columns. "
        "Remove columns that are not needed."
    )


def _of_size(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Cut and join batches to `size` rows each."""
    pending: list[pa.RecordBatch] = []
    n_pending = 0
    for batch in batches:
        pending.append(batch)
        n_pending += batch.num_rows
        if n_pending < size:
            continue
        table = pa.Table.from_batches(pending)
        full = n_pending - n_pending % size
        for start in range(0, full, size):
            yield table.slice(start, size)
        pending = table.slice(full).to_batches()
        n_pending -= full
    if n_pending:
        yield pa.Table.from_batches(pending)

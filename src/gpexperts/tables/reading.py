"""Read tables in batches of rows, in memory that does not grow with the file."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpexperts.exceptions import TableError
from gpexperts.tables.arrow import pa, pacsv, pq
from gpexperts.tables.csv_head import HEAD_BYTES, NOT_UTF8, names_in
from gpexperts.tables.formats import STANDARD_STREAM, format_of
from gpexperts.tables.messages import display_name, join_names, readable_errors
from gpexperts.tables.standard_input import standard_input
from gpexperts.tables.unpacked import arrow_bytes, check_unpacked, csv_bytes, parquet_bytes

__all__ = ["TableReader", "open_table"]

_MAX_COLUMNS = 100_000
_MAX_DESCRIPTION = {"parquet": 100_000_000, "arrow": 32_000_000}
"""Bytes of the description of columns, and in Parquet of row groups; parsed they take more memory."""
_CSV_BLOCK = 512 * 1024
"""Bytes; Arrow reads up to 32 blocks ahead, so small blocks save memory."""


class TableReader(ABC):
    """A table that is open for reading; it can be read once.

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
    """

    as_opened: tuple[int, ...] | None = None

    def __init__(self, source: str, names: Sequence[str], n_rows: int | None = None) -> None:
        self.source, self.names, self.n_rows = source, list(names), n_rows
        source = display_name(source)
        if not self.names:
            raise TableError(f"{source} is empty: it has no columns.")
        if len(self.names) > _MAX_COLUMNS:
            raise _too_wide(source, f"{len(self.names):,} columns")
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
        if _signature(self.source) != self.as_opened:
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


def open_table(path: str, format: str | None = None) -> TableReader:
    """Open a table; "-" is CSV on standard input."""
    kind = format_of(path, format)
    if path != STANDARD_STREAM and not Path(path).is_file():
        what = "does not exist"
        if Path(path).exists():
            what = (
                "is a folder, not a file"
                if Path(path).is_dir()
                else "is not a file; pipe it to standard input, as -"
            )
        raise TableError(f"{path} {what}.")
    before = _signature(path)
    with readable_errors(path):
        if kind.name == "csv":
            reader: TableReader = _CSV(path, kind.compression)
        else:
            _check_description(path, kind.name)
            reader = _Parquet(path) if kind.name == "parquet" else _Arrow(path)
    reader.as_opened = before
    return reader


def _signature(source: str) -> tuple[int, ...] | None:
    """Return values that differ after a file was written to or replaced."""
    if source == STANDARD_STREAM or not Path(source).exists():
        return None
    status = os.stat(source)
    return status.st_ino, status.st_size, status.st_mtime_ns


def _check_description(path: str, name: str) -> None:
    """Refuse a Parquet or Arrow file with a huge description of columns, before Arrow parses it."""
    with Path(path).open("rb") as file:
        start = file.read(8)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 10))
        end = file.read()
    if name == "parquet":
        length = end[-8:-4]
    elif end.endswith(b"ARROW1"):
        length = end[:4]
    else:  # the streaming format of Arrow; older writers omit the mark
        length = start[4:] if start.startswith(b"\xff" * 4) else start[:4]
    n_bytes = int.from_bytes(length, "little")
    most = _MAX_DESCRIPTION["parquet" if name == "parquet" else "arrow"]
    if most < n_bytes <= size:  # Arrow refuses a description longer than the file
        raise _too_wide(path, f"so many columns that describing them takes {n_bytes:,} bytes")


def _too_wide(source: str, what: str) -> TableError:
    return TableError(
        f"{source} has {what}; tables may have up to {_MAX_COLUMNS:,} columns. "
        "Remove columns that are not needed."
    )


class _CSV(TableReader):
    def __init__(self, path: str, compression: str | None) -> None:
        # No Python in the reader threads of Arrow: files of Arrow's own, decompressed by Arrow.
        raw: Any
        if path == STANDARD_STREAM:
            raw = standard_input()
        else:
            raw = pa.OSFile(path) if compression is None else pa.input_stream(path, compression=compression)
        self._compression = compression
        head = raw.read(HEAD_BYTES)
        super().__init__(path, names_in(head, display_name(path)))
        first_row = head.splitlines(keepends=True)[0]
        self._block = max(_CSV_BLOCK, 8 * len(first_row))  # no row may be longer
        if len(head) == len(first_row) and not head.endswith((b"\n", b"\r")):
            self._stream = pa.BufferReader(head + b"\n")  # a header alone is a table, too
        elif compression is None:
            raw.seek(0)
            self._stream = raw
        else:
            raw.close()
            self._stream = pa.input_stream(path, compression=compression)

    def _check_unpacked(self, in_memory: bool) -> None:
        if in_memory and self._compression is not None:  # batches are decompressed piece by piece
            check_unpacked(self.source, csv_bytes(self.source, self._compression))

    def _options(
        self, columns: list[str], types: Mapping[str, pa.DataType], threads: bool, **more: Any
    ) -> dict[str, Any]:
        return {
            "read_options": pacsv.ReadOptions(block_size=self._block, use_threads=threads),
            "convert_options": pacsv.ConvertOptions(include_columns=columns, column_types=types, **more),
        }

    def _read(self, columns: list[str], types: Mapping[str, pa.DataType]) -> pa.Table:
        table = pacsv.read_csv(self._stream, **self._options(columns, types, True, strings_can_be_null=True))
        not_utf8 = [field.name for field in table.schema if pa.types.is_binary(field.type)]
        if not_utf8:
            raise TableError(
                f"{display_name(self.source)} is not UTF-8 in the column {join_names(not_utf8)}. {NOT_UTF8}"
            )
        return table

    def _batches(self, columns: list[str], types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]:
        # Text is not parsed: a key "NA" must be copied as it is.
        # Threads would read ahead of the predictions, block after block, into memory.
        return pacsv.open_csv(self._stream, **self._options(columns, types, False))


class _Parquet(TableReader):
    def __init__(self, path: str) -> None:
        # With a buffer, Arrow reads a column of a row group in pieces.
        self._file = pq.ParquetFile(path, buffer_size=1024**2, pre_buffer=False)
        super().__init__(path, self._file.schema_arrow.names, self._file.metadata.num_rows)

    def _check_unpacked(self, in_memory: bool) -> None:
        check_unpacked(self.source, parquet_bytes(self._file.metadata, in_memory))

    def _read(self, columns: list[str], types: Mapping[str, pa.DataType]) -> pa.Table:
        return self._file.read(columns=columns)

    def _batches(self, columns: list[str], types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]:
        return self._file.iter_batches(batch_size=16_384, columns=columns)


class _Arrow(TableReader):
    """The file format (also of Feather), which begins with "ARROW1", or the streaming format."""

    def __init__(self, path: str) -> None:
        self._path = path
        with pa.OSFile(path) as file:
            self._is_file = file.read(6) == b"ARROW1"
        with self._open(None) as reader:
            super().__init__(path, reader.schema.names)

    def _check_unpacked(self, in_memory: bool) -> None:
        check_unpacked(self.source, arrow_bytes(self.source, self._is_file))  # a batch is unpacked whole

    def _open(self, columns: list[str] | None) -> Any:
        fields = None if columns is None else sorted(self.names.index(name) for name in columns)
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        opener = pa.ipc.open_file if self._is_file else pa.ipc.open_stream
        return opener(pa.OSFile(self._path), options=options)

    def _read(self, columns: list[str], types: Mapping[str, pa.DataType]) -> pa.Table:
        with self._open(columns) as reader:
            return reader.read_all().select(columns)

    def _batches(self, columns: list[str], types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]:
        with self._open(columns) as reader:
            if self._is_file:
                yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                yield from reader


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

"""Open tables of every format; they are read in batches, in memory that does not grow with the file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpexperts.exceptions import TableError
from gpexperts.tables.arrow import pa, pq
from gpexperts.tables.csv_reader import CSVReader
from gpexperts.tables.dialect import TableOptions
from gpexperts.tables.formats import STANDARD_STREAM, format_of
from gpexperts.tables.messages import readable_errors
from gpexperts.tables.reader import TableReader, signature, too_wide
from gpexperts.tables.unpacked import arrow_bytes, check_unpacked, most_bytes, parquet_bytes

__all__ = ["TableReader", "open_table"]

_MAX_DESCRIPTION = {"parquet": 100_000_000, "arrow": 32_000_000}
"""Bytes of the description of columns, and in Parquet of row groups; parsed they take more memory."""


def open_table(path: str, format: str | None = None, options: TableOptions | None = None) -> TableReader:
    """Open a table; "-" is CSV on standard input."""
    options = options or TableOptions()
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
    before = signature(path)
    with readable_errors(path):
        if kind.name == "csv":
            reader: TableReader = CSVReader(path, kind.compression, options)
        else:
            _check_description(path, kind.name)
            reader = _Parquet(path) if kind.name == "parquet" else _Arrow(path)
    reader.as_opened, reader.options = before, options
    return reader


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
        raise too_wide(path, f"so many columns that describing them takes {n_bytes:,} bytes")


class _Parquet(TableReader):
    def __init__(self, path: str) -> None:
        # With a buffer, Arrow reads a column of a row group in pieces.
        self._file = pq.ParquetFile(path, buffer_size=1024**2, pre_buffer=False)
        super().__init__(path, self._file.schema_arrow.names, self._file.metadata.num_rows)

    def _check_unpacked(self, in_memory: bool) -> None:
        check_unpacked(self.source, parquet_bytes(self._file.metadata, in_memory))

    def _read(self, columns: list[str], types: Mapping[str, pa.DataType]) -> pa.Table:
        return _valid(self._file.read(columns=columns))

    def _batches(self, columns: list[str], types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]:
        return map(_valid, self._file.iter_batches(batch_size=16_384, columns=columns))


class _Arrow(TableReader):
    """The file format (also of Feather), which begins with "ARROW1", or the streaming format."""

    def __init__(self, path: str) -> None:
        self._path = path
        with pa.OSFile(path) as file:
            self._is_file = file.read(6) == b"ARROW1"
        with self._open(None) as reader:
            super().__init__(path, reader.schema.names)

    def _check_unpacked(self, in_memory: bool) -> None:
        with pa.OSFile(self._path) as file:
            file.seek(8 if self._is_file else 0)  # the file format is the streaming format between two marks
            n_bytes = arrow_bytes(file, most_bytes(self.source))
        check_unpacked(self.source, n_bytes)  # a batch is unpacked whole

    def _open(self, columns: list[str] | None) -> Any:
        fields = None if columns is None else sorted(self.names.index(name) for name in columns)
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        opener = pa.ipc.open_file if self._is_file else pa.ipc.open_stream
        return opener(pa.OSFile(self._path), options=options)

    def _read(self, columns: list[str], types: Mapping[str, pa.DataType]) -> pa.Table:
        with self._open(columns) as reader:
            return _valid(reader.read_all()).select(columns)

    def _batches(self, columns: list[str], types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]:
        with self._open(columns) as reader:
            if self._is_file:
                yield from (_valid(reader.get_batch(i)) for i in range(reader.num_record_batches))
            else:
                yield from map(_valid, reader)


def _valid(rows: Any) -> Any:
    """Refuse damaged arrays: Arrow trusts lengths and offsets of a file, and reads outside of its memory."""
    rows.validate(full=True)
    return rows

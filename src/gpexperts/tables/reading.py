"""Tables in: batches of rows of the columns that are wanted, in memory that does not grow with the file."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpexperts.exceptions import TableError
from gpexperts.tables.arrow import pa, pacsv, pq
from gpexperts.tables.formats import STANDARD_STREAM, format_of
from gpexperts.tables.standard_input import standard_input

__all__ = ["TableReader", "open_table"]

_CSV_HEAD = 1024**2
_CSV_BLOCK = 512 * 1024
"""Arrow reads up to 32 blocks ahead of whoever takes them, so that small ones keep memory small."""


class TableReader(ABC):
    """A table that is open for reading, once.

    Attributes
    ----------
    source : str
        Its name, for messages.
    names : list of str
        Its columns, in their order.
    n_rows : int or None
        Where the format tells.
    """

    def __init__(self, source: str, names: Sequence[str], n_rows: int | None = None) -> None:
        self.source, self.names, self.n_rows = source, list(names), n_rows
        if not self.names:
            raise TableError(f"{source} is empty: it has no columns.")
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise TableError(f"{source} has several columns of the same name: {', '.join(twice)}.")

    def read(self, columns: Sequence[str], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
        """Return the whole of some columns; of CSV, types are found by looking at all rows."""
        with _explained(self.source):
            return self._read(list(columns), types or {})

    def batches(
        self, columns: Sequence[str], types: Mapping[str, pa.DataType], size: int
    ) -> Iterator[pa.Table]:
        """Yield tables of `size` rows, the last one shorter; one without rows if there are none.

        Parameters
        ----------
        columns : sequence of str
        types : mapping from column to type
            What text in a CSV stands for; formats that carry types ignore it.
        size : int
        """
        with _explained(self.source):
            empty = True
            for table in _of_size(self._batches(list(columns), types), size):
                empty = False
                yield table
            if empty:
                yield pa.table({name: pa.array([], types.get(name, pa.string())) for name in columns})

    @abstractmethod
    def _read(self, columns: list[str], types: Mapping[str, pa.DataType]) -> pa.Table: ...

    @abstractmethod
    def _batches(self, columns: list[str], types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]: ...


def open_table(path: str, format: str | None = None) -> TableReader:
    """Open a table; "-" is CSV on standard input."""
    kind = format_of(path, format)
    if path != STANDARD_STREAM and not Path(path).is_file():
        what = "is a folder, not a file" if Path(path).is_dir() else "does not exist"
        raise TableError(f"{path} {what}.")
    with _explained(path):
        if kind.name == "csv":
            return _CSV(path, kind.compression)
        return _Parquet(path) if kind.name == "parquet" else _Arrow(path)


@contextmanager
def _explained(source: str) -> Iterator[None]:
    """Name the table in what Arrow has to say about it."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, pa.ArrowKeyError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise TableError(f"{_named(source)} cannot be read: {lines[0]}") from error
    except OSError as error:
        raise TableError(f"{_named(source)} cannot be read: {error}") from error


def _named(source: str) -> str:
    return "Standard input" if source == STANDARD_STREAM else source


class _CSV(TableReader):
    def __init__(self, path: str, compression: str | None) -> None:
        is_file = path != STANDARD_STREAM
        raw: Any = pa.input_stream(path, compression=compression) if is_file else standard_input()
        head = raw.read(_CSV_HEAD)
        names = next(csv.reader(io.StringIO(head.decode("utf-8-sig", errors="replace"))), [])
        super().__init__(path, names)
        self._block = max(_CSV_BLOCK, 8 * len(head.split(b"\n", 1)[0]))  # no row may be longer
        # A file is opened anew, a stream is given back what was read of it.
        self._stream = (
            pa.input_stream(path, compression=compression)
            if is_file
            else pa.PythonFile(_Rest(head, raw), mode="r")
        )

    def _options(
        self, columns: list[str], types: Mapping[str, pa.DataType], threads: bool, **more: Any
    ) -> dict[str, Any]:
        return {
            "read_options": pacsv.ReadOptions(block_size=self._block, use_threads=threads),
            "convert_options": pacsv.ConvertOptions(include_columns=columns, column_types=types, **more),
        }

    def _read(self, columns: list[str], types: Mapping[str, pa.DataType]) -> pa.Table:
        return pacsv.read_csv(self._stream, **self._options(columns, types, True, strings_can_be_null=True))

    def _batches(self, columns: list[str], types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]:
        # Text stays what it is: a key that reads "NA" must come out as it went in.
        # Threads would read ahead of the predictions, block after block, into memory.
        return pacsv.open_csv(self._stream, **self._options(columns, types, False))


class _Rest:
    """A stream whose head has been read, given back from the beginning."""

    closed = False

    def __init__(self, head: bytes, stream: Any) -> None:
        self._head, self._stream = io.BytesIO(head), stream

    def read(self, n: int = -1) -> bytes:
        return self._head.read(n) or bytes(self._stream.read(n))

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._stream.close()


class _Parquet(TableReader):
    def __init__(self, path: str) -> None:
        # A buffer makes Arrow read a column of a row group piece by piece instead of all at once.
        self._file = pq.ParquetFile(path, buffer_size=1024**2, pre_buffer=False)
        super().__init__(path, self._file.schema_arrow.names, self._file.metadata.num_rows)

    def _read(self, columns: list[str], types: Mapping[str, pa.DataType]) -> pa.Table:
        return self._file.read(columns=columns)

    def _batches(self, columns: list[str], types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]:
        return self._file.iter_batches(batch_size=16_384, columns=columns)


class _Arrow(TableReader):
    """The file format (also Feather's), which begins with its name, or the streaming format."""

    def __init__(self, path: str) -> None:
        self._path = path
        with pa.OSFile(path) as file:
            self._is_file = file.read(6) == b"ARROW1"
        with self._open(None) as reader:
            super().__init__(path, reader.schema.names)

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
    waiting: list[pa.RecordBatch] = []
    n_waiting = 0
    for batch in batches:
        waiting.append(batch)
        n_waiting += batch.num_rows
        if n_waiting < size:
            continue
        table = pa.Table.from_batches(waiting)
        full = n_waiting - n_waiting % size
        for start in range(0, full, size):
            yield table.slice(start, size)
        waiting = table.slice(full).to_batches()
        n_waiting -= full
    if n_waiting:
        yield pa.Table.from_batches(waiting)

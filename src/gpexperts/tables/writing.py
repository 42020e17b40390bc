"""Write tables in batches, to a file that appears complete or not at all, or to standard output."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO

from gpexperts.files import appearing
from gpexperts.tables.arrow import pa, pacsv, pc, pq
from gpexperts.tables.formats import STANDARD_STREAM, Format, format_of
from gpexperts.text import printable

__all__ = ["writing"]

Write = Callable[[pa.Table], None]


@contextmanager
def writing(path: str, format: str | None = None) -> Iterator[Write]:
    """Yield a function that writes one table after the other, all of the same schema.

    Lists become text in a CSV, their items separated by spaces.
    """
    kind = format_of(path, format)
    with ExitStack() as stack:
        if path == STANDARD_STREAM:
            place: Any = _Escaping(sys.stdout) if sys.stdout.isatty() else sys.stdout.buffer
            stack.callback(place.flush)
        else:
            place = str(stack.enter_context(appearing(path)))
        writer: Any = None

        def write(table: pa.Table) -> None:
            nonlocal writer
            if kind.name == "csv":
                table = _without_lists(table)
            if writer is None:
                writer = stack.enter_context(_writer(place, kind, table.schema))
            writer.write_table(table)

        yield write


class _Escaping(io.RawIOBase):
    """Writes UTF-8 to a terminal, without characters that steer it."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        text = self._decoder.decode(bytes(data))
        self._terminal.write("\n".join(map(printable, text.split("\n"))))
        return len(data)

    def flush(self) -> None:
        self._terminal.flush()


@contextmanager
def _writer(place: Any, kind: Format, schema: pa.Schema) -> Iterator[Any]:
    if kind.name == "parquet":
        with pq.ParquetWriter(place, schema) as writer:
            yield writer
    elif kind.name == "csv":
        stream = place if kind.compression is None else pa.output_stream(place, compression=kind.compression)
        with pacsv.CSVWriter(stream, schema) as writer:
            yield writer
        if kind.compression is not None:
            stream.close()
    else:
        with pa.OSFile(place, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            yield writer


def _without_lists(table: pa.Table) -> pa.Table:
    for i, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            column = table.column(i)
            items = pc.cast(column, pa.list_(pa.string()))
            table = table.set_column(i, field.name, pc.binary_join(items, " "))
    return table

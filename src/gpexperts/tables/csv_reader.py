"""Read CSV, in the dialect that is given or guessed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpexperts.exceptions import TableError
from gpexperts.tables.arrow import pa, pacsv
from gpexperts.tables.dialect import HEAD_BYTES, NA_TEXTS, TableOptions, encoding_of, read_head
from gpexperts.tables.formats import STANDARD_STREAM
from gpexperts.tables.messages import NOT_UTF8, display_name, join_names
from gpexperts.tables.reader import TableReader
from gpexperts.tables.standard_input import as_utf8, standard_input
from gpexperts.tables.unpacked import check_unpacked, csv_bytes

__all__ = ["CSVReader"]

_CSV_BLOCK = 512 * 1024
"""Bytes; Arrow reads up to 32 blocks ahead, so small blocks save memory."""


class CSVReader(TableReader):
    """CSV, also compressed or on standard input."""

    first_row = 2

    def __init__(self, path: str, compression: str | None, options: TableOptions) -> None:
        # No Python in the reader threads of Arrow: files of Arrow's own, decompressed by Arrow.
        source = display_name(path)
        raw: Any = standard_input() if path == STANDARD_STREAM else None
        self._compression = compression

        def start() -> Any:
            if compression is not None:
                return pa.input_stream(path, compression=compression)
            file = pa.OSFile(path) if raw is None else raw
            file.seek(0)
            return file

        stream = start()
        head = stream.read(HEAD_BYTES)
        encoding = encoding_of(head, options.encoding, source)
        if encoding != "utf-8":
            if compression is not None:  # it is unpacked to a file
                check_unpacked(path, csv_bytes(path, compression))
            raw, compression = as_utf8(start(), encoding, source), None
            head = raw.read(HEAD_BYTES)
        lines = head.splitlines(keepends=True)
        if len(head) == HEAD_BYTES and len(lines) == 1:
            raise TableError(
                f"The first row of {source} is longer than {HEAD_BYTES:,} bytes; a CSV begins with the names "
                "of its columns, in one row."
            )
        # Whole rows only: the head may end inside a character.
        text = b"".join(lines[:-1] if len(head) == HEAD_BYTES else lines).decode("utf-8-sig", "replace")
        seen = read_head(text, source, options, encoding)
        super().__init__(path, seen.names)
        self.dialect = seen.dialect
        self._codes = [name for i, name in enumerate(seen.names) if _are_codes(seen.rows, i)]
        self._newlines = any("\n" in field for row in seen.rows for field in row)
        self._block = max(_CSV_BLOCK, 8 * len(lines[0]))  # no row may be longer
        self._start = start
        if len(head) == len(lines[0]) and not head.endswith((b"\n", b"\r")):
            self._start = lambda: pa.BufferReader(head + b"\n")  # a header alone is a table, too

    def _check_unpacked(self, in_memory: bool) -> None:
        if in_memory and self._compression is not None:  # batches are decompressed piece by piece
            check_unpacked(self.source, csv_bytes(self.source, self._compression))

    def _options(
        self, columns: list[str], types: Mapping[str, pa.DataType], threads: bool, **more: Any
    ) -> dict[str, Any]:
        assert self.dialect is not None
        return {
            "read_options": pacsv.ReadOptions(block_size=self._block, use_threads=threads),
            "parse_options": pacsv.ParseOptions(
                delimiter=self.dialect.sep, newlines_in_values=self._newlines
            ),
            "convert_options": pacsv.ConvertOptions(include_columns=columns, column_types=types, **more),
        }

    def _read(self, columns: list[str], types: Mapping[str, pa.DataType]) -> pa.Table:
        assert self.dialect is not None
        # Codes such as 007 would lose their zeros.
        types = {**{name: pa.string() for name in self._codes if name in columns}, **types}
        options = self._options(
            columns, types, True, strings_can_be_null=True, decimal_point=self.dialect.decimal,
            null_values=[*NA_TEXTS, *self.options.na_values],
        )  # fmt: skip
        table = pacsv.read_csv(self._start(), **options)
        not_utf8 = [field.name for field in table.schema if pa.types.is_binary(field.type)]
        if not_utf8:
            raise TableError(
                f"{display_name(self.source)} is not UTF-8 in the column {join_names(not_utf8)}. {NOT_UTF8}"
            )
        return table

    def _batches(self, columns: list[str], types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]:
        # Text is not parsed: a key "NA" must be copied as it is.
        # Threads would read ahead of the predictions, block after block, into memory.
        types = {**dict.fromkeys(columns, pa.string()), **types}
        return pacsv.open_csv(self._start(), **self._options(columns, types, False))


def _are_codes(rows: Sequence[Sequence[str]], column: int) -> bool:
    """Whether a column holds digits, some with a leading zero, such as 01234."""
    fields = [row[column] for row in rows if len(row) > column and row[column]]
    return all(map(str.isdigit, fields)) and any(f[0] == "0" and len(f) > 1 for f in fields)

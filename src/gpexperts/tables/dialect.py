"""The dialect of a CSV: its encoding, separator and decimal mark, given or guessed from its head."""

from __future__ import annotations

import codecs
import csv
import io
from dataclasses import dataclass
from typing import NamedTuple

from gpexperts.exceptions import TableError
from gpexperts.tables.arrow import pa, pacsv
from gpexperts.tables.numbers import PLAIN, NumberFormat, decimal_mark, number_format

__all__ = ["HEAD_BYTES", "NA_TEXTS", "Dialect", "Head", "TableOptions", "encoding_of", "read_head"]

HEAD_BYTES = 1024**2
"""The first row must end within this, and the dialect is guessed from it."""
_SAMPLE_ROWS = 200
_SEPARATORS = ",;\t|"
_NOT_GIVEN = ("None", "none", "n.a.", "k.A.", "k. A.", "?", "-", "--", "–", "—")
NA_TEXTS = (*pacsv.ConvertOptions().null_values, *_NOT_GIVEN)
"""Texts that stand for a missing value."""
_MAX_NA_BYTES = 10_000
"""Of further texts: Arrow has at most 32,767 nodes for their letters, and crashes when there are more."""
_MARKS = {  # longer marks first: the mark of UTF-32 begins with that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip


@dataclass(frozen=True)
class TableOptions:
    """What a user said about a table; None is guessed."""

    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    na_values: tuple[str, ...] = ()
    """Further texts that stand for a missing value."""

    def __post_init__(self) -> None:
        if self.sep is not None and len(self.sep) != 1:
            raise TableError(f"--sep is one character, such as ; or a tab ('\\t'); got {self.sep!r}.")
        if self.decimal not in (None, ".", ","):
            raise TableError(f"--decimal is . or ,; got {self.decimal!r}.")
        if self.thousands is not None and (len(self.thousands) != 1 or self.thousands.isalnum()):
            raise TableError(
                f"--thousands is one character, such as . , ' or a blank; got {self.thousands!r}."
            )
        if self.thousands is not None and self.thousands == self.decimal:
            raise TableError(f"--thousands and --decimal are both {self.decimal!r}; they must differ.")
        n_bytes = sum(len(text.encode(errors="surrogatepass")) for text in self.na_values)
        if n_bytes > _MAX_NA_BYTES:
            raise TableError(
                f"--na-values: {len(self.na_values):,} values of {n_bytes:,} bytes; together they may have "
                f"up to {_MAX_NA_BYTES:,} bytes."
            )
        if self.encoding is not None:
            try:
                "a".encode(self.encoding)  # a codec that is not of text, such as zip, is a LookupError, too
            except (LookupError, ValueError) as error:
                raise TableError(
                    f"--encoding {self.encoding!r} is unknown; try utf-8, cp1252, latin-1 or utf-16."
                ) from error

    def formats(self, decimal: str | None = None) -> list[NumberFormat]:
        """Return the formats of numbers to try first, for a table with this decimal mark."""
        if self.thousands is not None:
            return [NumberFormat(self.decimal or ("," if self.thousands == "." else "."), self.thousands)]
        mark = self.decimal or decimal
        if mark is None or (mark == "." and self.decimal is None):
            return []
        return [NumberFormat(",", ".")] if mark == "," else [PLAIN, NumberFormat(".", ",")]


class Dialect(NamedTuple):
    """How a CSV is written."""

    sep: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    shows_decimal: bool = False
    """Whether the head holds a number that shows the decimal mark."""


class Head(NamedTuple):
    """The head of a CSV."""

    dialect: Dialect
    names: list[str]
    """The first row."""
    rows: list[list[str]]
    """Some of the following rows."""


def encoding_of(head: bytes, given: str | None, source: str) -> str:
    """Return the encoding of a text: as given, by its mark, UTF-8, or Windows-1252 if it is not UTF-8."""
    if given is not None:
        return codecs.lookup(given).name
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    if b"\0" in head:
        raise TableError(
            f"{source} is not text: it holds NUL bytes, as binary files and UTF-16 do. For Parquet or Arrow "
            "give --format; for UTF-16 without a mark give --encoding utf-16-le."
        )
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < HEAD_BYTES)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def read_head(text: str, source: str, options: TableOptions, encoding: str = "utf-8") -> Head:
    """Return the names of a CSV, and its dialect.

    Parameters
    ----------
    text : str
        The head, of whole rows.
    source : str
        Name of the table in messages.
    options : TableOptions
    encoding : str
    """
    sep = options.sep or _separator(text)
    rows = _rows(text, sep, source)
    if not rows:
        return Head(Dialect(sep, encoding=encoding), [], [])
    names, *others = rows
    shown = decimal_mark([field for row in others for field in row if field])
    given = options.decimal or (options.formats()[0].decimal if options.thousands else None)
    decimal = given or shown or "."
    return Head(Dialect(sep, decimal, encoding, (given or shown) is not None), names, others)


def _rows(text: str, sep: str, source: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=None), delimiter=sep)
    rows: list[list[str]] = []
    try:
        for row in reader:
            if row or not rows:
                rows.append(row)
            if len(rows) > _SAMPLE_ROWS:
                break
    except csv.Error as error:
        if not rows:
            raise TableError(f"The first row of {source} cannot be read: {error}.") from error
    return rows


def _separator(text: str) -> str:
    """Return the separator that gives every row the same number of fields, and most of them."""
    best, best_score = ",", (0.0, 0, 0.0)
    for sep in _SEPARATORS:
        try:
            rows = _rows(text, sep, "")
        except TableError:  # a single field that is too long
            continue
        width = len(rows[0]) if rows else 0
        if width < 2:
            continue
        same = sum(len(row) == width for row in rows) / len(rows)
        fields = [field for row in rows[1:] for field in row if field]
        score = (round(same, 1), width, _numeric_share(fields))
        if score > best_score:
            best, best_score = sep, score
    return best


def _numeric_share(fields: list[str]) -> float:
    return number_format(pa.chunked_array([pa.array(fields, pa.string())]))[1] if fields else 0.0

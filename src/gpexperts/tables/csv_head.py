"""The head of a CSV: whether it is UTF-8 text, and the names of its columns."""

from __future__ import annotations

import codecs
import csv
import io

from gpexperts.exceptions import TableError

__all__ = ["HEAD_BYTES", "NOT_UTF8", "names_in"]

HEAD_BYTES = 1024**2
"""The first row must end within this."""

NOT_UTF8 = "Save it as UTF-8: `iconv -f LATIN1 -t UTF-8` does it, and spreadsheets offer it when saving."

_MARKS = {  # longer marks first: the mark of UTF-32 begins with that of UTF-16
    codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16",
}  # fmt: skip


def names_in(head: bytes, source: str) -> list[str]:
    """Return the names in the first row of a CSV.

    Parameters
    ----------
    head : bytes
        The first `HEAD_BYTES` bytes of the file.
    source : str
        Name of the table in messages.
    """
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            raise TableError(
                f"{source} is {encoding}, and a CSV is read as UTF-8: "
                f"`iconv -f {encoding} -t UTF-8` converts it."
            )
    if b"\0" in head:
        raise TableError(
            f"{source} is not text: it holds NUL bytes, as binary files and UTF-16 do. For Parquet or Arrow "
            "give --format; UTF-16 is converted by `iconv -f UTF-16 -t UTF-8`."
        )
    lines = head.splitlines(keepends=True)
    if len(head) == HEAD_BYTES and len(lines) == 1:
        raise TableError(
            f"The first row of {source} is longer than {HEAD_BYTES:,} bytes; a CSV begins with the names of "
            "its columns, in one row."
        )
    try:
        # Whole rows only: the head may end inside a character.
        text = b"".join(lines[:-1] if len(head) == HEAD_BYTES else lines).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = head[: error.start].count(b"\n") + 1
        raise TableError(f"{source} is not UTF-8: row {row} holds other bytes. {NOT_UTF8}") from error
    try:
        return next(csv.reader(io.StringIO(text, newline=None)), [])
    except csv.Error as error:
        raise TableError(f"The first row of {source} cannot be read: {error}.") from error

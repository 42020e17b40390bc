"""How errors of tables are told: by the table's name, and by the column's where there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gpexperts.exceptions import TableError
from gpexperts.tables.arrow import pa
from gpexperts.tables.csv_head import NOT_UTF8
from gpexperts.tables.formats import STANDARD_STREAM
from gpexperts.tables.numeric_text import is_with_commas

__all__ = ["explained", "listed", "named"]


def named(source: str) -> str:
    """Return what a table is called in a message."""
    return "Standard input" if source == STANDARD_STREAM else source


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return names for a message: not too many, none too long."""
    shown = ", ".join(name if len(name) <= 60 else f"{name[:60]}…" for name in map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


@contextmanager
def explained(source: str, names: Sequence[str] = ()) -> Iterator[None]:
    """Turn what Arrow has to say about a table into a TableError.

    Parameters
    ----------
    source : str
        The table.
    names : sequence of str
        Its columns, of which Arrow knows the numbers.
    """
    try:
        yield
    except TableError:
        raise
    except (pa.ArrowException, OSError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise TableError(f"{named(source)} cannot be read: {_in_words(lines[0], names)}") from error


def _in_words(message: str, names: Sequence[str]) -> str:
    if "straddl" in message:
        return "a row is too long; perhaps a quotation mark is never closed."
    place = re.match(r"In CSV column #(\d+): (?:Row #(\d+): )?", message)
    if place is None or int(place[1]) >= len(names):
        return message
    row = f", row {place[2]}" if place[2] else ""
    where = f"column {names[int(place[1])]}{row}"
    if "invalid UTF8" in message:
        return f"{where} is not UTF-8. {NOT_UTF8}"
    found = re.search(r"conversion error to \w+: (invalid value '(.*)')", message)
    if found is None:
        return f"{where}: {message[place.end() :]}"
    hint = " Write 1234.5, without commas." if is_with_commas(found[2]) else ""
    return f"{where}: {found[1]}, where the model takes numbers.{hint}"

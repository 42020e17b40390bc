"""Error messages about tables, which name the table and the column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gpexperts.exceptions import TableError
from gpexperts.tables.arrow import pa
from gpexperts.tables.formats import STANDARD_STREAM

__all__ = ["NOT_UTF8", "display_name", "join_names", "readable_errors"]

NOT_UTF8 = "Give its encoding, such as --encoding cp1252."


def display_name(source: str) -> str:
    """Return the name of a table for a message."""
    return "Standard input" if source == STANDARD_STREAM else source


def join_names(names: Sequence[str], most: int = 8) -> str:
    """Return names for a message, abbreviated where there are many or they are long."""
    shown = ", ".join(name if len(name) <= 60 else f"{name[:60]}…" for name in map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


@contextmanager
def readable_errors(source: str, names: Sequence[str] = ()) -> Iterator[None]:
    """Raise a TableError in place of an error of Arrow.

    Parameters
    ----------
    source : str
        The table.
    names : sequence of str
        Its columns; Arrow gives only their numbers.
    """
    try:
        yield
    except TableError:
        raise
    except UnicodeDecodeError as error:
        raise TableError(f"{display_name(source)} cannot be read: names in it are not UTF-8.") from error
    except (pa.ArrowException, OSError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise TableError(f"{display_name(source)} cannot be read: {_rewritten(lines[0], names)}") from error


def _rewritten(message: str, names: Sequence[str]) -> str:
    if "straddl" in message:
        return "a row is too long; perhaps a quotation mark is not closed."
    place = re.match(r"In CSV column #(\d+): (?:Row #(\d+): )?", message)
    if place is None or int(place[1]) >= len(names):
        return message
    row = f", row {place[2]}" if place[2] else ""
    where = f"column {names[int(place[1])]}{row}"
    if "invalid UTF8" in message:
        return f"{where} is not UTF-8. {NOT_UTF8}"
    return f"{where}: {message[place.end() :]}"

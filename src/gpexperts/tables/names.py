"""Names of columns on the command line."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence

from gpexperts.exceptions import TableError
from gpexperts.tables.messages import display_name, join_names

__all__ = ["quoted", "require_columns", "split_names"]


def split_names(given: Iterable[str], columns: Sequence[str]) -> list[str]:
    """Return the names that options hold.

    Each text is the name of a column, or names separated by commas. A name that itself holds a comma may
    stand alone, or in quotation marks: ``--drop '"net, kg",id'``.
    """
    known, names = set(columns), []
    for text in given:
        if text in known or text.strip() in known:
            names.append(text if text in known else text.strip())
            continue
        parts = next(csv.reader([text], skipinitialspace=True), [])
        names += [part if part in known else part.strip() for part in parts if part.strip() or part in known]
    return list(dict.fromkeys(names))


def quoted(name: str) -> str:
    """Return a name so that `split_names` reads it as one."""
    if "," not in name and '"' not in name and name == name.strip():
        return name
    return '"' + name.replace('"', '""') + '"'


def require_columns(names: Sequence[str], wanted: Sequence[str], source: str) -> None:
    """Raise an error that lists missing columns and those that the table has."""
    known = set(names)
    lacking = list(dict.fromkeys(name for name in wanted if name not in known))
    if lacking:
        hint = "Column names must match exactly; their order does not matter."
        if len(names) == 1:
            hint = "If its columns are separated by another character, give it with --sep."
        elif any("," in name for name in known):
            hint += " A name that holds a comma is given in quotation marks, or as an option of its own."
        raise TableError(
            f"{display_name(source)} has no column {join_names(lacking)}; "
            f"its columns are {join_names(names, most=30)}. {hint}"
        )

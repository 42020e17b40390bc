"""The format of a table: by the ending of its name, or as the user gives it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gpexperts.exceptions import TableError

__all__ = ["FORMATS", "STANDARD_STREAM", "Format", "format_of"]

STANDARD_STREAM = "-"
"""Stands for standard input or output, always CSV."""

FORMATS = ("csv", "parquet", "feather", "arrow")

_ENDINGS = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "arrow",
    ".ipc": "arrow",
}
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


class Format(NamedTuple):
    """Format of a table."""

    name: str
    """One of `FORMATS`; feather and arrow are the same format."""
    compression: str | None = None
    """Of CSV: "gzip", "zstd", "bz2" or None."""


def format_of(path: str, forced: str | None = None) -> Format:
    """Return the format of a file.

    Parameters
    ----------
    path : str
        The ending determines the format; "-" is CSV.
    forced : str or None
        One of `FORMATS`, instead of the ending.
    """
    if forced is not None and forced not in FORMATS:
        raise TableError(f"Unknown format {forced!r}; known are {', '.join(FORMATS)}.")
    if path == STANDARD_STREAM:
        if forced not in (None, "csv"):
            raise TableError(f"Standard input and output are CSV, not {forced}; give a file instead of '-'.")
        return Format("csv")
    endings = [ending.lower() for ending in Path(path).suffixes]
    compression = _COMPRESSIONS.get(endings[-1]) if endings else None
    inner = endings[:-1] if compression else endings
    name = forced or (_ENDINGS.get(inner[-1]) if inner else None)
    if name is None:
        raise TableError(
            f"The format of {path} cannot be determined from its name. Known endings are "
            f"{', '.join(_ENDINGS)} (.csv also with .gz, .zst or .bz2); or give --format."
        )
    if compression and name != "csv":
        raise TableError(
            f"{path}: only CSV may be compressed as {endings[-1]}; {name} has its own compression."
        )
    return Format(name, compression)

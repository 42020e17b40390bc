"""The types of columns of a CSV that are copied to the output."""

from __future__ import annotations

from collections.abc import Sequence

from gpexperts.tables.arrow import pa, pc
from gpexperts.tables.reader import TableReader

__all__ = ["kept_types"]

_PATTERNS = {
    pa.int64(): r"^(-?[1-9]\d{0,17}|0)$",  # a code such as 007 stays text
    pa.float64(): r"^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d{1,2})?$",
    pa.bool_(): r"^(true|false)$",
    pa.date32(): r"^\d{4}-\d\d-\d\d$",
    pa.timestamp("s"): r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?$",
}
_BATCH = 65_536


def kept_types(reader: TableReader, names: Sequence[str]) -> dict[str, pa.DataType]:
    """Return the narrowest type that holds every value of each column, so that it can be written back.

    A CSV is read once more for this, in batches; an empty field is a missing value, and any other text makes
    the column text. Other formats have types of their own.
    """
    if reader.dialect is None or not names:
        return {}
    candidates = {name: list(_PATTERNS) for name in names}
    has_values = set()
    for table in reader.batches(names, dict.fromkeys(names, pa.string()), _BATCH):
        for name in names:
            texts = table.column(name)
            texts = texts.filter(pc.not_equal(texts, ""))
            if len(texts) == 0:
                continue
            has_values.add(name)
            candidates[name] = [type_ for type_ in candidates[name] if _holds(type_, texts)]
    return {
        name: types[0] if types and name in has_values else pa.string() for name, types in candidates.items()
    }


def _holds(type_: pa.DataType, texts: pa.ChunkedArray) -> bool:
    if not pc.all(pc.match_substring_regex(texts, _PATTERNS[type_])).as_py():
        return False
    try:
        texts.cast(type_)
    except pa.ArrowInvalid:  # 2024-02-30
        return False
    return True

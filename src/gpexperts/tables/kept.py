"""The types of columns of a CSV that are copied to the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def kept_types(
    reader: TableReader, names: Sequence[str], inputs: Mapping[str, str] | None = None
) -> dict[str, pa.DataType]:
    """Return the narrowest type that holds every value of each column, so that it can be written back.

    A CSV is read once more for this, in batches; an empty field is a missing value, and any other text makes
    the column text. Other formats have types of their own.

    Parameters
    ----------
    reader : TableReader
    names : sequence of str
    inputs : mapping of str, optional
        Kinds of columns that are also inputs. They stay text where their values as inputs could change.
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
    found = {
        name: types[0] if types and name in has_values else pa.string() for name, types in candidates.items()
    }
    for name, kind in (inputs or {}).items():
        # 1.234 may be 1234, and a level 1.50 is not 1.5.
        exact = found.get(name) in (pa.int64(), pa.bool_())
        if name in found and not exact and (kind == "category" or reader.dialect.decimal != "."):
            found[name] = pa.string()
    return found


def _holds(type_: pa.DataType, texts: pa.ChunkedArray) -> bool:
    if not pc.all(pc.match_substring_regex(texts, _PATTERNS[type_])).as_py():
        return False
    try:
        texts.cast(type_)
    except pa.ArrowInvalid:  # 2024-02-30
        return False
    return True

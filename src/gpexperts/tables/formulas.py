"""Text that a spreadsheet would run as a formula when it opens a CSV."""

from __future__ import annotations

from typing import Any

from gpexperts.tables.arrow import pa, pc

__all__ = ["quoted_name", "quoted_texts"]

_FORMULA = r"^\s*[=+\-@]|^[\t\r]"
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def quoted_texts(column: Any) -> Any:
    """Return an array with an apostrophe in front of each formula; numbers such as -1.5 are none."""
    type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(type_) or pa.types.is_large_string(type_)):
        return column
    texts = column.cast(pa.string())
    formula, number = (pc.match_substring_regex(texts, pattern) for pattern in (_FORMULA, _NUMBER))
    return pc.if_else(pc.and_not(formula, number), pc.binary_join_element_wise("'", texts, ""), texts)


def quoted_name(name: str) -> str:
    """Return the name of a column, quoted like its texts."""
    return str(quoted_texts(pa.array([name], pa.string()))[0].as_py())

"""Text that a spreadsheet would run as a formula when it opens a CSV."""

from __future__ import annotations

from gpexperts.tables.arrow import pa, pc
from gpexperts.tables.encoding import column_kind

__all__ = ["quoted_name", "quoted_texts"]

_FORMULA = r"^\s*[=+\-@]|^[\t\r]"
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def quoted_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with an apostrophe in front of each formula; numbers such as -1.5 are none."""
    if column_kind(column.type) != "text":
        return column
    texts = column.cast(pa.string())
    formula, number = (pc.match_substring_regex(texts, pattern) for pattern in (_FORMULA, _NUMBER))
    return pc.if_else(pc.and_not(formula, number), pc.binary_join_element_wise("'", texts, ""), texts)


def quoted_name(name: str) -> str:
    """Return the name of a column, quoted like its texts."""
    return str(quoted_texts(pa.chunked_array([[name]], pa.string()))[0].as_py())

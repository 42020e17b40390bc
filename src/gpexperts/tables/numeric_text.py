"""Columns of numbers that were read as text, because of commas or of single words."""

from __future__ import annotations

from gpexperts.tables.arrow import pa, pc

__all__ = ["has_commas", "numeric_text_problem"]

_PLAIN = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_COMMAS = r"^\s*[+-]?\d[\d.]*,\d[\d,]*(\.\d+)?\s*$"


def numeric_text_problem(texts: pa.ChunkedArray) -> str | None:
    """Describe why a column of numbers was read as text; None if less than half of it are numbers.

    One-hot encoding would make one input per number and lose their order.
    """
    texts = texts.drop_null()
    plain, commas = (pc.match_substring_regex(texts, pattern) for pattern in (_PLAIN, _COMMAS))
    number = pc.or_(plain, commas)
    if len(texts) == 0 or pc.mean(number).as_py() < 0.5:
        return None
    if pc.any(commas).as_py():
        written = texts.filter(commas)[0].as_py()
        return f"holds numbers written with commas, such as {written!r}; write 1234.5 for them"
    words = texts.filter(pc.invert(number))
    odd = f"{len(words)} of {len(texts)} values that are not"
    return f"holds numbers, but also {odd}, such as {words[0].as_py()!r}"


def has_commas(text: str) -> bool:
    """Whether a number is written with commas."""
    return bool(pc.match_substring_regex(pa.scalar(text), _COMMAS).as_py())

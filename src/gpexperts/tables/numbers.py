"""Numbers written as text: decimal commas, thousands separators, percent and currency signs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpexperts.tables.arrow import pa, pc

__all__ = ["PLAIN", "NumberFormat", "decimal_mark", "number_format", "parse_numbers"]

_SAMPLE = 20_000
"""Values that decide the format of a column."""
_SPACES = "[\u00a0\u202f\u2009]"
_SIGNS = "[$€£¥%‰]"


class NumberFormat(NamedTuple):
    """How the numbers of a column are written."""

    decimal: str = "."
    thousands: str = ""
    """The separator of thousands; "" if there is none."""

    @property
    def pattern(self) -> str:
        """A regular expression of the whole text, without signs such as %."""
        digits, mark = r"\d+", _escaped(self.decimal)
        if self.thousands:
            group = _escaped(self.thousands)
            digits = rf"(?:[1-9]\d{{0,2}}(?:{group}\d{{2,3}})*{group}\d{{3}}|\d+)"
        return rf"^[+-]?(?:{digits}(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?$"

    def __str__(self) -> str:
        return f"1{self.thousands}234{self.decimal}5"


PLAIN = NumberFormat()
_KNOWN = (
    PLAIN, NumberFormat(".", ","), NumberFormat(",", "."), NumberFormat(".", " "), NumberFormat(",", " "),
    NumberFormat(".", "'"), NumberFormat(",", "'"), NumberFormat(".", "’"),
)  # fmt: skip


def number_format(
    texts: pa.ChunkedArray, preferred: Sequence[NumberFormat] = ()
) -> tuple[NumberFormat, float]:
    """Return the format that most of the texts have, and their share among texts that are not missing.

    Of formats with equal shares, preferred ones come first. "1,234" is then 1234 in a table with decimal
    points, and 1.234 in a table with decimal commas.
    """
    texts = _stripped(texts.drop_null().slice(0, _SAMPLE))
    if len(texts) == 0:
        return (preferred[0] if preferred else PLAIN), 0.0
    shares: dict[NumberFormat, float] = {}
    for form in (*preferred, *_KNOWN):
        if form not in shares:
            shares[form] = float(pc.mean(pc.match_substring_regex(texts, form.pattern)).as_py())
            if shares[form] == 1.0:
                break
    best = max(shares, key=shares.__getitem__)  # the first of equals
    return best, shares[best]


def parse_numbers(texts: pa.ChunkedArray, form: NumberFormat = PLAIN) -> pa.ChunkedArray:
    """Return float64; null where a text is not a number in this format. "12 %" is 12."""
    if form == PLAIN:
        try:
            return texts.cast(pa.float64())
        except pa.ArrowInvalid:
            pass  # some texts need the expressions below
    texts = _stripped(texts)
    texts = pc.if_else(pc.match_substring_regex(texts, form.pattern), texts, pa.scalar(None, texts.type))
    if form.thousands:
        texts = pc.replace_substring(texts, form.thousands, "")
    if form.decimal != ".":
        texts = pc.replace_substring(texts, form.decimal, ".")
    # Arrow reads neither "+1" nor "1."
    texts = pc.replace_substring_regex(texts, r"^\+", "")
    return pc.replace_substring_regex(texts, r"\.($|[eE])", r"\1").cast(pa.float64())


def decimal_mark(fields: Sequence[str]) -> str | None:
    """Return the decimal mark of the fields of a table, or None if no field shows it.

    "1.234" and "1,234" do not show it: they may be written with thousands separators.
    """
    texts = _stripped(pa.array(fields, pa.string()))
    votes = {}
    for mark, other in ((".", r"[,' ]"), (",", r"[.' ]")):
        group = _escaped(mark)
        number = rf"^[+-]?(\d+|\d{{1,3}}({other}\d{{3}})+)?{group}\d+([eE][+-]?\d+)?$"
        thousands = rf"^[+-]?[1-9]\d{{0,2}}({group}\d{{3}})+$"
        shown = pc.and_not(
            pc.match_substring_regex(texts, number), pc.match_substring_regex(texts, thousands)
        )
        votes[mark] = pc.sum(shown).as_py() or 0
    if not any(votes.values()):
        return None
    return "," if votes[","] > votes["."] else "."


def _stripped(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Remove blanks and signs around numbers, and make minus signs and blanks inside those of ASCII."""
    texts = pc.replace_substring_regex(texts, _SPACES, " ")
    texts = pc.replace_substring(texts, "\u2212", "-")
    texts = pc.replace_substring_regex(texts, rf"^\s*([+-]?)\s*{_SIGNS}\s*", r"\1")
    texts = pc.replace_substring_regex(texts, rf"\s*{_SIGNS}\s*$", "")
    return pc.utf8_trim_whitespace(texts)


def _escaped(mark: str) -> str:
    return rf"\{mark}" if mark in ".^$*+?()[]{}|\\" else mark

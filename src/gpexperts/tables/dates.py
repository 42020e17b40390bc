"""Dates: written as text, or stored in other units."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

import numpy as np

from gpexperts.tables.arrow import pa, pc

__all__ = ["ISO", "DateFormat", "date_format", "parse_dates", "shown_value", "stored_dates"]

ISO = "iso"
"""2024-01-31, also with a time and an offset."""
_SAMPLE = 20_000
_DAYS = (
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d %b %Y",
    "%d-%b-%Y",
    "%b %d, %Y",
)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")
_YEARS = ((1, 1, 1), (9999, 12, 31))
"""What Python's dates can hold; a year of 50,000 is possible in Parquet."""
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}
_FIRST_DAY, _LAST_DAY = (date(*day).toordinal() - date(1970, 1, 1).toordinal() for day in _YEARS)
_OFFSET = r"\d[ T]?\d\d:\d\d(:\d\d(\.\d+)?)?\s*(Z|[+-]\d\d:?\d\d)$"


class DateFormat(NamedTuple):
    """How dates are written."""

    format: str
    """`ISO`, or a format of strptime."""
    share: float
    """Of the texts that have this format."""
    ambiguous: bool = False
    """Whether day and month could be exchanged."""
    mixed_zones: bool = False
    """Whether some texts have an offset from UTC and others have none."""


def date_format(texts: pa.ChunkedArray) -> DateFormat:
    """Return the format that most of the texts have."""
    texts = pc.utf8_trim_whitespace(texts.drop_null().slice(0, _SAMPLE))
    if len(texts) == 0:
        return DateFormat(ISO, 0.0)
    digits = pc.mean(pc.match_substring_regex(texts, r"\d.*\d")).as_py()
    if digits < 0.5:  # words: no format needs to be tried
        return DateFormat(ISO, 0.0)
    iso = pc.match_substring_regex(texts, r"^\d{4}-\d\d-\d\d")
    if pc.mean(iso).as_py() >= 0.5:
        offsets = pc.mean(pc.match_substring_regex(texts, _OFFSET)).as_py()
        known = parse_dates(texts, ISO).is_valid()
        return DateFormat(ISO, float(pc.mean(known).as_py()), mixed_zones=0 < offsets < 1)
    shares = {}
    first = texts.slice(0, 100)
    for form in (day + time for time in _TIMES for day in _DAYS):
        if pc.any(parse_dates(first, form).is_valid()).as_py():
            shares[form] = float(pc.mean(parse_dates(texts, form).is_valid()).as_py())
    if not shares:
        return DateFormat(ISO, 0.0)
    best = max(shares, key=shares.__getitem__)
    swapped = best.replace("%d", "%D").replace("%m", "%d").replace("%D", "%m")
    return DateFormat(best, shares[best], ambiguous=shares.get(swapped) == shares[best] and swapped != best)


def parse_dates(texts: pa.ChunkedArray, form: str) -> pa.ChunkedArray:
    """Return timestamps in microseconds (UTC if texts have an offset); null where a text has another form."""
    texts = pc.utf8_trim_whitespace(texts)
    if form != ISO:
        return pc.strptime(texts, format=form, unit="us", error_is_null=True)
    plain = pc.match_substring_regex(texts, r"^\d{4}-\d\d-\d\d([ T]\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?$")
    zoned = pc.match_substring_regex(texts, _OFFSET)
    empty = pa.scalar(None, texts.type)
    try:
        naive = pc.if_else(plain, texts, empty).cast(pa.timestamp("us"))
        utc = pc.if_else(zoned, texts, empty).cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    except pa.ArrowInvalid:  # 2024-02-30
        values = [_one(text) for text in texts.to_pylist()]
        return pa.chunked_array([pa.array(values, pa.timestamp("us"))])
    return pc.coalesce(naive, utc)


def _one(text: str | None) -> np.datetime64 | None:
    if text is None:
        return None
    try:
        return np.datetime64(text.strip().replace(" ", "T"), "us")
    except ValueError:
        return None


def stored_dates(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates and time stamps of any unit as microseconds; null outside of the years 1 to 9999."""
    unit = str(values.type.unit) if pa.types.is_timestamp(values.type) else "ms"
    if unit != "ns":  # 64 bits of nanoseconds are 292 years
        days = pa.types.is_date32(values.type)
        per_day = 1 if days else _PER_DAY[unit]
        numbers = (values.cast(pa.int32()) if days else values).cast(pa.int64())
        known = pc.and_(
            pc.greater_equal(numbers, _FIRST_DAY * per_day), pc.less(numbers, (_LAST_DAY + 1) * per_day)
        )
        values = pc.if_else(known, values, pa.scalar(None, values.type))
    return values.cast(pa.timestamp("us"), safe=False)


def shown_value(value: pa.Scalar) -> str:
    """Return a value of a column for a message; Python has no dates after the year 9999."""
    try:
        return str(value.as_py())
    except (OverflowError, ValueError):
        return f"{value.type} {value.cast(pa.int32() if pa.types.is_date32(value.type) else pa.int64())}"

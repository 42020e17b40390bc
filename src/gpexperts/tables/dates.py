"""Dates: read from text, and encoded as elapsed time and cycles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpexperts.tables.arrow import pa, pc

__all__ = ["ISO", "DateFormat", "cycles_of", "date_format", "date_inputs", "date_names", "parse_dates"]

ISO = "iso"
"""2024-01-31, also with a time and an offset."""
_SAMPLE = 20_000
_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")
_SECONDS_PER_DAY = 86_400.0
_CYCLES = {"hour": 1.0, "weekday": 7.0, "season": 365.2425}
"""Days of each cycle."""
_PERIODS = {"hour": 2, "weekday": 2, "season": 2}
"""Whole cycles that the training rows must span."""
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


# ----------------------------------------------------------------------------------------- encoding


def cycles_of(seconds: np.ndarray) -> list[str]:
    """Return the cycles that dates support: "hour", "weekday", "season".

    Parameters
    ----------
    seconds : ndarray of shape (n,)
        Since 1970; NaN where missing.
    """
    seconds = seconds[np.isfinite(seconds)]
    if len(seconds) == 0:
        return []
    days = (seconds.max() - seconds.min()) / _SECONDS_PER_DAY
    has_times = bool(np.any(seconds % _SECONDS_PER_DAY != seconds[0] % _SECONDS_PER_DAY))
    return [
        name
        for name, period in _CYCLES.items()
        if days >= _PERIODS[name] * period and (name != "hour" or has_times)
    ]


def date_inputs(seconds: np.ndarray, cycles: Sequence[str]) -> np.ndarray:
    """Encode dates.

    Parameters
    ----------
    seconds : ndarray of shape (n,)
        Since 1970-01-01, a Thursday; NaN where missing.
    cycles : sequence of str

    Returns
    -------
    ndarray of shape (n, 1 + 2 len(cycles))
        Days since 1970, then sine and cosine of each cycle's phase.
    """
    days = seconds / _SECONDS_PER_DAY
    phases = [2 * np.pi * days / _CYCLES[name] for name in cycles]
    return np.column_stack([days, *(f(phase) for phase in phases for f in (np.sin, np.cos))])


def date_names(name: str, cycles: Sequence[str]) -> list[str]:
    """Return the names of the inputs of `date_inputs`."""
    return [f"{name} (days)", *(f"{name} ({cycle}, {f})" for cycle in cycles for f in ("sin", "cos"))]

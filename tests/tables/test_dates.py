"""Dates that are written in many ways."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from gpexperts.tables.dates import ISO, date_format, parse_dates

MOMENTS = [datetime(2023, 1, 9, 14, 5), datetime(2024, 2, 29), datetime(1999, 12, 31, 23, 59)]


def texts(*values: str | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.string())])


@pytest.mark.parametrize("day", ["%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d %b %Y", "%Y-%m-%d"])
@pytest.mark.parametrize("time", [" %H:%M", " %H:%M:%S", "T%H:%M:%S"])
def test_dates_are_read_as_they_were_written(day: str, time: str) -> None:
    form = day + time
    column = texts(*(moment.strftime(form) for moment in MOMENTS), None)
    found = date_format(column)
    assert (found.share, found.ambiguous, found.mixed_zones) == (1.0, False, False)
    assert parse_dates(column, found.format).to_pylist() == [*MOMENTS, None]


def test_days_that_could_be_months_are_noted() -> None:
    assert date_format(texts("1/2/2024", "3/4/2024")).ambiguous
    assert not date_format(texts("1/2/2024", "30/4/2024")).ambiguous


def test_offsets_become_utc_and_must_not_be_mixed() -> None:
    column = texts("2024-01-01T12:00:00+02:00", "2024-01-01T12:00:00Z")
    noon = datetime(2024, 1, 1, 12)
    assert not date_format(column).mixed_zones
    assert parse_dates(column, ISO).to_pylist() == [noon - timedelta(hours=2), noon]
    assert date_format(texts("2024-01-01T12:00:00Z", "2024-01-01T12:00:00")).mixed_zones


def test_days_that_do_not_exist_are_null() -> None:
    assert parse_dates(texts("2024-02-30", "2024-02-29"), ISO).to_pylist() == [None, datetime(2024, 2, 29)]
    assert date_format(texts("word", "Z001", "other")).share == 0.0

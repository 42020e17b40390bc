"""Numbers that are written in many ways."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.tables.numbers import PLAIN, NumberFormat, decimal_mark, number_format, parse_numbers

FORMATS = [
    PLAIN,
    NumberFormat(".", ","),
    NumberFormat(",", "."),
    NumberFormat(",", " "),
    NumberFormat(".", "'"),
    NumberFormat(","),
]


def texts(*values: str | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.string())])


def written(number: float, form: NumberFormat, digits: int) -> str:
    text = f"{number:,.{digits}f}"
    return text.replace(",", "§").replace(".", form.decimal).replace("§", form.thousands)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.sampled_from(FORMATS), st.integers(1, 6))
def test_numbers_are_read_as_they_were_written(numbers: list[float], form: NumberFormat, digits: int) -> None:
    found = parse_numbers(texts(*(written(number, form, digits) for number in numbers)), form)
    assert found.to_pylist() == [round(number, digits) + 0.0 for number in numbers]


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_the_format_of_a_column_is_found(form: NumberFormat) -> None:
    column = texts(None, *(written(number, form, 2) for number in (0.25, -12.5, 1234567.75, 999.0)))
    found, share = number_format(column)
    assert share == 1.0
    assert parse_numbers(column, found).to_pylist() == [None, 0.25, -12.5, 1234567.75, 999.0]


def test_what_could_be_thousands_depends_on_the_table() -> None:
    comma, point = texts("1,234", "2,345"), texts("1.234", "2.345")
    assert parse_numbers(comma, number_format(comma)[0]).to_pylist() == [1234, 2345]
    assert parse_numbers(point, number_format(point)[0]).to_pylist() == [1.234, 2.345]
    german = [NumberFormat(",", ".")]
    assert parse_numbers(comma, number_format(comma, german)[0]).to_pylist() == [1.234, 2.345]
    assert parse_numbers(point, number_format(point, german)[0]).to_pylist() == [1234, 2345]
    assert parse_numbers(texts("0.123"), number_format(texts("0.123"), german)[0]).to_pylist() == [0.123]


def test_signs_and_blanks_around_numbers() -> None:
    column = texts("12 %", "€ 12.5", "\u2212 3", "+4", " 5. ", "1e3", "7\u00a0000", "word")
    assert parse_numbers(column).to_pylist() == [12, 12.5, None, 4, 5, 1000, None, None]
    assert parse_numbers(texts("\u22123", "7\u00a0000"), NumberFormat(".", " ")).to_pylist() == [-3, 7000]


@pytest.mark.parametrize(
    ("fields", "mark"),
    [
        (["1.5", "word", "2"], "."),
        (["1,5", "1.234,5"], ","),
        (["1.234", "2,345"], None),
        (["7", "x"], None),
        ([], None),
        (["1,234.5", "2.25", "0,5"], "."),
    ],
)
def test_decimal_mark(fields: list[str], mark: str | None) -> None:
    assert decimal_mark(fields) == mark

"""Columns of a batch get the types that training has found."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest

from gpexperts.exceptions import TableError
from gpexperts.schema import TableColumn
from gpexperts.tables.convert import TIME, Converter
from gpexperts.tables.dialect import Dialect, TableOptions

NO_OPTIONS = TableOptions()


def converted(
    column: TableColumn, values: pa.Array, dialect: Dialect | None = None, **options: object
) -> pa.Table:
    converter = Converter([column], "t.csv", TableOptions(**options), dialect)  # type: ignore[arg-type]
    return converter.convert(pa.table({column.name: values}))


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        (TableColumn("a", "number", format=",."), ["1.234,5", "NA", "2"], [1234.5, None, 2.0]),
        (TableColumn("a", "number"), ["1", "k.A.", "n.a."], [1.0, None, None]),
        (TableColumn("a", "number"), [1, None, 3], [1.0, None, 3.0]),
        (TableColumn("a", "number"), [1.5, float("nan"), 3], [1.5, None, 3.0]),
        (TableColumn("a", "number"), [True, False], [1.0, 0.0]),
        (TableColumn("a", "number", format=TIME), ["6:30", "12:00:36"], [6.5, 12.01]),
        (TableColumn("a", "boolean"), ["TRUE", "false", ""], [True, False, None]),
        (TableColumn("a", "boolean"), [0, 1], [False, True]),
        (TableColumn("a", "category"), ["x", "?", " y"], ["x", None, " y"]),
        (TableColumn("a", "category"), [1, None, 2], ["1", None, "2"]),
        (TableColumn("a", "date", format="%d.%m.%Y"), ["31.12.2023", None], [datetime(2023, 12, 31), None]),
        (TableColumn("a", "date"), [datetime(2023, 12, 31)], [datetime(2023, 12, 31)]),
        (TableColumn("a", "date"), ["2023-12-31 06:00", None], [datetime(2023, 12, 31, 6), None]),
    ],
)  # fmt: skip
def test_values_get_their_type(column: TableColumn, values: list[object], expected: list[object]) -> None:
    found = converted(column, pa.array(values))
    assert found.table.column("a").to_pylist() == expected
    assert not found.unreadable.any()


def test_unreadable_values_are_null_counted_and_quoted() -> None:
    found = converted(TableColumn("a", "number"), pa.array(["1", "", "word", "inf", "2"]))
    assert found.table.column("a").to_pylist() == [1.0, None, None, None, 2.0]
    assert found.unreadable.tolist() == [False, False, True, True, False]
    assert found.counts == {"a": 2}
    assert found.examples == {"a": (2, "word")}


def test_another_decimal_mark_than_in_training_is_recognised() -> None:
    plain, german = TableColumn("a", "number"), TableColumn("a", "number", format=",.")
    comma, point = Dialect(";", ",", shows_decimal=True), Dialect(",", ".", shows_decimal=True)
    assert converted(plain, pa.array(["1,5", "1.234"]), comma).table.column("a").to_pylist() == [1.5, 1234.0]
    assert converted(german, pa.array(["1.5", "1.234"]), point).table.column("a").to_pylist() == [1.5, 1.234]
    assert converted(german, pa.array(["1.234"]), Dialect(";")).table.column("a").to_pylist() == [1234.0]


def test_values_that_mean_missing() -> None:
    found = converted(TableColumn("a", "number"), pa.array([-999, 1]), na_values=("-999",))
    assert found.table.column("a").to_pylist() == [None, 1.0]
    found = converted(TableColumn("a", "number"), pa.array(["-999.0", "1"]), na_values=("-999",))
    assert found.table.column("a").to_pylist() == [None, 1.0]


@pytest.mark.parametrize("kind", ["number", "boolean", "category", "date"])
def test_lists_are_refused(kind: str) -> None:
    with pytest.raises(
        TableError, match=r"Column a of t.csv should hold .*, as it did in training; it holds list"
    ):
        converted(TableColumn("a", kind), pa.array([[1.0], [2.0]]))

"""Types, roles and problems of the columns of a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpexperts.exceptions import TableError
from gpexperts.tables.dialect import TableOptions
from gpexperts.tables.reading import open_table
from gpexperts.tables.training import read_training_table, read_understood
from gpexperts.tables.understand import Plan, Understanding, command_options
from tests.messy import COLUMNS, TARGET, messy


def understood(path: Path, plan: Plan, **options: object) -> Understanding:
    return read_understood(open_table(str(path), None, TableOptions(**options)), plan)[1]  # type: ignore[arg-type]


def write(path: Path, **columns: list[object]) -> Path:
    names = list(columns)
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def test_messy_table_is_understood(tmp_path: Path) -> None:
    table = messy(600)
    (tmp_path / "t.csv").write_text(table.text, encoding="utf-8")
    found = understood(tmp_path / "t.csv", Plan([TARGET]))
    kinds = {facts.name: (facts.column.kind, facts.role) for facts in found.columns}
    roles = ["left out", *["input"] * 7, "left out", "target"]
    types = ["category", "date", "category", "category", *["number"] * 3, "boolean", "category", "number"]
    assert kinds == dict(zip(COLUMNS, zip(types, roles, strict=True), strict=True))
    assert found.left_out == {
        "Schlüssel": "identifier: every value is different", "Währung": "constant (EUR)"
    }  # fmt: skip
    assert found.problems == []
    (target,) = found.having("target")
    row = 2 + int(np.flatnonzero(table.outlier)[0])
    assert f"{table.outlier.sum()} outliers" in target.notes[0]
    assert target.notes[0].endswith(f"in row {row}")


def test_numbers_of_the_messy_table_are_those_it_was_made_from(tmp_path: Path) -> None:
    table = messy(300, gaps=0.0)
    (tmp_path / "t.csv").write_text(table.text, encoding="utf-8")
    rows = read_training_table(open_table(str(tmp_path / "t.csv")), Plan([TARGET]))
    names = {
        "Außentemperatur °C": (6, 0.006),
        "Menge, netto": (7, 0.06),
        "Auslastung": (8, 0.006),
        "beheizt": (9, 0),
    }
    for name, (column, rounding) in names.items():
        values = np.asarray(rows.inputs.column(name), dtype=float)
        np.testing.assert_allclose(values, table.X[:, column], atol=rounding)
    hours = rows.inputs.column("Zeitpunkt").cast(pa.int64()).to_numpy() / 3.6e9
    np.testing.assert_allclose(hours - hours[0], table.X[:, 0] - table.X[0, 0], atol=0.001)
    np.testing.assert_allclose(rows.y[~table.outlier], table.y[~table.outlier], atol=0.001)


def test_identifiers_indices_and_constants_are_left_out_unless_they_are_named(tmp_path: Path) -> None:
    n = 20
    path = write(
        tmp_path / "t.csv", **{
            "": list(range(n)), "order_id": [7 * i for i in range(n)], "name": [f"n{i}" for i in range(n)],
            "year": list(range(2000, 2000 + n)), "one": [1] * n, "empty": [""] * n,
            "group": ["a", "b"] * (n // 2),
            "note": [f"a text of many words that is longer than forty letters {i}" for i in range(n)],
            "y": [i % 7 for i in range(n)],
        },
    )  # fmt: skip
    found = understood(path, Plan(["y"]))
    assert [column.name for column in found.inputs] == ["year", "group"]
    assert found.left_out == {
        "": "saved index", "order_id": "identifier: every value is different",
        "name": "identifier: every value is different", "one": "constant (1)",
        "empty": "all values are missing", "note": "free text",
    }  # fmt: skip
    found = understood(path, Plan(["y"], features=["order_id", "one"], types={"name": "category"}))
    assert [column.name for column in found.inputs] == ["order_id"]
    found = understood(path, Plan(["y"], drop=["year"], types={"name": "category"}))
    assert [column.name for column in found.inputs] == ["name", "group"]
    assert found.left_out["year"] == "--drop"


def test_saved_index_of_parquet_is_left_out_and_a_saved_date_is_not(tmp_path: Path) -> None:
    n = 12
    days = pa.array(np.arange("2024-01-01", "2024-01-13", dtype="datetime64[D]"))
    table = pa.table({"a": np.arange(n) % 5, "y": np.arange(n) % 3, "__index_level_0__": np.arange(n)[::-1]})
    pq.write_table(table, tmp_path / "t.parquet")
    pq.write_table(table.set_column(2, "__index_level_0__", days), tmp_path / "d.parquet")
    assert understood(tmp_path / "t.parquet", Plan(["y"])).left_out == {"__index_level_0__": "saved index"}
    assert understood(tmp_path / "d.parquet", Plan(["y"])).left_out == {}


def test_all_problems_are_reported_at_once_with_options_that_settle_them(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.csv", half=["1", "x", "2", "y", "3", "4"], y=["1", "2", "a", "b", "3", "4"],
        when=["2024-01-01T00:00:00Z", "2024-01-02T00:00:00"] * 3, a=[1, 2, 3, 4, 5, 5],
    )  # fmt: skip
    found = understood(path, Plan(["y"]))
    assert len(found.problems) == 3
    with pytest.raises(
        TableError, match=r"3 problems\. Column half .*The target y .*Column when mixes dates"
    ):
        found.check()
    assert command_options(found) == ["--type", "half=number", "--drop", "when"]
    settled = understood(path, Plan(["a"], types={"half": "number"}, drop=["when", "y"]))
    assert settled.problems == []
    notes = settled.columns[0].notes
    assert notes == ["2 values are no finite number, such as 'x' in row 3: read as missing"]


def test_codes_with_leading_zeros_are_categories(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", zip=["01234", "99999", "01234", "10000"], y=[1, 2, 3, 4])
    (column,) = understood(path, Plan(["y"])).inputs
    assert column.kind == "category"
    rows = read_training_table(open_table(str(path)), Plan(["y"]))
    assert rows.inputs.column("zip").to_pylist() == ["01234", "99999", "01234", "10000"]


def test_values_that_mean_missing(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.csv", a=[-999, -999, *range(20)], b=["?", "-", *["x", "y"] * 10], y=list(range(22))
    )
    found = {facts.name: facts for facts in understood(path, Plan(["y"])).columns}
    assert found["a"].notes == ["-999 may stand for missing values: --na-values -999"]
    assert (found["a"].n_missing, found["b"].n_missing) == (0, 2)
    found = {facts.name: facts for facts in understood(path, Plan(["y"]), na_values=("-999", "x")).columns}
    assert (found["a"].n_missing, found["b"].n_missing) == (2, 12)


def test_times_of_day_are_hours(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", at=["06:30", "12:00", "23:45"], y=[1, 2, 3])
    rows = read_training_table(open_table(str(path)), Plan(["y"]))
    assert rows.inputs.column("at").to_pylist() == [6.5, 12.0, 23.75]

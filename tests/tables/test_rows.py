"""Row numbers, fingerprints, kept columns and rows outside the range of training."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.columns import Column, ColumnEncoder
from gpexperts.schema import TableColumn, TableSchema
from gpexperts.tables.fingerprint import Fingerprint
from gpexperts.tables.kept import kept_types
from gpexperts.tables.outside import outside_columns, outside_texts
from gpexperts.tables.reading import open_table
from gpexperts.tables.training import _skips


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(1, 2))
def test_row_numbers_are_those_of_the_file(positions: set[int], first: int) -> None:
    kept = np.array(sorted(positions))
    schema = TableSchema(["y"], [], "t", "", 1, 0, 0.0, 1.0, {}, skips=_skips(kept), first_row=first)
    np.testing.assert_array_equal(schema.row_numbers(np.arange(len(kept))), kept + first)


@given(st.lists(st.integers(0, 9), max_size=5))
def test_fingerprint_does_not_depend_on_batches(cuts: list[int]) -> None:
    inputs = pa.table({"a": [1.0, None, 3.0] * 3, "b": ["x", "xx", None] * 3, "c": [True, None, False] * 3})
    y = np.arange(9.0)
    whole, pieces = Fingerprint(), Fingerprint()
    whole.update(inputs, y)
    edges = [0, *sorted(cuts), 9]
    for low, high in pairwise(edges):
        pieces.update(inputs.slice(low, high - low), y[low:high])
    assert pieces.hexdigest() == whole.hexdigest()
    other = Fingerprint()
    other.update(inputs, y + 1)
    assert other.hexdigest() != whole.hexdigest()


def test_kept_columns_of_a_csv_keep_their_types(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "i,f,b,d,t,code,na,empty,none\n1,1.5,true,2024-01-31,2024-01-01 10:00,007,1,,2024-02-30\n"
        "-2,2,false,2024-02-28,2024-01-01 11:30:00,12,NA,,2024-02-29\n,,,,,,,,\n"
    )
    names = ["i", "f", "b", "d", "t", "code", "na", "empty", "none"]
    types = kept_types(open_table(str(path)), names)
    expected = [pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("s"), *[pa.string()] * 4]
    assert types == dict(zip(names, expected, strict=True))
    reader = open_table(str(path))
    (table,) = reader.batches(names, types, 10)
    assert table.column("i").to_pylist() == [1, -2, None]
    assert table.column("code").to_pylist() == ["007", "12", ""]


def test_kept_inputs_stay_text_where_their_values_could_change(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("i,f,c\n1,1.50,1.50\n2,2.25,2.25\n")
    (tmp_path / "g.csv").write_text("i;f;c\n1;1.234;1,5\n2;2.345;2,5\n")
    kinds = {"i": "category", "f": "number", "c": "category"}
    types = kept_types(open_table(str(tmp_path / "t.csv")), list(kinds), kinds)
    assert types == {"i": pa.int64(), "f": pa.float64(), "c": pa.string()}
    types = kept_types(open_table(str(tmp_path / "g.csv")), list(kinds), kinds)
    assert types == {"i": pa.int64(), "f": pa.string(), "c": pa.string()}


def test_rows_outside_the_range_of_training() -> None:
    columns = [
        TableColumn("a", "number", low=0.0, high=1.0),
        TableColumn("b", "category"),
        TableColumn("c", "date", low=0.0, high=10.0),
    ]
    encoder = ColumnEncoder(
        (Column("a", "number"), Column("b", "category", levels=("x", "y")), Column("c", "date"))
    )
    table = pa.table(
        {
            "a": pa.array([0.5, 1.5, None, -1.0]),
            "b": pa.array(["x", "z", None, "y"]),
            "c": pa.array([5_000_000, 5_000_000, None, 11_000_000], pa.timestamp("us")),
        }
    )
    found = outside_columns(table, columns, encoder)
    assert {name: rows.tolist() for name, rows in found.items()} == {
        "a": [False, True, False, True], "b": [False, True, False, False], "c": [False, False, False, True],
    }  # fmt: skip
    assert outside_texts(found, 4) == [None, "a; b", None, "a; c"]

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gpexperts.paper.experiment import TableSpec
from gpexperts.paper.tables import markdown_table, mean_of, summarise, with_paper, write_csv

ROWS = [
    {"seed": 0, "method": "NPAE", "smse": 0.1, "msll": -1.0},
    {"seed": 1, "method": "NPAE", "smse": 0.3, "msll": -2.0},
    {"seed": 0, "method": "KNN", "smse": 0.2, "msll": None},
]


def test_mean_and_standard_deviation_over_seeds() -> None:
    mean, spread, count = summarise(ROWS, ("method",), ("smse",))[("NPAE",)]["smse"]
    assert mean == pytest.approx(0.2)
    assert spread == pytest.approx(0.1 * 2**0.5)
    assert count == 2


def test_rows_of_a_seed_are_averaged_first() -> None:
    rows = [{"seed": 0, "m": "a", "s": 1.0}, {"seed": 0, "m": "a", "s": 3.0}, {"seed": 1, "m": "a", "s": 4.0}]
    assert summarise(rows, ("m",), ("s",))[("a",)]["s"][:2] == pytest.approx((3.0, 2**0.5))


def test_table_has_columns_of_the_paper() -> None:
    spec = TableSpec(keys=("method",), scores=("smse", "msll"), paper={("NPAE",): {"smse": 0.25}})
    assert markdown_table(ROWS, spec).splitlines() == [
        "| method | SMSE | SMSE, paper | MSLL |",
        "| --- | ---: | ---: | ---: |",
        "| NPAE | 0.2000 ± 0.1414 | 0.25 | −1.500 ± 0.707 |",
        "| KNN | 0.2000 | – | – |",
    ]


def test_with_paper_adds_numbers_of_the_paper() -> None:
    spec = TableSpec(keys=("method", "ratio"), scores=("smse",), paper={("NPAE", None): {"smse": 0.25}})
    first, _, last = with_paper(ROWS, spec)
    assert first == ROWS[0] | {"smse_paper": 0.25}
    assert last == ROWS[2]


def test_csv_has_columns_of_all_rows(tmp_path: Path) -> None:
    write_csv([{"a": 1, "b": "x, y"}, {"a": 2, "c": None}], tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [
            {"a": "1", "b": "x, y", "c": ""},
            {"a": "2", "b": "", "c": ""},
        ]


def test_mean_of_selects_rows() -> None:
    assert mean_of(ROWS, "smse", method="NPAE") == pytest.approx(0.2)

"""Errors end with code 2 and one paragraph; --quiet, --verbose and --debug."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.houses import FIT

# A length scale at its bound is reported, which is no failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")


def table_with(column: str, *values: str) -> str:
    rows = [f"{v},{i}" for i, v in enumerate(values)]
    return "\n".join([f"{column},price", *rows]) + "\n"


ERRORS = {
    ("fit", "none.csv", *FIT[2:]): "none.csv does not exist",
    ("fit", ".", *FIT[2:], "--format", "csv"): "is a folder",
    ("fit", "houses.gpx", *FIT[2:]): "format of houses.gpx cannot be determined from its name",
    ("fit", "houses.csv.gz", *FIT[2:]): "houses.csv.gz does not exist",
    ("fit", "x.parquet.gz", *FIT[2:]): "parquet has its own compression",
    ("fit", "houses.csv", *FIT[2:], "--format", "parquet"): "houses.csv cannot be read",
    ("fit", "houses.csv", *FIT[2:], "--format", "excel"): "Unknown format 'excel'",
    ("fit", "houses.csv", "-t", "cost", "-o", "new.gpx"): "has no column cost; its columns are id, area",
    (*FIT, "--features", "size"): "has no column size",
    (*FIT, "--features", "area,price"): "also among --features",
    (*FIT, "--features", "area", "--drop", "area"): "No column of houses.csv is left as an input",
    (*FIT, "--drop", "id", "--type", "town=word"): "--type town=word: the type is one of number, boolean",
    (*FIT, "--type", "towncategory"): "--type is COLUMN=TYPE, such as station=category; got 'towncategory'",
    (*FIT, "--type", "city=category"): "has no column city",
    (*FIT, "--sep", ";;"): "--sep is one character",
    (*FIT, "--decimal", "x"): "--decimal is . or ,; got 'x'",
    (*FIT, "--thousands", ".", "--decimal", "."): "are both '.'; they must differ",
    (*FIT, "--encoding", "klingon"): "--encoding 'klingon' is unknown; try utf-8",
    (*FIT, "--encoding", "zip"): "--encoding 'zip' is unknown; try utf-8",
    (*FIT, "--encoding", "rot13"): "--encoding 'rot13' is unknown; try utf-8",
    (*FIT, "--na-values", "x" * 40_000): "1 values of 40,000 bytes",
    (*FIT, "--test", "20"): "--test is a share between 0 and 1, such as 0.2; got 20.0",
    (*FIT, "--cv", "1"): "--cv must be from 2 to 150 for 300 rows; got 1",
    (*FIT, "--cv", "5", "--test", "0.2"): "--cv cannot be combined with --test",
    (*FIT, "--time-split", "town"): "--time-split town: rows are ordered by a date or a number",
    (*FIT, "--features", "area", "--config", "key.toml"): "sets colour in [table]; its keys are file",
    (*FIT, "--features", "area", "--config", "kind.toml"): "drop in [table] takes names; got 3",
    (*FIT, "--features", "area", "--config", "place.toml"): "belong below [table]",
    ("inspect", "header.csv"): "header.csv has no rows",
    ("inspect", "none.csv"): "none.csv does not exist",
    ("inspect", "houses.csv", "-t", "cost"): "has no column cost",
    (*FIT, "--features", "area", "--n-experts", "0"): "n_experts must be at least 1",
    (*FIT, "--features", "area", "--n-experts", "many"): "n_experts must be 'auto' or a positive int",
    (*FIT, "--features", "area", "--kernel", "rough"): "Unknown kernel 'rough'",
    (*FIT, "--features", "area", "--config", "bad.toml"): "bad.toml is not valid TOML",
    (*FIT, "--features", "area", "--config", "odd.toml"): "sets n_expert, which is not a parameter",
    (*FIT, "--features", "area", "--config", "stage.toml"): "[selection] needs a name",
    (*FIT, "--features", "area", "--config", "setting.toml"): "unexpected keyword argument 'colour'",
    (*FIT, "--features", "area", "--config", "none.toml"): "No such file",
    ("fit", "houses.csv", "-t", "town", "--features", "area", "-o", "new.gpx"): "target town holds text,",
    ("fit", "houses.csv", "-t", "price", "--features", "area", "-o", "no/new.gpx"): "folder no does not",
    ("fit", "twice.csv", *FIT[2:]): "several columns of the same name: a",
    ("fit", "empty.csv", *FIT[2:]): "is empty",
    ("fit", "header.csv", *FIT[2:]): "has no rows",
    ("fit", "ragged.csv", *FIT[2:]): "ragged.csv cannot be read: CSV parse error",
    ("fit", "blank.csv", *FIT[2:]): "is left as an input (a: all values are missing)",
    ("fit", "gaps.csv", *FIT[2:], "--drop-missing"): "no row without missing values: 1 are missing in a",
    ("fit", "bad.csv", *FIT[2:]): "2 problems. The target price holds text, such as x, y, z; a "
    "regression needs numbers. Column a holds numbers, but 25% of its values are not, such as 'b'.",
    ("predict", "none.gpx", "new_houses.csv", "-o", "out.csv"): "No such file",
    ("predict", "houses.csv", "new_houses.csv", "-o", "out.csv"): "is not a gpexperts model",
    ("predict", "cut.gpx", "new_houses.csv", "-o", "out.csv"): "cut short",
    ("predict", "houses.gpx", "twice.csv", "-o", "out.csv"): "same name",
    ("predict", "houses.gpx", "header.csv", "-o", "out.csv"): "has no column area, rooms, town",
    ("predict", "houses.gpx", "words.csv", "-o", "out.csv"): "No row of words.csv can be predicted. 1 row "
    "cannot be predicted (area is 'large' in row 2).",
    ("predict", "houses.gpx", "words.parquet", "-o", "out.csv"): "(area is 'large' in row 1)",
    ("predict", "houses.gpx", "lists.parquet", "-o", "out.csv"): "Column area of lists.parquet should hold",
    ("predict", "houses.gpx", "new_houses.csv", "-o", "out.csv", "--keep", "key"): "has no column key",
    ("predict", "houses.gpx", "mean.csv", "-o", "out.csv", "--keep", "mean"): "column mean cannot be kept",
    ("predict", "houses.gpx", "new_houses.csv", "-o", "out.csv", "--level", "95"): "strictly between 0 and 1",
    ("predict", "houses.gpx", "new_houses.csv", "-o", "out.xls"): "cannot be determined from its name",
    ("predict", "houses.gpx", "new_houses.csv", "-o", "no/out.csv"): "folder no does not exist",
    ("predict", "houses.gpx", "-", "--format", "parquet", "-o", "out.csv"): "Standard input and output are",
    ("evaluate", "houses.gpx", "new_houses.csv"): "has no column price",
    ("info", "houses.csv"): "is not a gpexperts model",
    ("fit", "houses.csv", "-o", "new.gpx"): "Give --target COLUMN, as an option or in [table] of --config",
    ("fits",): "No such command",
}  # fmt: skip


@pytest.mark.parametrize("args", ERRORS, ids=" ".join)
def test_errors_end_with_code_2_and_one_paragraph(run, args: tuple[str, ...]) -> None:
    Path("bad.toml").write_text("n_experts = ")
    Path("odd.toml").write_text("n_expert = 3")
    Path("stage.toml").write_text('[selection]\nmetric = "kernel"')
    Path("setting.toml").write_text('[selection]\nname = "knn"\ncolour = 1')
    Path("twice.csv").write_text("a,a,price\n1,2,3\n")
    Path("empty.csv").write_text("")
    Path("header.csv").write_text("a,price\n")
    Path("ragged.csv").write_text("a,price\n1,2\n3\n")
    Path("key.toml").write_text("[table]\ncolour = 1")
    Path("kind.toml").write_text("[table]\ndrop = 3")
    Path("place.toml").write_text('drop = "id"')
    Path("bad.csv").write_text("price,a\nx,1\ny,2\nz,b\nx,3\n")
    Path("gaps.csv").write_text("a,b,price\n,1,2\n1,,3\n")
    pq.write_table(pa.table({"area": [[1.0]], "rooms": [1], "town": ["west"]}), "lists.parquet")
    Path("blank.csv").write_text(table_with("a", "", "NA"))
    Path("cut.gpx").write_bytes(Path("houses.gpx").read_bytes()[:-100])
    Path("words.csv").write_text("area,rooms,town\nlarge,2,west\n")
    pq.write_table(pa.table({"area": ["large"], "rooms": [1], "town": ["west"]}), "words.parquet")
    Path("mean.csv").write_text("area,rooms,town,mean\n50,2,west,1\n")
    before = sorted(os.listdir())
    ended = run(*args)
    assert ended.code == 2
    assert ERRORS[args] in " ".join(ended.err.replace("│", " ").split())
    assert "Traceback" not in ended.err
    if ended.err.startswith("gpexperts: "):
        assert len(ended.err.strip().splitlines()) == 1
    assert sorted(os.listdir()) == before  # no temporary file is left


def test_debug_shows_the_traceback_and_defects_are_named(run, monkeypatch) -> None:
    assert "Traceback" in run("info", "houses.csv", "--debug").err
    monkeypatch.setattr("gpexperts.cli.info._facts", lambda path: 1 / 0)
    assert "unexpected ZeroDivisionError" in run("info", "houses.gpx").err


def test_quiet_and_verbose(run) -> None:
    args = (*FIT, "--features", "area")
    ended = run(*args, "--quiet")
    assert ended.err == ended.out == ""
    ended = run(*args, "-v")
    for word in ("reading houses.csv", "log likelihood", "saving"):
        assert word in ended.err
    assert ended.out == ""

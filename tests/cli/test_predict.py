"""`gpexperts predict` writes what Python predicts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import gpexperts
from tests.cli.houses import FIT, direct, inputs, write_as

# A length scale at its bound is reported, which is no failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")


def test_columns_are_found_by_name_on_standard_input(run) -> None:
    table = pacsv.read_csv("new_houses.csv")
    text = "\n".join(
        ["town,extra,rooms,area"] + [f"{r['town']},NA,{r['rooms']},{r['area']}" for r in table.to_pylist()]
    )
    ended = run("predict", "houses.gpx", "-", "-o", "-", "--keep", "extra,town", "--level", "0.5", stdin=text)
    assert ended.code == 0
    assert ended.err == ""
    lines = ended.out.splitlines()
    assert lines[0] == '"extra","town","mean","std","lower","upper","outside"'
    model = gpexperts.load("houses.gpx")
    mean, std = direct(model, table)
    first = lines[1].split(",")
    assert first[0] == '"NA"'  # a kept column is copied as text
    assert float(first[2]) == mean[0]
    assert float(first[4]) == pytest.approx(mean[0] - model.interval_width(0.5, std)[0] * std[0])


def test_explain_adds_selected_experts_and_weights(run) -> None:
    for out in ("out.parquet", "out.csv"):
        assert run("predict", "houses.gpx", "new_houses.csv", "--explain", "-o", out).code == 0
    out = pq.read_table("out.parquet")
    model = gpexperts.load("houses.gpx")
    explanation = model.explain(inputs(pacsv.read_csv("new_houses.csv")))
    selected = explanation.experts >= 0
    weights, experts = out["weights"].to_pylist(), out["experts"].to_pylist()
    assert len(experts) == 20
    assert experts == [list(row[chosen]) for row, chosen in zip(explanation.experts, selected, strict=True)]
    assert weights == [list(row[chosen]) for row, chosen in zip(explanation.weight, selected, strict=True)]
    text = pacsv.read_csv("out.csv")["weights"].to_pylist()
    assert [[float(word) for word in str(row or "").split()] for row in text] == weights


@pytest.mark.parametrize("n_selected", ["0", "2"])
def test_explain_adds_the_rows_of_the_own_expert(run, n_selected: str) -> None:
    options = ["--n-neighbors", "12", "--n-selected", n_selected, "--n-experts", "3"]
    table = ["houses.csv", "--target", "price", "--drop", "id", "--kernel", "rbf"]
    assert run("fit", *table, *options, "-o", "own.gpx").code == 0
    for out in ("out.parquet", "out.csv"):
        assert run("predict", "own.gpx", "new_houses.csv", "--explain", "-o", out).code == 0
    out = pq.read_table("out.parquet").to_pylist()
    model = gpexperts.load("own.gpx")
    own = model.explain(inputs(pacsv.read_csv("new_houses.csv"))).own
    for q, row in enumerate(out):
        assert len(row["experts"]) <= int(n_selected)
        assert row["own_weight"] == own.weight[q]
        weights = dict(zip(2 + own.rows[q], own.row_weight[q], strict=True))
        assert len(row["rows"]) == 10
        assert [weights[number] for number in row["rows"]] == row["row_weights"]
        assert abs(row["row_weights"][0]) == np.abs(own.row_weight[q]).max()
    text = pacsv.read_csv("out.csv")["rows"].to_pylist()
    assert [[int(word) for word in line.split()] for line in text] == [row["rows"] for row in out]


def test_table_without_rows(run) -> None:
    for name in ("none.csv", "none.parquet"):
        write_as(pacsv.read_csv("new_houses.csv").slice(0, 0), name)
        assert run("predict", "houses.gpx", name, "-o", "out.parquet", "--keep", "id").code == 0
        assert pq.read_table("out.parquet").num_rows == 0
    assert "has no rows to compare with" in run("evaluate", "houses.gpx", "none.csv", "--target", "rooms").err


def test_conformal_intervals_equal_those_of_python(run) -> None:
    args = ("--drop", "id", "--calibrate", "conformal")
    assert run(*FIT, *args, "-q").code == 0
    model = gpexperts.load("new.gpx")
    assert model.calibrate == "conformal"
    table = pacsv.read_csv("test_houses.csv")
    mean, std = direct(model, table)
    y = table["price"].to_numpy()
    inside = [np.abs(y - mean) <= model.interval_width(level, std) * std for level in (0.5, 0.9, 0.95)]

    for explain in ([], ["--explain"]):
        ended = run("predict", "new.gpx", "test_houses.csv", "--level", "0.9", "-o", "out.parquet", *explain)
        assert ended.code == 0
        out = pq.read_table("out.parquet")
        lower, upper = out["lower"].to_numpy(), out["upper"].to_numpy()
        np.testing.assert_array_equal(out["std"].to_numpy(), std)
        np.testing.assert_array_equal((lower <= y) & (y <= upper), inside[1])
        np.testing.assert_allclose(upper - lower, 2 * model.interval_width(0.9, std) * std)

    shares = json.loads(run("evaluate", "new.gpx", "test_houses.csv", "--json").out)["coverage"]
    assert [shares[level] for level in ("0.5", "0.9", "0.95")] == [pytest.approx(i.mean()) for i in inside]
    assert shares["0.99"] is None  # 75 rows were held out
    assert "not defined" in run("evaluate", "new.gpx", "test_houses.csv").out
    assert run("report", "new.gpx", "test_houses.csv", "-o", "report.html").code == 0

    Path("out.parquet").unlink()
    ended = run("predict", "new.gpx", "test_houses.csv", "--level", "0.99", "-o", "out.parquet")
    assert (ended.code, Path("out.parquet").exists()) == (2, False)
    assert "needs at least 99 rows held out" in ended.err
    assert "calibrate must be" in run(*FIT, *args[:-1], "conform").err


def test_every_row_is_kept_and_kept_columns_keep_their_types(run) -> None:
    Path("new.csv").write_text(
        "key,code,day,area,rooms,town\n1,007,2024-01-31,50,2,west\n2,008,2024-02-01,large,2,west\n"
        "3,009,2024-02-02,,,\n4,010,2024-02-03,999,2,west\n5,011,2024-02-04,50,,east\n"
    )
    keep = ("--keep", "key,code,day")
    ended = run("predict", "houses.gpx", "new.csv", *keep, "-o", "out.parquet")
    assert ended.code == 0
    assert ended.err == (
        "3 rows predicted. 2 rows cannot be predicted (area is 'large' in row 3; 1 without area; 1 without "
        "rooms; 1 without town). Levels that training has not seen, or seen once: town (1 row). Outside the "
        "range of the training rows: area (1 row). Gaps in columns that had none in training were filled: "
        "rooms (1 row).\n"
    )
    out = pq.read_table("out.parquet")
    assert [str(out.schema.field(name).type) for name in ("key", "code", "day")] == [
        "int64",
        "string",
        "date32[day]",
    ]
    assert out["key"].to_pylist() == [1, 2, 3, 4, 5]
    for name in ("mean", "std", "lower", "upper"):
        assert out[name].is_null().to_pylist() == [False, True, True, False, False]
    assert out["outside"].to_pylist() == [None, None, None, "area", "town"]
    assert run("predict", "houses.gpx", "new.csv", "--explain", "-o", "explained.parquet").code == 0
    assert pq.read_table("explained.parquet")["experts"].is_null().to_pylist() == [
        False,
        True,
        True,
        False,
        False,
    ]


def test_several_targets(run) -> None:
    args = ("houses.csv", "-t", "price", "-t", "rooms", "-o", "two.gpx", "--config", "untrained.toml")
    assert run("fit", *args, "--n-experts", "2", "--kernel", "rbf", "--test", "0.2").code == 0
    assert gpexperts.load("two.gpx").table_.targets == ["price", "rooms"]
    assert run("predict", "two.gpx", "new_houses.csv", "-o", "out.parquet").code == 0
    out = pq.read_table("out.parquet")
    ends = ("mean", "std", "lower", "upper")
    assert out.column_names == [*(f"{t}_{end}" for t in ("price", "rooms") for end in ends), "outside"]
    model, X = gpexperts.load("two.gpx"), inputs(pacsv.read_csv("new_houses.csv")).drop(["rooms"])
    np.testing.assert_array_equal(np.column_stack([out["price_mean"], out["rooms_mean"]]), model.predict(X))
    assert json.loads(run("evaluate", "two.gpx", "test_houses.csv", "--json").out)["n"] == 60
    assert (
        "--explain is for models of one target"
        in run("predict", "two.gpx", "new_houses.csv", "--explain", "-o", "o.csv").err
    )

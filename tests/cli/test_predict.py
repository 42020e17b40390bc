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
    assert lines[0] == '"extra","town","mean","std","lower","upper"'
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
    del model.feature_names_in_
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
    table = ["houses.csv", "--target", "price", "--drop", "id", "--one-hot", "auto", "--kernel", "rbf"]
    assert run("fit", *table, *options, "-o", "own.gpx").code == 0
    for out in ("out.parquet", "out.csv"):
        assert run("predict", "own.gpx", "new_houses.csv", "--explain", "-o", out).code == 0
    out = pq.read_table("out.parquet").to_pylist()
    model = gpexperts.load("own.gpx")
    del model.feature_names_in_
    own = model.explain(inputs(pacsv.read_csv("new_houses.csv"))).own
    for q, row in enumerate(out):
        assert len(row["experts"]) <= int(n_selected)
        assert row["own_weight"] == own.weight[q]
        weights = dict(zip(1 + own.rows[q], own.row_weight[q], strict=True))
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
    assert "no complete rows" in run("evaluate", "houses.gpx", "none.csv", "--target", "rooms").err


def test_conformal_intervals_equal_those_of_python(run) -> None:
    args = ("--drop", "id", "--one-hot", "auto", "--calibrate", "conformal")
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

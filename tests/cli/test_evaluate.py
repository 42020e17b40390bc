"""`gpexperts evaluate` prints the scores of `gpexperts.metrics`."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.csv as pacsv
import pytest

import gpexperts
from gpexperts.metrics import crps, smse
from tests.cli.houses import direct, write_as

# A length scale at its bound is reported, which is no failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")


def test_scores_equal_those_of_metrics(run) -> None:
    ended = run("evaluate", "houses.gpx", "test_houses.csv", "--json")
    scores = json.loads(ended.out)
    table = pacsv.read_csv("test_houses.csv")
    mean, std = direct(gpexperts.load("houses.gpx"), table)
    y = table["price"].to_numpy()
    assert scores["smse"] == smse(y, mean)
    assert scores["crps"] == crps(y, mean, std)
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))
    assert list(scores["coverage"]) == ["0.5", "0.9", "0.95", "0.99"]
    assert 0.5 < scores["coverage"]["0.9"] <= 1
    assert scores["seconds_per_query"] > 0
    out = run("evaluate", "houses.gpx", "test_houses.csv").out
    for word in ("SMSE", "RMSE", "MSLL", "NLPD", "CRPS", "coverage 99 %", "per query"):
        assert word in out


def test_the_training_table_is_recognised_in_any_format(run) -> None:
    write_as(pacsv.read_csv("houses.csv"), "same.parquet")
    for name in ("houses.csv", "same.parquet"):
        ended = run("evaluate", "houses.gpx", name)
        assert f"{name} is the table that the model was fitted to: these scores are too good" in ended.err
    assert run("evaluate", "houses.gpx", "test_houses.csv").err == ""

"""`gpexperts info` describes a model file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.csv as pacsv
import pytest

import gpexperts
from gpexperts import DistributedGPRegressor

# A length scale at its bound is reported, which is no failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")


def test_info_of_a_model_file(run) -> None:
    facts = json.loads(run("info", "houses.gpx", "--json").out)
    model = gpexperts.load("houses.gpx")
    assert facts["trained_on"]["rows"] == 300
    assert facts["trained_on"]["source"] == "houses.csv"
    assert facts["trained_on"]["sha256"] == model.table_.sha256
    assert facts["file"]["bytes"] == Path("houses.gpx").stat().st_size
    assert facts["inputs"][0]["name"] == "area"
    assert facts["inputs"][0]["low"] == pytest.approx(pacsv.read_csv("houses.csv")["area"].to_numpy().min())
    assert facts["inputs"][2]["name"] == "town"
    assert facts["inputs"][2]["low"] is None
    assert facts["model"]["experts"] == 3
    assert "length_scale[area]" in facts["model"]["hyperparameters"]
    out = run("info", "houses.gpx").out
    for word in ("houses.csv", "300 rows", "RBF", "town", "3, of"):
        assert word in out


def test_info_shows_choices_as_value_and_reason(run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    model = gpexperts.load("houses.gpx")
    choices = json.loads(run("info", "houses.gpx", "--json").out)["model"]["choices"]
    assert choices == {name: str(choice) for name, choice in model.choices_.items()}
    out = " ".join(run("info", "houses.gpx").out.split())
    for name, choice in model.choices_.items():
        assert f"chosen {name} {choice}" in out


def test_info_of_a_model_from_python(run, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    DistributedGPRegressor(n_experts=2, optimizer=None).fit(X, X[:, 0]).save("array.gpx")
    assert "an array in Python" in run("info", "array.gpx").out
    ended = run("predict", "array.gpx", "new_houses.csv", "-o", "out.csv")
    assert ended.code == 2
    assert "without column names" in ended.err

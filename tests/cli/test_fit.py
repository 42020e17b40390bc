"""`gpexperts fit` fits the model that Python would fit, from every format."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import gpexperts
from tests.cli.houses import FIT, direct, read_as, write_as

# A length scale at its bound is reported, which is no failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")


def test_model_file_stores_table_and_settings(run) -> None:
    model = gpexperts.load("houses.gpx")
    assert model.table_.target == "price"
    assert [column.name for column in model.table_.columns] == ["area", "rooms", "town"]
    assert list(model.feature_names_in_) == ["area", "rooms", "town"]
    assert model.table_.columns[2].kind == model.model_.encoder.columns[2].kind == "category"
    assert model.table_.config == {"random_state": 0, "n_experts": 3, "kernel": "rbf"}
    assert model.table_.n_rows == 300


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.zst", "parquet", "feather", "arrow"])
def test_every_format_gives_the_same_model_and_predictions(run, ending: str) -> None:
    write_as(pacsv.read_csv("houses.csv"), f"table.{ending}")
    write_as(pacsv.read_csv("new_houses.csv"), f"queries.{ending}")
    args = ("-t", "price", "--drop", "id", "--n-experts", "3", "--config", "untrained.toml", "-q")
    assert run("fit", f"table.{ending}", *args, "-o", "same.gpx").code == 0
    assert gpexperts.load("same.gpx").table_.sha256 == gpexperts.load("untrained.gpx").table_.sha256
    assert run("predict", "same.gpx", f"queries.{ending}", "--keep", "id", "-o", f"out.{ending}").code == 0
    out = read_as(f"out.{ending}")
    assert out.column_names == ["id", "mean", "std", "lower", "upper", "outside"]
    model = gpexperts.load("untrained.gpx")
    mean, std = direct(model, pacsv.read_csv("new_houses.csv"))
    np.testing.assert_array_equal(out["mean"].to_numpy(), mean)
    np.testing.assert_array_equal(out["std"].to_numpy(), std)
    assert out["id"].to_pylist() == [f"h{i}" for i in range(20)]


def test_options_override_the_config_file(run) -> None:
    Path("config.toml").write_text(
        'n_experts = 4\nn_selected = 2\noptimizer = "none"\n[selection]\nname = "knn"\nmetric = "manhattan"\n'
    )
    args = (
        "--features",
        "area,rooms",
        "--config",
        "config.toml",
        "--n-selected",
        "0.5",
        "--aggregation",
        "rbcm",
    )
    ended = run("fit", "houses.csv", "-t", "price", "-o", "new.gpx", *args)
    assert ended.code == 0
    assert re.search(r"new\.gpx, [\d.]+ kB: 300 rows, 2 inputs, 4 experts", ended.err)
    model = gpexperts.load("new.gpx")
    assert (model.n_experts_, model.n_selected, model.aggregation) == (4, 0.5, "rbcm")
    assert model.selection.metric == "manhattan"
    assert model.optimizer is None
    assert model.table_.config["selection"] == {"name": "knn", "metric": "manhattan"}


def test_output_path_is_checked_before_the_table_is_read(run) -> None:
    ended = run("fit", "no_such_table.csv", "-t", "price", "-o", "no_such_folder/new.gpx")
    assert ended.code == 2
    assert "no_such_folder" in ended.err
    assert "no_such_table" not in ended.err


def test_include_factors_stores_factors(run) -> None:
    args = (*FIT, "--drop", "id,town", "-q")
    assert run(*args).code == 0
    without = Path("new.gpx").stat().st_size
    assert run(*args, "--include-factors").code == 0
    assert Path("new.gpx").stat().st_size > without + 8 * 2 * 150 * 151 / 2
    assert run("predict", "new.gpx", "new_houses.csv", "-o", "out.csv").code == 0


def test_spaces_around_names_are_ignored(run) -> None:
    assert run(*FIT, "--drop", "id , rooms", "--drop", "town").code == 0
    assert list(gpexperts.load("new.gpx").feature_names_in_) == ["area"]


def test_types_override_the_guess(run) -> None:
    assert run(*FIT, "--type", "rooms=category", "--type", "id=category").code == 0
    kinds = {c.name: c.kind for c in gpexperts.load("new.gpx").table_.columns}
    assert kinds == {"id": "category", "area": "number", "rooms": "category", "town": "category"}


def test_missing_values_are_counted_or_dropped(run) -> None:
    rows = Path("houses.csv").read_text().splitlines()
    rows[3] = "h2,,3,north,200.0"
    rows[5] = "h4,50.0,NA,,210.0"
    rows[9] = "h8,50.0,2,south,nan"
    Path("gaps.csv").write_text("\n".join(rows))
    ended = run("fit", "gaps.csv", *FIT[2:])
    assert ended.code == 0
    assert "price: 1 row without it is left out" in ended.err
    assert "299 rows (1 with missing values left out)" in ended.err
    assert [column.gaps for column in gpexperts.load("new.gpx").model_.encoder.columns] == [True, True, True]
    ended = run("evaluate", "new.gpx", "gaps.csv", "--json")
    assert json.loads(ended.out)["n"] == 299
    assert json.loads(ended.out)["training_table"] is True
    ended = run("fit", "gaps.csv", *FIT[2:], "--drop-missing")
    assert "297 rows (3 with missing values left out)" in ended.err
    ended = run("evaluate", "new.gpx", "gaps.csv", "--json")
    assert json.loads(ended.out)["n"] == 297
    assert "2 rows cannot be predicted (1 without area; 1 without rooms; 1 without town)" in ended.err
    assert "1 row without a target left out" in ended.err
    assert "is the table that the model was fitted to" in ended.err


def test_booleans_and_integers_are_numbers(run) -> None:
    table = pacsv.read_csv("houses.csv").drop(["id", "town"])
    table = table.append_column("garden", pa.array(np.arange(300) % 2 == 0))
    pacsv.write_csv(table, "garden.csv")
    assert run("fit", "garden.csv", *FIT[2:]).code == 0
    assert [c.kind for c in gpexperts.load("new.gpx").table_.columns] == ["number", "number", "boolean"]
    assert run("predict", "new.gpx", "garden.csv", "-o", "out.csv").code == 0


def test_weights_and_noise_are_passed_to_fit(run, monkeypatch) -> None:
    passed = {}

    def fit(model, X, y, sample_weight=None, noise_std=None) -> None:
        passed.update(names=X.column_names, y=y, sample_weight=sample_weight, noise_std=noise_std)
        raise ValueError("not fitted")

    monkeypatch.setattr(gpexperts.DistributedGPRegressor, "fit", fit)
    assert "not fitted" in run(*FIT, "--weights", "rooms", "--noise-std", "area").err
    table = read_as("houses.csv")
    np.testing.assert_array_equal(passed["sample_weight"], table["rooms"].to_numpy())
    np.testing.assert_array_equal(passed["noise_std"], table["area"].to_numpy())
    np.testing.assert_array_equal(passed["y"], table["price"].to_numpy())
    assert passed["names"] == ["town"]

"""A configuration file repeats a fit."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpexperts
from gpexperts.cli.run_config import read_config, write_config
from tests.cli.houses import FIT

# A length scale at its bound is reported, which is no failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")

TEXT = st.text(st.characters(blacklist_categories=["Cs"]))


def test_written_file_repeats_the_fit(run) -> None:
    args = ("--drop", "town", "--type", "rooms=category", "--na-values", "x", "--test", "0.5")
    assert run(*FIT, *args, "--write-config", "run.toml").code == 0
    first = gpexperts.load("new.gpx")
    table = tomllib.loads(Path("run.toml").read_text())["table"]
    assert table["features"] == ["area", "rooms"]
    assert table["types"] == {"area": "number", "rooms": "category"}
    Path("new.gpx").unlink()
    ended = run("fit", "--config", "run.toml")
    assert ended.code == 0, ended.err
    again = gpexperts.load("new.gpx")
    assert again.table_.columns == first.table_.columns
    assert again.table_.scores == first.table_.scores
    assert again.get_params() == first.get_params()
    assert run("fit", "--config", "run.toml", "-o", "other.gpx", "--features", "area").code == 0
    assert [c.name for c in gpexperts.load("other.gpx").table_.columns] == ["area"]


@given(st.lists(TEXT), st.dictionaries(TEXT, TEXT), TEXT, st.floats(allow_nan=False, allow_infinity=False))
def test_values_are_read_as_they_were_written(tmp_path_factory, names, types, text, number) -> None:
    path = tmp_path_factory.mktemp("config") / "run.toml"
    settings = {"n_experts": 3, "standardize": False, "selection": {"name": "knn", "metric": "manhattan"}}
    table = {"file": text, "drop": names, "types": types, "test": number, "drop_missing": True}
    write_config(path, settings, table)
    assert read_config(path) == (settings, table)

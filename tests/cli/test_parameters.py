"""Every parameter with a flag is an option of `gpexperts fit`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from gpexperts import DistributedGPRegressor
from gpexperts.cli.parameters import with_options
from gpexperts.parameters import PARAMETERS, Parameter

OPTIONS: dict[tuple[str, ...], dict[str, Any]] = {
    ("--n-experts", "3"): {"n_experts": 3},
    ("--expert-size", "50"): {"expert_size": 50},
    ("--partition", "kmeans"): {"partition": "kmeans"},
    ("--kernel", "matern32"): {"kernel": "matern32"},
    ("--n-restarts", "2"): {"n_restarts": 2},
    ("--training", "full"): {"training": "full"},
    ("--selection", "dnn"): {"selection": "dnn"},
    ("--n-selected", "0.25"): {"n_selected": 0.25},
    ("--n-neighbors", "64"): {"n_neighbors": 64},
    ("--aggregation", "rbcm"): {"aggregation": "rbcm"},
    ("--calibrate", "conformal"): {"calibrate": "conformal"},
    ("--calibrate", "none"): {"calibrate": None},
    ("--noise", "student"): {"noise": "student"},
    ("--target-transform", "log"): {"target_transform": "log"},
    ("--trend", "boosting"): {"trend": "boosting"},
    ("--trend-role", "mean"): {"trend_role": "mean"},
    ("--no-standardize",): {"standardize": False},
    ("--memory-budget", "2GiB"): {"memory_budget": "2GiB"},
    ("--engine", "dask"): {"engine": "dask"},
    ("--engine", "tcp://host:1"): {"engine": "tcp://host:1"},
    ("--n-jobs", "2"): {"n_jobs": 2},
    ("--random-state", "7"): {"random_state": 7},
}


@pytest.mark.parametrize("option", OPTIONS, ids=" ".join)
def test_option_sets_its_parameter_and_no_other(run, monkeypatch, option: tuple[str, ...]) -> None:
    fitted = []

    def fit(model: DistributedGPRegressor, X: Any, y: np.ndarray) -> None:
        fitted.append(model.get_params(deep=False))
        raise ValueError("not fitted")

    monkeypatch.setattr(DistributedGPRegressor, "fit", fit)
    ended = run("fit", "houses.csv", "-t", "price", "--drop", "id,town", "-o", "new.gpx", *option)
    assert "not fitted" in ended.err
    defaults = DistributedGPRegressor().get_params(deep=False)
    assert fitted == [defaults | {"random_state": 0} | OPTIONS[option]]


def test_every_parameter_with_a_flag_is_an_option(run) -> None:
    flags = {name for name, parameter in PARAMETERS.items() if parameter.flag is not None}
    assert flags == {name for values in OPTIONS.values() for name in values}
    out = run("fit", "--help").out
    for name in PARAMETERS:
        # --verbose is an option of all commands, not of the model.
        assert (f"--{name.replace('_', '-')}" in out) == (name in flags or name == "verbose")


def test_help_shows_no_type_for_options_without_a_value(run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out = run("fit", "--help").out
    assert "<bool" not in out.lower()
    for words in (("--standardize", "--no-standardize", "Whether"), ("--quiet", "-q", "Print errors only")):
        (line,) = [line for line in out.splitlines() if words[0] in line]
        assert all(word in line for word in words)


def test_options_are_made_from_the_table() -> None:
    table = {
        "depth": Parameter("auto", 'int or "auto"', "How deep.", str),
        "shape": Parameter(None, '{None, "round", "flat"}', "Which shape.", str),
        "strict": Parameter(True, "bool", "Whether it is strict.", bool),
        "budget": Parameter(1, "int", "A size.", lambda text: 1000 * int(text)),
        "hidden": Parameter(None, "int", "No option.", None),
    }
    seen: list[dict[str, Any]] = []
    app = typer.Typer()

    @app.command()
    @with_options(table)
    def show(name: str, given: dict[str, Any]) -> None:
        seen.append({"name": name, **given})

    def invoke(*args: str) -> str:
        return CliRunner().invoke(app, args, env={"COLUMNS": "200"}).output

    invoke("a")
    invoke("b", "--depth", "3", "--shape", "flat", "--no-strict", "--budget", "2")
    invoke("c", "--depth", "auto", "--strict")
    assert seen == [
        {"name": "a"},
        {"name": "b", "depth": 3, "shape": "flat", "strict": False, "budget": 2000},
        {"name": "c", "depth": "auto", "strict": True},
    ]
    help_text = invoke("--help")
    assert "Which shape. One of: none, round, flat." in help_text
    assert "How deep. [default: (auto)]" in help_text
    assert "hidden" not in help_text

"""Every experiment on a few rows: it runs, resumes, and writes its files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from gpexperts.paper import figures
from gpexperts.paper.datasets import find
from gpexperts.paper.experiment import Config, Experiment, Row
from gpexperts.paper.experiments import EXPERIMENTS
from gpexperts.paper.runner import reproduce, write_finished
from gpexperts.paper.store import RunStore
from gpexperts.paper.tables import read_csv

TINY = (60, 12)

needs_data = pytest.mark.skipif(find("concrete") is None, reason="the data sets of the paper are missing")


@needs_data
@pytest.mark.data
@pytest.mark.parametrize(
    "at_most",
    [pytest.param(2, id="some settings"), pytest.param(100, id="all settings", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda e: e.name)
def test_reproduce_writes_table_and_figure(
    experiment: Experiment, at_most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With some settings a figure is drawn once: for its SVG."""
    suffixes = [".csv", ".md", ".svg"]
    if at_most < 100:
        monkeypatch.setattr(figures, "save_png", lambda figure, path: None)
    else:
        suffixes.append(".png")
    every = -(-len(experiment.configs) // at_most)
    experiment = dataclasses.replace(experiment, configs=experiment.configs[::every])
    outcome = reproduce(experiment, tmp_path, [0], TINY)
    assert outcome.rows
    lacks_song = find("song") is None and any(c.get("data") == "song" for c in experiment.configs)
    assert outcome.missing == (["song"] if lacks_song else [])
    for suffix in suffixes:
        assert (tmp_path / f"{experiment.name}{suffix}").stat().st_size > 100
    assert "nan" not in (tmp_path / f"{experiment.name}.md").read_text()


def test_finished_runs_are_not_repeated(tmp_path: Path) -> None:
    experiment = EXPERIMENTS["selection-scheme"]
    first = reproduce(experiment, tmp_path, [0], TINY)
    seeds: list[int] = []

    def counted(config: Config, seed: int) -> list[Row]:
        seeds.append(seed)
        return experiment.run(config, seed)

    again = reproduce(dataclasses.replace(experiment, run=counted), tmp_path, [0, 1], TINY)
    assert seeds == [1]
    assert [row for row in again.rows if row["seed"] == 0] == first.rows


def test_experiments_in_the_order_of_the_paper() -> None:
    assert list(EXPERIMENTS) == [
        "concrete-baselines", "concrete-graph", "selection-scheme", "concrete-selection",
        "concrete-activation", "concrete-ci", "synthetic-intervals", "synthetic-k",
        "synthetic-quality", "pumadyn", "real-world", "partition", "consistency", "cost", "fixed-sets",
        "pol-k", "protein-target", "sarcos-recall",
    ]  # fmt: skip


def test_configurations_are_json() -> None:
    for experiment in EXPERIMENTS.values():
        assert json.loads(json.dumps(experiment.configs)) == [dict(c) for c in experiment.configs]


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda e: e.name)
def test_numbers_of_the_paper_have_possible_keys(experiment: Experiment) -> None:
    known = {c.get("data") for c in experiment.configs}
    for key, numbers in experiment.table.paper.items():
        assert len(key) == len(experiment.table.keys)
        assert set(numbers) <= set(experiment.table.scores)
        if experiment.table.keys[0] == "data":
            assert key[0] in known


def test_unfinished_experiment_uses_common_seeds(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs.jsonl")
    experiment = EXPERIMENTS["partition"]
    first, second, *_ = experiment.configs
    for config, seed in ((first, 0), (first, 1), (second, 0)):
        rows = [
            {"data": "concrete", "partition": config["partition"], "method": "PoE", "smse": 0.1, "msll": -1.0}
        ]
        store.add(experiment.name, config, seed, rows, 1.0)
    write_finished([experiment, EXPERIMENTS["cost"]], tmp_path)
    assert {row["seed"] for row in read_csv(tmp_path / "partition.csv")} == {0}
    assert not (tmp_path / "cost.csv").exists()

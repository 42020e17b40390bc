from __future__ import annotations

from pathlib import Path

import pytest

from gpexperts.paper.store import RunStore

ROWS = [{"method": "NPAE", "smse": 0.1}]


def test_finished_run_is_found_by_another_store(tmp_path: Path) -> None:
    path = tmp_path / "new" / "runs.jsonl"
    RunStore(path).add("e", {"n": 5, "M": 2}, 0, ROWS, 1.5)
    store = RunStore(path)
    assert store.find("e", {"M": 2, "n": 5}, 0) == ROWS
    assert store.seconds("e") == 1.5


@pytest.mark.parametrize(
    ("experiment", "config", "seed"), [("f", {"n": 5}, 0), ("e", {"n": 6}, 0), ("e", {"n": 5}, 1)]
)
def test_other_experiment_configuration_or_seed_is_another_run(
    tmp_path: Path, experiment: str, config: dict[str, int], seed: int
) -> None:
    store = RunStore(tmp_path / "runs.jsonl")
    store.add("e", {"n": 5}, 0, ROWS, 1.0)
    assert store.find(experiment, config, seed) is None


def test_incomplete_line_loses_only_its_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    store = RunStore(path)
    for seed in range(3):
        store.add("e", {}, seed, ROWS, 1.0)
    path.write_bytes(path.read_bytes()[:-20])
    store = RunStore(path)
    assert store.find("e", {}, 1) == ROWS
    assert store.find("e", {}, 2) is None
    store.add("e", {}, 3, ROWS, 1.0)
    assert RunStore(path).find("e", {}, 3) == ROWS


def test_run_stores_versions(tmp_path: Path) -> None:
    RunStore(tmp_path / "runs.jsonl").add("e", {}, 0, ROWS, 1.0)
    text = (tmp_path / "runs.jsonl").read_text()
    assert all(f'"{name}": "' in text for name in ("gpexperts", "numpy", "scipy", "scikit-learn", "python"))

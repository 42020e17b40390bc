"""Run an experiment, except for its finished runs, and write its table and figure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpexperts.paper.datasets import VARIANTS, find
from gpexperts.paper.experiment import Config, Experiment, Limit, Row, limited
from gpexperts.paper.figures import save
from gpexperts.paper.store import RunStore
from gpexperts.paper.tables import markdown_table, write_csv

__all__ = ["QUICK", "Outcome", "finished_rows", "reproduce", "write_finished", "write_results"]

QUICK: Limit = (1000, 200)
"""Rows of a quick run."""

OnRun = Callable[[str, int, int], None]
"""Called before each run with a label, the number of finished runs, and the number of all runs."""


@dataclass(frozen=True)
class Outcome:
    """Results of an experiment."""

    rows: list[Row]
    missing: list[str]
    """Data sets that are not present; their runs were left out."""
    seconds: float


def reproduce(
    experiment: Experiment,
    out: Path,
    seeds: Sequence[int],
    limit: Limit | None = None,
    on_run: OnRun | None = None,
) -> Outcome:
    """Do the runs that are not in `out`, then write NAME.csv, .md, .png and .svg there.

    Parameters
    ----------
    experiment : Experiment
    out : Path
        Folder of the results; its runs.jsonl holds the finished runs.
    seeds : sequence of int
    limit : (int, int), optional
        At most so many training and test rows.
    on_run : callable, optional
        Progress; see `OnRun`.
    """
    began = time.perf_counter()
    store = RunStore(out / "runs.jsonl")
    configs, missing = _possible(experiment, limit)
    runs = [(config, seed) for config in configs for seed in seeds]
    for i, (config, seed) in enumerate(runs):
        if on_run is not None:
            on_run(f"{experiment.name}: {_label(config)}seed {seed}", i, len(runs))
        if store.find(experiment.name, config, seed) is None:
            run_began = time.perf_counter()
            rows = experiment.run(config, seed)
            store.add(experiment.name, config, seed, rows, time.perf_counter() - run_began)
    rows = finished_rows(experiment, store, seeds, limit)
    write_results(experiment, rows, out, missing)
    return Outcome(rows, missing, time.perf_counter() - began)


def finished_rows(
    experiment: Experiment, store: RunStore, seeds: Sequence[int], limit: Limit | None = None
) -> list[Row]:
    """Return the rows of the finished runs of an experiment with these seeds."""
    configs, _ = _possible(experiment, limit, absent_too=True)
    rows = [
        {"experiment": experiment.name, "seed": seed} | row
        for config in configs
        for seed in seeds
        for row in store.find(experiment.name, config, seed) or []
    ]
    places = list(dict.fromkeys(row.get("data") for row in rows))
    return sorted(rows, key=lambda row: places.index(row.get("data")))


def write_finished(experiments: Iterable[Experiment], out: Path) -> None:
    """Write tables and figures of the finished runs in `out`.

    Only seeds are used that are finished for every started configuration, so that all means are over the same
    seeds.
    """
    store = RunStore(out / "runs.jsonl")
    for experiment in experiments:
        done = [
            {
                seed
                for seed in range(experiment.seeds)
                if store.find(experiment.name, config, seed) is not None
            }
            for config in experiment.configs
        ]
        seeds = sorted(set.intersection(*filter(None, done))) if any(done) else []
        if seeds:
            write_results(experiment, finished_rows(experiment, store, seeds), out)


def write_results(experiment: Experiment, rows: list[Row], out: Path, missing: Sequence[str] = ()) -> None:
    """Write the table and the figure of an experiment from its rows."""
    out.mkdir(parents=True, exist_ok=True)
    write_csv(rows, out / f"{experiment.name}.csv")
    n_seeds = len({row["seed"] for row in rows})
    note = "".join(
        f"\nNot run: {name} is not present (`gpexperts datasets --download {name}`).\n" for name in missing
    )
    (out / f"{experiment.name}.md").write_text(
        f"### {experiment.name}\n\n{experiment.paper}: {experiment.about}. "
        + (f"Mean ± standard deviation over {n_seeds} seeds.\n\n" if n_seeds > 1 else "One seed.\n\n")
        + markdown_table(rows, experiment.table)
        + note,
        encoding="utf-8",
    )
    if rows:
        save(experiment.draw(rows), out / experiment.name)


def _possible(
    experiment: Experiment, limit: Limit | None, absent_too: bool = False
) -> tuple[list[Config], list[str]]:
    """Return the configurations whose data are present, and the names of the missing data."""
    present: list[Config] = []
    missing: list[str] = []
    for config in experiment.configs:
        data = config.get("data")
        if data is None or absent_too or find(str(VARIANTS.get(data, data))) is not None:
            small = limited(config, limit)
            if small not in present:  # two configurations may become equal by the limit
                present.append(small)
        elif data not in missing:
            missing.append(data)
    return present, missing


def _label(config: Config) -> str:
    named = [
        f"{key} {config[key]}" for key in ("data", "n", "n_experts", "partition", "sweep") if key in config
    ]
    return ", ".join(named) + ", " if named else ""

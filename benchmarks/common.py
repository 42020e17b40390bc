"""Shared by all benchmarks: data splits, runs in their own process with a time limit, lines of JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
LIMIT = 15 * 60
"""Seconds allowed for a run; a run that takes longer is reported as 'not done'."""

if (beside := HERE.parents[1] / "shared" / "data").is_dir():
    os.environ.setdefault("GPEXPERTS_DATA", str(beside))


def load(name: str) -> tuple[np.ndarray, ...]:
    """Return X_train, y_train, X_test, y_test of a data set, or of 200,000 rows of flights3m."""
    try:
        from gpexperts.paper import datasets
    except ModuleNotFoundError:  # compare.py also runs checkouts older than gpexperts.paper
        from gpexperts import datasets

    if name != "flights200k":
        return tuple(datasets.split(name))
    arrays = datasets.load("flights3m")
    order = np.random.default_rng(0).permutation(len(arrays["y"]))
    train, test = order[:200_000], order[-10_000:]
    X, y = arrays["X"].astype(float), arrays["y"].astype(float)
    return X[train], y[train], X[test], y[test]


def machine() -> dict[str, Any]:
    """Return the date, the processor and the load average of the last minute."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [
            line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    load = round(os.getloadavg()[0], 1)
    return {"date": date.today().isoformat(), "cpu": model, "cores": os.cpu_count(), "load": load}


def peak_gigabytes() -> float:
    """Largest resident size of this process so far."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (1e9 if sys.platform == "darwin" else 1e6)


def timed(action: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return the result of `action`, its wall-clock seconds and its CPU seconds over all cores."""
    began, used = time.perf_counter(), time.process_time()
    value = action()
    return value, time.perf_counter() - began, time.process_time() - used


def run_apart(
    script: str, arguments: list[str], limit: float = LIMIT, source: Path | None = None
) -> dict[str, Any]:
    """Run a script in a new process and return the JSON that it prints last, or the reason of its failure.

    Parameters
    ----------
    script : str
        A file of this folder.
    arguments : list of str
    limit : float
        Seconds after which the process is ended.
    source : Path, optional
        Folder from which gpexperts is imported; by default the installed one.
    """
    environment = os.environ if source is None else {**os.environ, "PYTHONPATH": str(source)}
    began = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / script), *arguments],
            capture_output=True, text=True, timeout=limit, check=False, env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"status": f"not done after {limit:.0f} s"}
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        return {"status": f"failed: {lines[-1][:200]}", "seconds": time.perf_counter() - began}
    return {"status": "done", **json.loads(done.stdout.strip().splitlines()[-1])}


def run_grid(
    script: str,
    about: str | None,
    one: Callable[..., None],
    axes: Mapping[str, Sequence[Any]],
    *,
    repeat: bool = False,
    limit: float = LIMIT,
) -> None:
    """Command line of a benchmark: run ``one`` for each combination of the axes, each in its own process.

    Every axis is an option that takes some of its values. Combinations in ``results/script.jsonl`` are not
    run again, unless `repeat`. A run ends after `limit` seconds.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for axis, values in axes.items():
        kind = type(values[0])
        choices = values if kind is str else None
        parser.add_argument(f"--{axis}", nargs="*", type=kind, default=values, choices=choices)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = vars(parser.parse_args())
    if args["one"]:
        one(*(args[axis][0] for axis in axes))
        return
    cases = [dict(zip(axes, values, strict=True)) for values in product(*(args[axis] for axis in axes))]
    run_cases(script, cases, repeat=repeat, limit=limit)


def run_cases(
    script: str, cases: Sequence[Mapping[str, Any]], *, repeat: bool = False, limit: float = LIMIT
) -> None:
    """Run a benchmark for each case, in its own process with the case as options, and store the results.

    Cases in ``results/script.jsonl`` are not run again, unless `repeat`.
    """
    done = [] if repeat else [r for r in rows(script) if r["status"] == "done"]
    for case in cases:
        if not any(all(r.get(name) == value for name, value in case.items()) for r in done):
            options = [text for name, value in case.items() for text in (f"--{name}", str(value))]
            row = {**case, **run_apart(f"{script}.py", ["--one", *options], limit), **machine()}
            append(script, row)
            print(json.dumps(row), flush=True)


def write_between(page: Path, name: str, lines: str) -> None:
    """Replace the text between two marks of a page."""
    marks = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    text, found = marks.subn(lambda m: f"{m[1]}{lines}\n{m[2]}", page.read_text(encoding="utf-8"))
    assert found == 1, f"{page} has no place for {name}"
    page.write_text(text, encoding="utf-8")


def append(name: str, row: dict[str, Any]) -> None:
    """Add a line to ``results/name.jsonl``."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def rows(name: str) -> list[dict[str, Any]]:
    """All lines of ``results/name.jsonl``; none if there is no such file."""
    path = RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []

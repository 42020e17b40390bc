"""What every benchmark shares: one run in a process of its own, with a limit, and a line of JSON for it."""

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

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
LIMIT = 15 * 60
"""Seconds a run may take; one that takes longer is 'not done', which is no win for anybody."""

if (beside := HERE.parents[1] / "shared" / "data").is_dir():
    os.environ.setdefault("GPEXPERTS_DATA", str(beside))


def machine() -> dict[str, Any]:
    """What a time was measured on, and how many others wanted its cores in the last minute."""
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
    """Return what `action` returns, and the seconds it took by the clock and of all the cores together."""
    began, used = time.perf_counter(), time.process_time()
    value = action()
    return value, time.perf_counter() - began, time.process_time() - used


def run_apart(script: str, arguments: list[str], limit: float = LIMIT) -> dict[str, Any]:
    """Run ``script arguments`` in a new process and return the JSON it prints last, or why there is none."""
    began = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / script), *arguments],
            capture_output=True, text=True, timeout=limit, check=False,
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
) -> None:
    """Be the command line of a benchmark: ``one`` for each combination of the axes, in a process of its own.

    Every axis is an option that takes some of its values. What is in ``results/script.jsonl`` is not run
    again, unless `repeat`.
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
    done = [] if repeat else [[r[axis] for axis in axes] for r in rows(script) if r["status"] == "done"]
    for values in product(*(args[axis] for axis in axes)):
        if list(values) not in done:
            named = dict(zip(axes, values, strict=True))
            options = [text for axis, value in named.items() for text in (f"--{axis}", str(value))]
            row = {**named, **run_apart(f"{script}.py", ["--one", *options]), **machine()}
            append(script, row)
            print(json.dumps(row), flush=True)


def write_between(page: Path, name: str, lines: str) -> None:
    """Write what stands in a page between the marks of a name."""
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

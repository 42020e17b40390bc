"""Compare the defaults of two checkouts: accuracy, time and memory, in one run on one machine.

    python benchmarks/compare.py ../before . --data concrete pol --seed 0 1 2 3 4

Every fit has its own process, which imports gpexperts from the folder src/ of one checkout. The two checkouts
take turns, and the first one changes with each seed, so that both have the same share of a busy machine.
Every run is printed and added to results/compare.jsonl (or to --out). At the end a table shows, for each data
set, the median of both checkouts over the seeds and the median of the ratios after / before of the pairs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import common

Row = dict[str, Any]
SIDES = ("before", "after")
DATA = ("concrete", "airfoil", "parkinsons", "pumadyn32nm", "pol", "protein", "sarcos", "flights200k")
SCORES = ("smse", "msll", "coverage")
COSTS = ("fit_seconds", "fit_cpu", "predict_seconds", "predict_cpu", "again_seconds", "peak_gb")
"""The first prediction factorises the experts; "again" is the fastest of three further ones."""


def one(data: str, seed: int, source: Path) -> None:
    """Fit the defaults, predict and score the test rows; print a line of JSON."""
    import gpexperts
    from gpexperts.metrics import msll, smse

    if not Path(gpexperts.__file__).is_relative_to(source):
        raise SystemExit(f"gpexperts was imported from {gpexperts.__file__}, expected {source}.")
    X, y, X_test, y_test = common.load(data)
    model = gpexperts.DistributedGPRegressor(random_state=seed)
    _, fit_seconds, fit_cpu = common.timed(lambda: model.fit(X, y))
    (mean, std), predict_seconds, predict_cpu = common.timed(lambda: model.predict(X_test, return_std=True))
    again = min(common.timed(lambda: model.predict(X_test, return_std=True))[1] for _ in range(3))
    peak = common.peak_gigabytes()
    lower, upper = model.predict_interval(X_test)
    rows = b"".join(np.ascontiguousarray(array).tobytes() for array in (X, y, X_test, y_test))
    result = {
        "smse": smse(y_test, mean),
        "msll": msll(y_test, mean, std, y),
        "coverage": float(np.mean((lower <= y_test) & (y_test <= upper))),
        "fit_seconds": fit_seconds,
        "fit_cpu": fit_cpu,
        "predict_seconds": predict_seconds,
        "predict_cpu": predict_cpu,
        "again_seconds": again,
        "peak_gb": peak,
        "rows": hashlib.sha256(rows).hexdigest()[:16],
    }
    print(json.dumps(result))


def run(checkouts: dict[str, Path], data: str, seed: int, limit: float) -> list[Row]:
    """Run both checkouts once, in turn."""
    rows = []
    for side in SIDES if seed % 2 == 0 else reversed(SIDES):
        source = checkouts[side] / "src"
        arguments = ["--one", data, str(seed), str(source)]
        row = {"data": data, "seed": seed, "side": side, "path": str(checkouts[side])}
        row |= {"commit": commit(checkouts[side])}
        row |= common.run_apart("compare.py", arguments, limit, source) | common.machine()
        rows.append(row)
    seen = {row["rows"] for row in rows if row["status"] == "done"}
    if len(seen) > 1:
        raise SystemExit(f"The checkouts split {data} differently; their results cannot be compared.")
    return rows


def commit(checkout: Path) -> str:
    """Return the commit of a checkout, marked with + if files differ from it; "" without Git."""
    described = subprocess.run(
        ["git", "-C", str(checkout), "describe", "--always", "--dirty=+"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return described.stdout.strip()


def table(results: list[Row]) -> str:
    """For each data set: medians over the seeds of both checkouts, and the median ratio of the pairs."""
    names = (*SCORES, *COSTS)
    lines = [
        "| data | seeds | | " + " | ".join(names) + " |",
        "| --- | ---: | --- |" + " ---: |" * len(names),
    ]
    for data in dict.fromkeys(row["data"] for row in results):
        runs = {(r["seed"], r["side"]): r for r in results if r["data"] == data and r["status"] == "done"}
        seeds = sorted(seed for seed, side in runs if side == "before" and (seed, "after") in runs)
        if not seeds:
            failed = next(r["status"] for r in results if r["data"] == data and r["status"] != "done")
            lines.append(f"| {data} | 0 | {failed} |" + " |" * len(names))
            continue
        for side in SIDES:
            medians = (statistics.median(runs[seed, side][name] for seed in seeds) for name in names)
            lines.append(
                f"| {data} | {len(seeds)} | {side} | " + " | ".join(f"{m:.4g}" for m in medians) + " |"
            )
        ratios = [
            statistics.median(runs[seed, "after"][name] / runs[seed, "before"][name] for seed in seeds)
            for name in COSTS
        ]
        cells = [""] * len(SCORES) + [f"{ratio:.3f}" for ratio in ratios]
        lines.append(f"| {data} | | after / before | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run both checkouts on all data sets and seeds, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, nargs="?", help="checkout to compare with")
    parser.add_argument("after", type=Path, nargs="?", help="checkout to judge")
    parser.add_argument("--data", nargs="*", default=DATA, choices=DATA, metavar="NAME")
    parser.add_argument("--seed", nargs="*", type=int, default=range(5), help="default: 0 to 4")
    parser.add_argument("--limit", type=float, default=common.LIMIT, help="seconds for a fit")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "compare.jsonl", metavar="FILE")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        data, seed, source = args.one
        one(data, int(seed), Path(source))
        return
    if args.before is None or args.after is None:
        parser.error("give two checkouts: BEFORE AFTER")
    checkouts = {"before": args.before.resolve(), "after": args.after.resolve()}
    for path in checkouts.values():
        if not (path / "src" / "gpexperts").is_dir():
            parser.error(f"{path} has no folder src/gpexperts.")
    results = []
    for data in args.data:
        for seed in args.seed:
            for row in run(checkouts, data, seed, args.limit):
                results.append(row)
                print(json.dumps(row), flush=True)
                with args.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()

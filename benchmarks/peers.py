"""gpexperts and other methods: time, memory and accuracy of one fit, on the data of the paper.

    python benchmarks/peers.py                         # all missing runs
    python benchmarks/peers.py --data pol --method gpexperts --seed 3
    python benchmarks/peers.py --paired                # compare row by row, from the runs of this machine
    python benchmarks/peers.py --table                 # write benchmarks/README.md

Each run has its own process and at most 15 minutes. All methods have the same rows, standardised by the
training part. gpexperts runs with seeds 0 to 4 and the median is reported, the other methods with seed 0.
Squared errors and log densities of the test rows are kept in out/peers, which is not part of the repository.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import common

if TYPE_CHECKING:
    from methods import Fitted

EXACT = 10_000
"""Number of rows up to which a method is compared with the exact GP."""
DATA = ("concrete", "airfoil", "parkinsons", "pumadyn32nm", "pol", "protein", "sarcos", "flights200k")


ROWS = common.HERE.parent / "out" / "peers"
"""Squared errors and log densities of the test rows of each run."""
RIVALS = ("LightGBM", "CatBoost", "HistGradientBoosting", "gpexperts, no trend")
"""What the defaults are compared with, row by row."""


def _rows_of(data: str, method: str, seed: int) -> Path:
    return ROWS / f"{data}-{method.replace(' ', '_')}-{seed}.npz"


def one(data: str, method: str, seed: int) -> None:
    """Fit, predict, score; print a line of JSON."""
    from gpexperts.metrics import msll, smse
    from gpexperts.scaling import ColumnSummary, Standardizer
    from methods import METHODS

    X, y, X_test, y_test = common.load(data)
    x_scale, y_scale = (Standardizer.of(ColumnSummary.of(A)) for A in (X, y[:, None]))
    X, y = x_scale.transform(X), y_scale.transform(y[:, None])[:, 0]
    X_test, y_test = x_scale.transform(X_test), y_scale.transform(y_test[:, None])[:, 0]
    before = common.peak_gigabytes()
    fitted, fit_seconds, fit_cpu = common.timed(lambda: METHODS[method](X, y, seed))
    (mean, std), predict_seconds, predict_cpu = common.timed(lambda: fitted.predict(X_test))
    scores = {
        "fit_seconds": fit_seconds,
        "fit_cpu": fit_cpu,
        "predict_seconds": predict_seconds,
        "predict_cpu": predict_cpu,
        "peak_gb": common.peak_gigabytes(),
        "peak_gb_before": before,
        "smse": smse(y_test, mean),
        "msll": msll(y_test, mean, std, y),
        **covered(y_test, mean, std, fitted.interval and fitted.interval(X_test)),
    }
    ROWS.mkdir(parents=True, exist_ok=True)
    density = -0.5 * ((y_test - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    np.savez(_rows_of(data, method, seed), error=(y_test - mean) ** 2, density=density)
    if fitted.kernel is not None and len(X) <= EXACT:
        scores |= distance_to_exact(fitted, X, y, X_test, mean, std)
    print(json.dumps({name: round(value, 5) for name, value in scores.items()}))


def covered(
    y: np.ndarray, mean: np.ndarray, std: np.ndarray, interval: tuple[np.ndarray, np.ndarray] | None
) -> dict[str, float]:
    """Coverage of 95 % intervals: of all rows, and the lowest of the tenths of the rows, ordered by std."""
    lower, upper = interval or (mean - 1.96 * std, mean + 1.96 * std)
    inside = (lower <= y) & (y <= upper)
    tenths = np.array_split(inside[np.argsort(std, kind="stable")], 10)
    return {"coverage": float(inside.mean()), "lowest_tenth": min(float(t.mean()) for t in tenths)}


def distance_to_exact(
    fitted: Fitted, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, mean: np.ndarray, std: np.ndarray
) -> dict[str, float]:
    """Distance of an approximation to the exact GP with the same hyperparameters.

    Means in units of the exact GP's standard deviations (root mean square), variances as the mean absolute
    difference of their logarithms.
    """
    from scipy.linalg import cho_factor, cho_solve, solve_triangular

    signal = fitted.kernel(X, X_test)  # without noise, because these are different rows
    factor = cho_factor(fitted.kernel(X), lower=True, overwrite_a=True)
    exact_mean = signal.T @ cho_solve(factor, y - fitted.prior_mean) + fitted.prior_mean
    explained = (solve_triangular(factor[0], signal, lower=True) ** 2).sum(axis=0)
    exact_var = np.diag(fitted.kernel(X_test[:1]))[0] - explained
    return {
        "mean_to_exact": float(np.sqrt(np.mean((mean - exact_mean) ** 2 / exact_var))),
        "variance_to_exact": float(np.mean(np.abs(np.log(std**2 / exact_var)))),
    }


def paired(data: str) -> list[dict[str, Any]]:
    """Compare the defaults with each rival on the same test rows: mean differences and standard errors.

    Of gpexperts, the mean over the seeds counts. Differences in SMSE and MSLL above 0 are in favour of the
    rival.
    """

    def of_method(method: str) -> dict[str, np.ndarray] | None:
        runs = [np.load(path) for seed in range(5) if (path := _rows_of(data, method, seed)).is_file()]
        return {name: np.mean([run[name] for run in runs], axis=0) for name in runs[0]} if runs else None

    ours, found = of_method("gpexperts"), []
    for rival in RIVALS:
        theirs = of_method(rival)
        if ours is None or theirs is None:
            continue
        row: dict[str, Any] = {"data": data, "rival": rival, "rows": len(ours["error"])}
        for name, sign in (("error", 1.0), ("density", -1.0)):
            worse = sign * (ours[name] - theirs[name])
            row[name] = round(float(worse.mean()), 5)
            row[f"{name}_se"] = round(float(worse.std() / np.sqrt(len(worse))), 5)
        found.append(row)
    return found


def main() -> None:
    """Do the missing runs, or write the table."""
    from methods import METHODS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="*", default=DATA, choices=DATA)
    parser.add_argument("--method", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seed", nargs="*", type=int, help="default: 0 to 4 for gpexperts, 0 for the others")
    parser.add_argument(
        "--limit", type=float, default=common.LIMIT, help="seconds for a run; default: %(default)s"
    )
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--paired", action="store_true", help="compare row by row and stop")
    parser.add_argument("--table", action="store_true", help="write benchmarks/README.md and stop")
    args = parser.parse_args()
    if args.one:
        one(args.data[0], args.method[0], args.seed[0])
        return
    if args.paired:
        for row in (row for data in args.data for row in paired(data)):
            common.append("paired", row)
            print(json.dumps(row))
        return
    if args.table:
        import table

        table.write()
        return
    done = {(r["data"], r["method"], r["seed"]) for r in common.rows("peers")}
    for data in args.data:
        for method in args.method:
            seeds = args.seed or (range(5) if method.startswith("gpexperts") else [0])
            for seed in seeds:
                if (data, method, seed) in done:
                    continue
                arguments = ["--one", "--data", data, "--method", method, "--seed", str(seed)]
                result = common.run_apart("peers.py", arguments, args.limit)
                row = {"data": data, "method": method, "seed": seed, **result, **common.machine()}
                common.append("peers", row)
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

"""The size where the exact GP stops: errors and fit times just below it, just above it, and at 10,000 rows.

    python benchmarks/sizes.py                                    # all missing runs
    python benchmarks/sizes.py --function field --rows 3600 --seed 0
    python benchmarks/sizes.py --before ../before                 # also fit times of another checkout

Up to `EXACT_ROWS` rows the defaults are the exact GP, beyond they have several experts. Each run fits the
defaults and compares their error, the RMSE to the true function at 2,000 test inputs, with the exact GP on
the same rows: at the same θ (a Cholesky factor), and with a θ of its own (gpexperts with n_experts=1). With a
boosted trend there is no same θ, and both are the latter.

The target: an RMSE at most 3 % above that of the exact GP.
"""

from __future__ import annotations

import argparse
import json
import statistics
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import common
from functions import FUNCTIONS, problem

TEST_ROWS = 2000


def default_rows() -> list[int]:
    """The sizes to compare."""
    from gpexperts.partition.assign import EXACT_ROWS

    return [EXACT_ROWS, round(1.2 * EXACT_ROWS), 10_000]


def one(function: str, rows: int, seed: int) -> None:
    """Fit, predict, compare with the exact GP; print a line of JSON."""
    from exact import ExactGP
    from gpexperts import DistributedGPRegressor

    data = problem(function, rows, TEST_ROWS, seed)

    def rmse(mean: np.ndarray) -> float:
        return float(np.sqrt(np.mean((mean - data.truth) ** 2)))

    model = DistributedGPRegressor(random_state=seed)
    _, fit_seconds, fit_cpu = common.timed(lambda: model.fit(data.X, data.y))
    ours, predict_seconds, _ = common.timed(lambda: model.predict(data.X_test))
    single = DistributedGPRegressor(n_experts=1, trend=None, random_state=seed)
    _, single_fit_seconds, _ = common.timed(lambda: single.fit(data.X, data.y))
    exact = single.predict(data.X_test)
    if model.model_.trend is None or model.model_.trend.sparse is not None:
        exact = ExactGP(model, data.X, data.y).solve_dense().mean(data.X_test)
    result = {
        "kernel": model.choices_["kernel"].value,
        "n_experts": model.n_experts_,
        "chosen": _chosen(model),
        "deviation": float(data.truth.std()),
        "rmse": rmse(ours),
        "rmse_exact": rmse(exact),
        "rmse_one_expert": rmse(single.predict(data.X_test)),
        "kernel_one_expert": single.choices_["kernel"].value,
        "fit_seconds": fit_seconds,
        "fit_cpu": fit_cpu,
        "predict_seconds": predict_seconds,
        "fit_seconds_one_expert": single_fit_seconds,
        "peak_gb": common.peak_gigabytes(),
    }
    print(json.dumps(result))


def _chosen(model: Any) -> str:
    trend = model.choices_["trend"].value
    return f"{model.predictor_.tuning}" + ("" if trend is None else f", trend {trend}")


def fit_only(function: str, rows: int, seed: int) -> None:
    """Time a fit with the defaults of any checkout; print a line of JSON."""
    from gpexperts import DistributedGPRegressor

    data = problem(function, rows, TEST_ROWS, seed)
    model = DistributedGPRegressor(random_state=seed)
    _, fit_seconds, fit_cpu = common.timed(lambda: model.fit(data.X, data.y))
    print(json.dumps({"fit_seconds": fit_seconds, "fit_cpu": fit_cpu}))


def compare_fits(before: Path, cases: list[dict[str, object]]) -> None:
    """Time the fits of two checkouts in turn, and print the medians over the seeds."""
    sources = {"before": before.resolve() / "src", "after": common.HERE.parent / "src"}
    seconds: dict[tuple[object, object], dict[str, list[float]]] = {}
    for case in cases:
        options = [text for name, value in case.items() for text in (f"--{name}", str(value))]
        for side, source in sources.items():
            row = common.run_apart("sizes.py", ["--fit-only", *options], source=source)
            row = {**case, "side": side, **row, **common.machine()}
            common.append("sizes-fits", row)
            print(json.dumps(row), flush=True)
            taken = seconds.setdefault((case["function"], case["rows"]), {"before": [], "after": []})
            if row["status"] == "done":
                taken[side].append(row["fit_seconds"])
    for (function, rows), taken in seconds.items():
        medians = {side: statistics.median(t) if t else float("nan") for side, t in taken.items()}
        print(
            f"{function}, {rows} rows: fit {medians['before']:.1f} s before, {medians['after']:.1f} s after"
        )


def main() -> None:
    """Do the missing runs, or compare fit times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--function", nargs="*", default=list(FUNCTIONS), choices=list(FUNCTIONS))
    parser.add_argument("--rows", nargs="*", type=int, help="default: 1.0 and 1.2 EXACT_ROWS, and 10,000")
    parser.add_argument("--seed", nargs="*", type=int, default=list(range(5)), help="default: 0 to 4")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="compare fit times, and stop")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fit-only", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one or args.fit_only:
        (one if args.one else fit_only)(args.function[0], args.rows[0], args.seed[0])
        return
    sizes = args.rows or default_rows()
    cases = [
        {"function": function, "rows": rows, "seed": seed}
        for function, rows, seed in product(args.function, sizes, args.seed)
    ]
    if args.before is not None:
        compare_fits(args.before, cases)
    else:
        common.run_cases("sizes", cases)


if __name__ == "__main__":
    main()

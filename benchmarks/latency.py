"""Latency: one row at a time in a loop, and time per query in batches.

    python benchmarks/latency.py                              # all missing runs
    python benchmarks/latency.py --model flights3m --rows 20000
    python benchmarks/latency.py --model pol scikit-learn

Each run has its own process: a fit with the defaults; predict(x, return_std=True) for one row at a time,
which gives the median and the 95th percentile; and batches of up to 10,000 rows. The model scikit-learn is
its exact GP on 2,000 rows of pol, at the θ of gpexperts.

The target: a median of at most 2 ms on pol and on 2,900,000 rows of flights3m, and a time per query at
2,900,000 rows of at most twice that at 100,000.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import common
from scale import load as load_flights

MODELS = ("pol", "flights3m", "scikit-learn")
FLIGHTS_ROWS = (100_000, 2_900_000)
POL_ROWS = 10_000
SKLEARN_ROWS = 2000
WARM_UP, SINGLE = 50, 1000
"""Single rows that are predicted before the measurement, and in it."""
BATCH, BATCHES = 10_000, 3


def one(model: str, rows: int) -> None:
    """Fit, predict single rows and batches; print a line of JSON."""
    from gpexperts import DistributedGPRegressor

    X, y, X_test, _ = load_flights("flights3m", rows) if model == "flights3m" else common.load("pol")
    X, y = X[:rows], y[:rows]
    ours = DistributedGPRegressor(random_state=0)
    _, fit_seconds, _ = common.timed(lambda: ours.fit(X, y))
    result: dict[str, Any] = {"fit_seconds": fit_seconds, "chosen": str(ours.predictor_.tuning)}
    predict: Callable[[np.ndarray], Any] = lambda Z: ours.predict(Z, return_std=True)  # noqa: E731
    if model == "scikit-learn":
        from sklearn.gaussian_process import GaussianProcessRegressor

        exact = GaussianProcessRegressor(ours.kernel_, optimizer=None).fit(X, y - y.mean())
        predict = lambda Z: exact.predict(Z, return_std=True)  # noqa: E731
        result["chosen"] = "the exact GP"
    print(json.dumps(result | measured(predict, X_test) | {"peak_gb": common.peak_gigabytes()}))


def measured(predict: Callable[[np.ndarray], Any], X_test: np.ndarray) -> dict[str, float]:
    """Times of single rows (ms) and of a query in batches (µs)."""
    order = np.random.default_rng(0).permutation(len(X_test))
    for i in order[:WARM_UP]:
        predict(X_test[i : i + 1])
    single = []
    for i in np.resize(order[WARM_UP:], SINGLE):
        row = X_test[i : i + 1]
        began = time.perf_counter()
        predict(row)
        single.append(time.perf_counter() - began)
    batch = X_test[order[:BATCH]]
    first, *again = (common.timed(lambda: predict(batch))[1] for _ in range(1 + BATCHES))
    median, p95 = 1e3 * np.quantile(single, [0.5, 0.95])
    return {
        "median_ms": float(median),
        "p95_ms": float(p95),
        "batch": len(batch),
        "first_us": 1e6 * first / len(batch),
        "batch_us": 1e6 * min(again) / len(batch),
    }


def main() -> None:
    """Do the missing runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", nargs="*", default=MODELS, choices=MODELS)
    parser.add_argument("--rows", nargs="*", type=int, help="of flights3m; default: 100,000 and 2,900,000")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one(args.model[0], args.rows[0])
        return
    sizes = {
        "pol": (POL_ROWS,),
        "flights3m": args.rows or FLIGHTS_ROWS,
        "scikit-learn": (SKLEARN_ROWS,),
    }
    common.run_cases("latency", [{"model": m, "rows": rows} for m in args.model for rows in sizes[m]])


if __name__ == "__main__":
    main()

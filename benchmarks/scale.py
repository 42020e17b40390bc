"""Growth of time and memory with the rows: flights3m, and a smooth function of six inputs.

    python benchmarks/scale.py                                  # all missing runs
    python benchmarks/scale.py --data flights3m --rows 2900000 --seed 0 1 2 3 4

Each run has its own process: a fit with the defaults, then predictions with standard deviations of
- all queries, which computes the factors of the experts (first);
- all queries again, with the factors that the memory budget keeps (again);
- 1,000 queries, which hardly share experts or pairs of experts (few);
- one query per 29 rows without kept factors, so that the queries per expert are the same at every size
  (in proportion).
Other seeds than 0 have the first prediction only.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np

import common

DATA = ("flights3m", "smooth")
ROWS = (10_000, 30_000, 100_000, 300_000, 1_000_000, 2_900_000)
QUERIES = 100_000
FEW = 1000
ROWS_PER_QUERY = 29
"""Gives `QUERIES` queries for the largest of `ROWS`."""


def load(name: str, rows: int) -> tuple[np.ndarray, ...]:
    """X, y, X_test, y_test."""
    rng = np.random.default_rng(0)
    if name == "smooth":
        X = rng.uniform(-1, 1, size=(rows + QUERIES, 6))
        f = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + X[:, 2] * X[:, 3] + np.exp(-4 * X[:, 4] ** 2)
        y = f + 0.3 * X[:, 5] + 0.1 * rng.standard_normal(len(X))
        return X[:rows], y[:rows], X[rows:], y[rows:]
    from gpexperts.paper.datasets import load as load_arrays

    arrays = load_arrays("flights3m")
    order = rng.permutation(len(arrays["y"]))
    train, test = order[:rows], order[-QUERIES:]
    X, y = arrays["X"], arrays["y"]
    return X[train].astype(float), y[train].astype(float), X[test].astype(float), y[test].astype(float)


def one(data: str, rows: int, seed: int) -> None:
    """Fit, predict, score; print a line of JSON."""
    from gpexperts import DistributedGPRegressor
    from gpexperts.metrics import msll, smse
    from peers import covered

    X, y, X_test, y_test = load(data, rows)
    before = common.peak_gigabytes()
    model = DistributedGPRegressor(random_state=seed)
    _, fit_seconds, fit_cpu = common.timed(lambda: model.fit(X, y))
    (mean, std), first, first_cpu = common.timed(lambda: model.predict(X_test, return_std=True))
    result = {
        "n_experts": model.n_experts_,
        "chosen": str(model.predictor_.tuning),
        "kernel": model.choices_["kernel"].value,
        "queries": len(X_test),
        "fit_seconds": fit_seconds,
        "fit_cpu": fit_cpu,
        "predict_seconds": first,
        "predict_cpu": first_cpu,
        "peak_gb": common.peak_gigabytes(),
        "peak_gb_before": before,
        "smse": smse(y_test, mean),
        "msll": msll(y_test, mean, std, y),
        **covered(y_test, mean, std, model.predict_interval(X_test)),
    }
    if seed == 0:
        result |= further(model, X_test, rows)
    print(json.dumps({k: round(v, 5) if isinstance(v, float) else v for k, v in result.items()}))


def further(model: Any, X_test: np.ndarray, rows: int) -> dict[str, Any]:
    """Predict again: all queries, few, and as many per expert as at any other size."""
    _, second, second_cpu = common.timed(lambda: model.predict(X_test, return_std=True))
    model.predict(X_test[:FEW], return_std=True)  # keeps the factors of their experts
    _, few, few_cpu = common.timed(lambda: model.predict(X_test[:FEW], return_std=True))
    fresh = copy.deepcopy(model)  # factors are not copied
    share = X_test[: rows // ROWS_PER_QUERY]
    _, in_proportion, in_proportion_cpu = common.timed(lambda: fresh.predict(share, return_std=True))
    return {
        "again_seconds": second,
        "again_cpu": second_cpu,
        "few": FEW,
        "few_seconds": few,
        "few_cpu": few_cpu,
        "in_proportion": len(share),
        "in_proportion_seconds": in_proportion,
        "in_proportion_cpu": in_proportion_cpu,
    }


if __name__ == "__main__":
    common.run_grid("scale", __doc__, one, {"data": DATA, "rows": ROWS, "seed": (0,)})

"""Time of samples, leave-one-out and updates on flights3m.

    python benchmarks/joint_scale.py                                        # all missing runs
    python benchmarks/joint_scale.py --what samples --rows 2900000

samples: 64 functions at 100,000 points (bar: 180 s with 2,900,000 rows). loo: every training row (bar: 15
minutes). loo_own: the same with the own expert of 128 rows alone, which the defaults choose for 100,000 rows.
updates: rows per second into the model, 1,000 at a time (bar: 10,000 a second into 1,000,000 rows), and 1,000
predictions: the first ones of the model, which compute factors; again; after the updates, which touch nearly
all parts. stream: the first days in turn, each predicted and then learned; the mean log density against a
new fit every day (bar: at most 0.01 worse over 20 days); --rows limits the rows of a day.

The models of all but `stream` have given hyperparameters, two experts and 64 neighbours for a query: the time
of the fit is not measured. Those of `stream` are trained, without a trend and with Gaussian noise.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import common
import scale

WHAT = ("samples", "loo", "loo_own", "updates", "stream")
ROWS = (10_000, 100_000, 1_000_000, 2_900_000)
DAYS = 20
LENGTHS = (3390.0, 2740.0, 250.0, 498.0, 0.0163, 51.4, 57.8, 282.0)
"""Length scales, trained on 100,000 rows."""
LIMIT = 45 * 60
"""Seconds for a run with its fits."""


def given(X: np.ndarray, y: np.ndarray, n_selected: int = 2, n_neighbors: int = 64) -> Any:
    """A model with given hyperparameters and experts, which is fitted in seconds."""
    from sklearn.gaussian_process.kernels import Matern, WhiteKernel

    from gpexperts import DistributedGPRegressor

    kernel = 73.0**2 * Matern(LENGTHS, nu=0.5) + WhiteKernel(340.0)
    settings = {"kernel": kernel, "optimizer": None, "trend": None, "noise": "gaussian"}
    settings |= {"n_selected": n_selected, "n_neighbors": n_neighbors}
    return DistributedGPRegressor(**settings, random_state=0).fit(X, y)


def trained(X: np.ndarray, y: np.ndarray) -> Any:
    from gpexperts import DistributedGPRegressor

    return DistributedGPRegressor(trend=None, noise="gaussian", random_state=0).fit(X, y)


def spent(model: Any, seconds: float, cpu: float) -> dict[str, Any]:
    """Time, memory, and the experts of a query. On a busy machine the CPU time is what can be compared."""
    tuning = model.predictor_.tuning
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "n_selected": tuning.n_selected,
        "n_neighbors": tuning.n_neighbors,
        "peak_gb": common.peak_gigabytes(),
    }


def samples(rows: int) -> dict[str, Any]:
    X, y, X_test, _ = scale.load("flights3m", rows)
    model = given(X, y)
    values, seconds, cpu = common.timed(lambda: model.draw_functions(64, random_state=0)(X_test))
    return {"points": len(values), **spent(model, seconds, cpu)}


def loo(rows: int, **setup: int) -> dict[str, Any]:
    X, y, _, _ = scale.load("flights3m", rows)
    model = given(X, y, **setup)
    result, seconds, cpu = common.timed(model.loo)
    return {"mean_log_density": float(result.log_density.mean()), **spent(model, seconds, cpu)}


def loo_own(rows: int) -> dict[str, Any]:
    return loo(rows, n_selected=0, n_neighbors=128)


def updates(rows: int) -> dict[str, Any]:
    X, y, X_test, y_test = scale.load("flights3m", rows)
    model = given(X, y)

    def learn() -> None:
        for start in range(0, 20_000, 1000):
            some = slice(start, start + 1000)
            model.partial_fit(X_test[some], y_test[some], retrain="never")

    def predict() -> float:
        return common.timed(lambda: model.predict(X_test[-1000:], return_std=True))[2]

    first, again = predict(), predict()
    _, seconds, cpu = common.timed(learn)
    following = predict()
    _, forgetting, _ = common.timed(lambda: model.forget(np.arange(0, 1000)))
    return {
        "rows_per_second": 20_000 / seconds,
        "rows_per_cpu_second": 20_000 / cpu,
        "first_1000_predictions_cpu": first,
        "again_1000_predictions_cpu": again,
        "next_1000_predictions_cpu": following,
        "forget_1000_seconds": forgetting,
        **spent(model, seconds, cpu),
    }


def stream(rows: int) -> dict[str, Any]:
    """`rows` limits the rows of a day."""
    from gpexperts.paper.datasets import load

    arrays = load("flights3m")
    X, y = arrays["X"].astype(float), arrays["y"].astype(float)
    rng = np.random.default_rng(0)
    days = [rng.permutation(np.flatnonzero(X[:, 0] == day))[:rows] for day in range(DAYS + 1)]
    updated = trained(X[days[0]], y[days[0]])
    scores: dict[str, list[float]] = {"updated": [], "refitted": []}
    seen = days[0]
    for today in days[1:]:
        refitted = trained(X[seen], y[seen])
        for name, model in (("updated", updated), ("refitted", refitted)):
            mean, std = model.predict(X[today], return_std=True)
            density = -0.5 * np.log(2 * np.pi * std**2) - 0.5 * ((y[today] - mean) / std) ** 2
            scores[name].append(float(density.mean()))
        updated.partial_fit(X[today], y[today])
        seen = np.concatenate([seen, today])
    means = {name: float(np.mean(values)) for name, values in scores.items()}
    return {**means, "difference": means["updated"] - means["refitted"], "days": len(days) - 1}


def one(what: str, rows: int) -> None:
    """Print a line of JSON."""
    result = {"samples": samples, "loo": loo, "loo_own": loo_own, "updates": updates, "stream": stream}[what](
        rows
    )
    print(json.dumps(result))


if __name__ == "__main__":
    common.run_grid("joint_scale", __doc__, one, {"what": WHAT, "rows": ROWS}, limit=LIMIT)

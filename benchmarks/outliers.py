"""Wrong targets and heavy tails: what robust noise keeps of a fit without them.

    python benchmarks/outliers.py                    # every set, three folds; then the tables
    python benchmarks/outliers.py --data concrete --fold 0

The training part is divided into three folds; a model is fitted to two of them, with the defaults but for
`noise`, and scored on the other, whose targets are as they are. A share of the targets that it is fitted to
is replaced by gross outliers: 5 to 20 standard deviations above or below the mean. "absent" is a model with
Gaussian noise, fitted without these rows: what the best guess of outliers could reach. "cauchy" is a function
with Cauchy noise, in all folds.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

import common
import functions

DATA = ("concrete", "field", "airfoil", "cauchy")
FOLDS = 3
ROWS = 1500
"""Of the functions."""
SHARES = (0.0, 0.005, 0.05)
NOISES = ("gaussian", "absent", "auto")
"""Gaussian noise is fitted to targets without outliers only: it is what the others are compared with."""
CLEAN = "gaussian 0.0"
"""The fit without outliers."""
CAUCHY_SCALE = 0.05
"""Scale of Cauchy noise, in standard deviations of the function."""
CAUCHY_WIDTH = 2 * 12.7062
"""Width of the central 95 % of a Cauchy distribution of scale 1."""


def rows_of(data: str) -> tuple[np.ndarray, np.ndarray, float | None]:
    """Return training inputs and targets, and the width of 95 % of the noise where it is known."""
    from gpexperts.paper.datasets import split

    if data not in ("field", "cauchy"):
        X, y, _, _ = split(data)
        return X, y, None
    found = functions.problem("field", ROWS, 10)
    if data == "field":
        return found.X, found.y, None
    truth = functions.field(found.X)
    scale = CAUCHY_SCALE * float(truth.std())
    return found.X, truth + scale * np.random.default_rng(2).standard_cauchy(ROWS), CAUCHY_WIDTH * scale


def with_outliers(y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Replace a share of the targets (n,)."""
    y, wrong = y.copy(), rng.permutation(len(y))[: round(share * len(y))]
    size = rng.choice([-1.0, 1.0], len(wrong)) * rng.uniform(5.0, 20.0, len(wrong))
    y[wrong] = y.mean() + size * y.std()
    return y


def one(data: str, fold: int) -> None:
    """Fit with and without outliers, and score the rows of a fold; print a line of JSON."""
    from gpexperts import DistributedGPRegressor

    X, y, needed = rows_of(data)
    out = np.random.default_rng(1).permutation(len(y)) % FOLDS == fold
    shares = SHARES if needed is None else (0.0,)
    results = {}
    for share in shares:
        y_fit = with_outliers(y[~out], share, np.random.default_rng([3, fold]))
        for noise in ("gaussian", "auto") if share == 0.0 else ("absent", "auto"):
            used = y_fit == y[~out] if noise == "absent" else np.ones(len(y_fit), dtype=bool)
            model = DistributedGPRegressor(noise="auto" if noise == "auto" else "gaussian", random_state=0)
            _, _, cpu = common.timed(lambda m=model, X=X[~out][used], t=y_fit[used]: m.fit(X, t))
            result: dict[str, Any] = {"fit_cpu": round(cpu, 2), "rows": int(out.sum())}
            result["noise"] = str(model.choices_["noise"].value) if "noise" in model.choices_ else noise
            trend = model.choices_.get("trend")
            result["trend"] = None if trend is None else trend.value
            error = (model.predict(X[out]) - y[out]) ** 2
            result["mse"] = float(np.median(error) if needed else np.mean(error))
            for level in (0.5, 0.95):
                lower, upper = model.predict_interval(X[out], level)
                result[f"inside {level}"] = float(np.mean((lower <= y[out]) & (y[out] <= upper)))
            result["width"] = float(np.median(upper - lower))
            result["needed"] = needed
            results[f"{noise} {share}"] = result
    print(json.dumps(results))


def tables() -> None:
    """Print the averages over the folds that have been run."""
    done = [row for row in common.rows("outliers") if row["status"] == "done"]
    print("\n| data | outliers | noise | chosen | RMSE, relative | 50 % | 95 % | width, relative | folds |")
    print("| --- " * 9 + "|")
    for data in DATA:
        folds = [row for row in done if row["data"] == data]
        for share in SHARES:
            for noise in NOISES:
                run = [row for row in folds if f"{noise} {share}" in row]
                if not run:
                    continue
                some, clean = ([row[key] for row in run] for key in (f"{noise} {share}", CLEAN))
                weight = [each["rows"] for each in some]

                def mean(key: str, rows: list[dict[str, Any]], weight: list[int] = weight) -> float:
                    return float(np.average([each[key] for each in rows], weights=weight))

                rmse = np.sqrt(mean("mse", some) / mean("mse", clean))
                base = mean("width", clean) if some[0]["needed"] is None else some[0]["needed"]
                chosen = "/".join(sorted({each["noise"] for each in some}))
                print(
                    f"| {data} | {100 * share:g} % | {noise} | {chosen} | {rmse:.3f} "
                    f"| {100 * mean('inside 0.5', some):.1f} | {100 * mean('inside 0.95', some):.1f} "
                    f"| {mean('width', some) / base:.3f} | {len(some)} |"
                )
    print(
        "\nRMSE and width: relative to Gaussian noise without outliers; for Cauchy noise, the root of the "
        "median squared error, and the width relative to that of the noise itself."
    )


if __name__ == "__main__":
    common.run_grid("outliers", __doc__, one, {"data": DATA, "fold": list(range(FOLDS))})
    if "--one" not in sys.argv:
        tables()

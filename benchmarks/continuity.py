"""Continuity: steps of the mean and of the standard deviation along straight lines.

    python benchmarks/continuity.py                    # both functions, all missing runs
    python benchmarks/continuity.py --data arm --rows 5000
    python benchmarks/continuity.py --picture          # write docs/maps.png

Each run fits the defaults to a field of 3,600 rows with two inputs, or to the arm of smooth.py, and predicts
at 2,000 points on each of several straight lines between random points: with the defaults (after), and with
the fixed experts alone, n_neighbors=0 (before). Reported are

- the largest step of the mean from one point to the next that exceeds the step of the exact GP at the same θ,
  in units of the latent standard deviation there;
- the largest |Δ log std| of the latent function and of an observation;
- the latent std of the own expert relative to that without the taper of its farthest rows.

The target: mean steps of at most 0.05, and a std that is at most 5 % larger.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

import common
from exact import DENSE, ExactGP, Settled
from functions import FUNCTIONS, Problem, problem

ROWS = {"field": 3600, "arm": 36_000}
LINES = 10
POINTS = 2000
SETUPS = {"before": {"n_neighbors": 0, "n_selected": "auto"}, "after": {"n_neighbors": "auto"}}
PART = 400
"""Rows of a fixed expert: what the defaults have above the size where the exact GP stops."""
USUAL_NEIGHBORS = 128
"""The own expert that is compared with its untapered form where the defaults have none."""
GRID = 150
"""Points of the maps in each direction."""


def fitted(name: str, rows: int) -> tuple[Any, Problem]:
    """Fit the defaults, with several experts whatever the number of rows."""
    from gpexperts import DistributedGPRegressor

    data = problem(name, rows, 1000)
    return DistributedGPRegressor(expert_size=PART, random_state=0).fit(data.X, data.y), data


def lines(name: str, rng: np.random.Generator) -> np.ndarray:
    """Return points (LINES, POINTS, d) on lines between random points of the box."""
    start, end = (FUNCTIONS[name].inputs(LINES, rng)[:, None] for _ in range(2))
    return start + np.linspace(0.0, 1.0, POINTS)[:, None] * (end - start)


def exact_means(model: Any, data: Problem, X: np.ndarray) -> np.ndarray:
    """Mean of the exact GP at X, by conjugate gradients if there are many rows."""
    exact = ExactGP(model, data.X, data.y)
    if len(data.X) <= DENSE:
        return exact.solve_dense().mean(X)
    steps = Settled(lambda: float(np.abs(np.diff(exact.mean(X[:POINTS]))).max()), 1e-3)
    return exact.solve(steps).mean(X)


def predictions(model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, latent std and std of an observation, each of the shape of X (LINES, POINTS, d) without d."""
    flat, shape = X.reshape(-1, X.shape[-1]), X.shape[:-1]
    mean, latent = model.predict(flat, return_std=True, latent=True)
    _, std = model.predict(flat, return_std=True)
    return mean.reshape(shape), latent.reshape(shape), std.reshape(shape)


def steps(mean: np.ndarray, latent: np.ndarray, std: np.ndarray, exact: np.ndarray) -> dict[str, float]:
    """Largest steps between neighbouring points of the lines; all arrays are (LINES, POINTS)."""
    beyond = np.abs(np.diff(mean)) - np.abs(np.diff(exact))
    per_line = (beyond / np.minimum(latent[:, 1:], latent[:, :-1])).max(axis=1)
    return {
        "mean_step": float(per_line.max()),
        "median_line": float(np.median(per_line)),
        "latent_log_step": float(np.abs(np.diff(np.log(latent))).max()),
        "std_log_step": float(np.abs(np.diff(np.log(std))).max()),
    }


def untapered(model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the predictions of the own expert without its taper."""
    from gpexperts.experts import own

    usual, own.FULL_SHARE = own.FULL_SHARE, 1.0
    try:
        return predictions(model, X)
    finally:
        own.FULL_SHARE = usual


def one(data: str, rows: int) -> None:
    """Fit, predict along the lines before and after, compare; print a line of JSON."""
    model, rows_of_data = fitted(data, rows)
    X = lines(data, np.random.default_rng(1))
    exact = exact_means(model, rows_of_data, X.reshape(-1, X.shape[-1])).reshape(X.shape[:-1])
    setups: dict[str, Any] = {}
    for name, parameters in SETUPS.items():
        model.set_params(**parameters)
        tuning = model.predictor_.tuning
        setups[name] = {"chosen": str(tuning), **steps(*predictions(model, X), exact)}
    m = tuning.n_neighbors or USUAL_NEIGHBORS
    model.set_params(n_neighbors=m, n_selected=0)
    alone, without = predictions(model, X), untapered(model, X)
    setups["own expert alone"] = {"chosen": str(model.predictor_.tuning), **steps(*alone, exact)}
    setups["own expert without taper"] = {"chosen": f"own expert of {m} rows", **steps(*without, exact)}
    ratio = alone[1] / without[1]
    result = {
        "kernel": model.choices_["kernel"].value,
        "n_experts": model.n_experts_,
        "lines": LINES,
        "points": POINTS,
        "setups": setups,
        "std_ratio_median": float(np.median(ratio)),
        "std_ratio_mean": float(np.mean(ratio)),
        "std_ratio_max": float(ratio.max()),
    }
    print(json.dumps(result))


def main() -> None:
    """Do the missing runs, or draw the maps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--rows", type=int, help="default: 3,600 for the field, 36,000 for the arm")
    parser.add_argument("--picture", action="store_true", help="write docs/maps.png and stop")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.picture:
        from maps import draw_maps

        draw_maps()
    elif args.one:
        one(args.data[0], args.rows)
    else:
        cases = [{"data": data, "rows": args.rows or ROWS[data]} for data in args.data]
        common.run_cases("continuity", cases)


if __name__ == "__main__":
    main()

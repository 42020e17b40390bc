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
LINES = {"field": 10, "arm": 4}
POINTS = 2000
SETUPS = {"before": {"n_neighbors": 0, "n_selected": "auto"}, "after": {"n_neighbors": "auto"}}
PART = 400
"""Rows of a fixed expert: what the defaults have above the size where the exact GP stops."""
USUAL_NEIGHBORS = 128
"""The own expert that is compared with its untapered form where the defaults have none."""
GRID = 110
"""Points of the maps in each direction."""


def fitted(name: str, rows: int) -> tuple[Any, Problem]:
    """Fit the defaults, with several experts whatever the number of rows."""
    from gpexperts import DistributedGPRegressor

    data = problem(name, rows, 1000)
    return DistributedGPRegressor(expert_size=PART, random_state=0).fit(data.X, data.y), data


def lines(name: str, rng: np.random.Generator) -> np.ndarray:
    """Return points (lines, POINTS, d) on lines between random points of the box."""
    start, end = (FUNCTIONS[name].inputs(LINES[name], rng)[:, None] for _ in range(2))
    return start + np.linspace(0.0, 1.0, POINTS)[:, None] * (end - start)


def exact_means(model: Any, data: Problem, X: np.ndarray) -> np.ndarray:
    """Mean of the exact GP at X, by conjugate gradients if there are many rows."""
    exact = ExactGP(model, data.X, data.y)
    if len(data.X) <= DENSE:
        return exact.solve_dense().mean(X)
    steps = Settled(lambda: float(np.abs(np.diff(exact.mean(X[:POINTS]))).max()), 1e-3)
    return exact.solve(steps).mean(X)


def predictions(model: Any, X: np.ndarray, *, latent: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (lines, POINTS) at X (lines, POINTS, d)."""
    mean, std = model.predict(X.reshape(-1, X.shape[-1]), return_std=True, latent=latent)
    return mean.reshape(X.shape[:-1]), std.reshape(X.shape[:-1])


def without_taper(model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and latent std of the own expert without its taper."""
    from gpexperts.experts import own

    usual, own.FULL_SHARE = own.FULL_SHARE, 1.0
    try:
        return predictions(model, X, latent=True)
    finally:
        own.FULL_SHARE = usual


def mean_steps(mean: np.ndarray, latent: np.ndarray, exact: np.ndarray) -> dict[str, float]:
    """Largest step of the mean beyond that of the exact GP, of all lines and of the median line."""
    beyond = np.abs(np.diff(mean)) - np.abs(np.diff(exact))
    per_line = (beyond / np.minimum(latent[:, 1:], latent[:, :-1])).max(axis=1)
    return {"mean_step": float(per_line.max()), "median_line": float(np.median(per_line))}


def log_step(std: np.ndarray) -> float:
    """Largest |Δ log std|."""
    return float(np.abs(np.diff(np.log(std))).max())


def one(data: str, rows: int) -> None:
    """Fit, predict along the lines before and after, compare; print a line of JSON."""
    model, training = fitted(data, rows)
    X = lines(data, np.random.default_rng(1))
    exact = exact_means(model, training, X.reshape(-1, X.shape[-1])).reshape(X.shape[:-1])
    setups: dict[str, Any] = {}
    for name, parameters in SETUPS.items():
        model.set_params(**parameters)
        tuning = model.predictor_.tuning
        mean, latent = predictions(model, X, latent=True)
        setups[name] = {
            "chosen": str(tuning),
            **mean_steps(mean, latent, exact),
            "latent_log_step": log_step(latent),
            "std_log_step": log_step(predictions(model, X, latent=False)[1]),
        }
    if tuning.n_selected or not tuning.n_neighbors:
        model.set_params(n_neighbors=tuning.n_neighbors or USUAL_NEIGHBORS, n_selected=0)
        mean, latent = predictions(model, X, latent=True)
    untapered_mean, untapered = without_taper(model, X)
    ratio = latent / untapered
    setups["own expert without taper"] = {
        "chosen": str(model.predictor_.tuning),
        **mean_steps(untapered_mean, untapered, exact),
        "latent_log_step": log_step(untapered),
    }
    result = {
        "kernel": model.choices_["kernel"].value,
        "n_experts": model.n_experts_,
        "lines": len(X),
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

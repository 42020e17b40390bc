"""Measure 95 % intervals where the noise changes strongly or has heavy tails, and those of few rows.

    python scripts/noise_coverage.py                        20 fits of 600 rows, all kinds of noise
    python scripts/noise_coverage.py --fits 5 --kinds waves
    python scripts/noise_coverage.py --first 100            the same with other seeds
    python scripts/noise_coverage.py --few                  models of 3 to 40 rows
    python scripts/noise_coverage.py --cauchy               20 fits of 600 rows with Cauchy noise

Everything is at its default. Each fit is tried on 2,000 new rows; "noisiest" is the third of them with the
largest standard deviation of the noise. The width of intervals with Cauchy noise is relative to that of its
central 95 %.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np

from gpexperts import DistributedGPRegressor

N_TRAIN, N_NEW = 600, 2000
CAUCHY_SCALE, CAUCHY_QUANTILE = 0.05, 12.7062
"""Scale of Cauchy noise, and its quantile at 97.5 % for scale 1."""


def _grows(X: np.ndarray) -> np.ndarray:
    return 0.02 * np.exp(np.log(50.0) * (X[:, 0] + 3.0) / 6.0)


def _waves(X: np.ndarray) -> np.ndarray:
    return 0.03 * np.exp(1.5 * np.sin(X[:, 0]) + 0.7 * X[:, -1] - 0.2)


def _jumps(X: np.ndarray) -> np.ndarray:
    return np.where(X[:, 0] > 1.0, 1.0, 0.05)


KINDS: dict[str, tuple[int, Callable[[np.ndarray], np.ndarray]]] = {
    "grows, 1 input": (1, _grows),
    "grows, 4 inputs": (4, _grows),
    "waves, 2 inputs": (2, _waves),
    "jumps, 2 inputs": (2, _jumps),
}


def _rows(
    rng: np.random.Generator, n: int, d: int, noise: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = rng.uniform(-3, 3, size=(n, d))
    f = np.sin(1.5 * X[:, 0]) + (0.5 * np.cos(X[:, 1]) if d > 1 else 0.0)
    return X, f + noise(X) * rng.standard_normal(n), noise(X)


def _inside(model: DistributedGPRegressor, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    lower, upper = model.predict_interval(X)
    return (lower <= y) & (y <= upper)


def changing_noise(kind: str, calibrate: str | None, seeds: range) -> str:
    """Fit to noise of one kind and return a row of the table."""
    d, noise = KINDS[kind]
    found = []
    for seed in seeds:
        X, y, sigma = _rows(np.random.default_rng(seed), N_TRAIN + N_NEW, d, noise)
        model = DistributedGPRegressor(calibrate=calibrate, random_state=seed).fit(X[:N_TRAIN], y[:N_TRAIN])
        inside, sigma = _inside(model, X[N_TRAIN:], y[N_TRAIN:]), sigma[N_TRAIN:]
        order, third = np.argsort(sigma, kind="stable"), N_NEW // 3  # by rank: noise that jumps has ties
        found.append([inside.mean(), inside[order[-third:]].mean(), inside[order[:third]].mean()])
    whole, noisiest, quietest = np.mean(found, axis=0)
    least = np.min(found, axis=0)[1]
    shares = f"{whole:.3f} | {noisiest:.3f} | {least:.3f} | {quietest:.3f}"
    return f"| {kind} | {calibrate} | {len(seeds)} | {shares} |"


def heavy_tails(calibrate: str | None, d: int, seeds: range) -> str:
    """Fit to Cauchy noise and return a row of the table."""
    found, students = [], 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X, f, _ = _rows(rng, N_TRAIN + N_NEW, d, lambda X: np.zeros(len(X)))
        y = f + CAUCHY_SCALE * rng.standard_cauchy(len(f))
        model = DistributedGPRegressor(calibrate=calibrate, random_state=seed).fit(X[:N_TRAIN], y[:N_TRAIN])
        lower, upper = model.predict_interval(X[N_TRAIN:])
        width = np.median(upper - lower) / (2.0 * CAUCHY_QUANTILE * CAUCHY_SCALE)
        inside = np.mean((lower <= y[N_TRAIN:]) & (y[N_TRAIN:] <= upper))
        error = np.median(np.abs(model.predict(X[N_TRAIN:]) - f[N_TRAIN:]))
        found.append([width, inside, error])
        students += model.choices_["noise"].value == "student"
    (width, inside, error), (widest, *_) = np.median(found, axis=0), np.max(found, axis=0)
    measured = f"{width:.2f} | {widest:.2f} | {inside:.3f} | {min(f[1] for f in found):.3f} | {error:.3f}"
    return f"| {d} | {calibrate} | {len(seeds)} | {students} | {measured} |"


def few_rows(n: int, seeds: range) -> str:
    """Fit to n rows and return a row of the table."""
    found = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, size=(n + 200, 1))
        y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(len(X))
        model = DistributedGPRegressor(kernel="rbf", random_state=0).fit(X[:n], y[:n])
        mean, std = model.predict(X[n:], return_std=True)
        found.append([_inside(model, X[n:], y[n:]).mean(), np.mean(np.abs(y[n:] - mean) <= 1.96 * std)])
    interval, plain = np.mean(found, axis=0)
    return f"| {n} | {len(seeds)} | {interval:.3f} | {plain:.3f} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fits", type=int, default=20)
    parser.add_argument("--kinds", default="", help="only kinds of noise that begin with this")
    parser.add_argument("--few", action="store_true", help="models of few rows instead")
    parser.add_argument("--cauchy", action="store_true", help="Cauchy noise instead")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.fits)
    warnings.simplefilter("ignore")  # of few rows, and of length scales at their bounds
    if given.few:
        print("| rows | fits | `predict_interval` | mean ± 1.96 std |\n|---|---|---|---|")
        for n in (3, 4, 5, 8, 20, 40):
            print(few_rows(n, seeds), flush=True)
        return
    if given.cauchy:
        print("| inputs | calibrate | fits | Student | width | widest | inside | least | median error |")
        print("|---|---|---|---|---|---|---|---|---|")
        for d in (1, 2, 4):
            for calibrate in (None, "conformal"):
                print(heavy_tails(calibrate, d, seeds), flush=True)
        return
    print("| noise | calibrate | fits | all | noisiest third | its least | quietest third |")
    print("|---|---|---|---|---|---|---|")
    for kind in KINDS:
        if kind.startswith(given.kinds):
            for calibrate in (None, "conformal"):
                print(changing_noise(kind, calibrate, seeds), flush=True)


if __name__ == "__main__":
    main()

"""Coverage of statements about several points: sums, maxima and averages of groups.

    python benchmarks/joint_coverage.py                       # all missing runs
    python benchmarks/joint_coverage.py --data gp --seed 0

`gp`: rows drawn from a known GP (20,000 rows in two dimensions), hyperparameters given. Sums of 1,000
values of the function in a small square against their 95 % intervals, by `predict_sum` and with independent
errors; and the maximum over these points against the 95 % interval of the maxima of drawn functions. Other
data: averages over random groups of 100 test rows, after a fit with the defaults.
"""

from __future__ import annotations

import json

import numpy as np

import common

DATA = ("gp", "protein", "sarcos")
SEEDS = tuple(range(5))
ROWS, POINTS, GROUPS, FUNCTIONS = 20_000, 1000, 40, 200
WIDTH = 1.96
LIMIT = 45 * 60
"""Seconds for a run with its fit."""

NOISE, FREQUENCIES = 0.3, 20_000
"""Noise variance, and frequencies of the true function: far more than the model uses."""


def kernel():
    from sklearn.gaussian_process.kernels import Matern, WhiteKernel

    return 1.0 * Matern(0.05, nu=1.5) + WhiteKernel(NOISE)


def known_gp(seed: int) -> dict[str, float]:
    """Shares of sums and maxima inside their intervals, over `GROUPS` groups of `POINTS` points."""
    from gpexperts import DistributedGPRegressor
    from gpexperts.aggregation import NPAE
    from gpexperts.kernels.named import covariance_of
    from gpexperts.kernels.spectral import draw_prior

    rng = np.random.default_rng(seed)
    function = draw_prior(covariance_of(kernel()), 1, FREQUENCIES, np.full(2, 0.5), rng)
    X = rng.uniform(size=(ROWS, 2))
    y = function(X)[:, 0] + np.sqrt(NOISE) * rng.normal(size=ROWS)
    model = DistributedGPRegressor(
        kernel=kernel(),
        optimizer=None,
        standardize=False,
        aggregation=NPAE(disagreement=None),
        random_state=seed,
    ).fit(X, y)
    inside, alone, top = [], [], []
    functions = model.draw_functions(FUNCTIONS, random_state=seed)
    for _ in range(GROUPS):
        # Points of one region: their errors do not average out.
        T = rng.uniform(0.05, 0.95, size=2) + rng.uniform(-0.05, 0.05, size=(POINTS, 2))
        truth = function(T)[:, 0]
        total, std = model.predict_sum(T, latent=True)
        _, each = model.predict(T, return_std=True, latent=True)
        inside.append(abs(truth.sum() - total) <= WIDTH * std)
        alone.append(abs(truth.sum() - total) <= WIDTH * np.sqrt((each**2).sum()))
        low, high = np.quantile(functions(T).max(axis=0), [0.025, 0.975])
        top.append(low <= truth.max() <= high)
    return {
        "sums": float(np.mean(inside)),
        "sums_independent": float(np.mean(alone)),
        "maxima": float(np.mean(top)),
        "groups": GROUPS,
        "own_rows": model.predictor_.tuning.n_neighbors,
    }


def groups_of(data: str, seed: int) -> dict[str, float]:
    """Shares of averages over random groups of 100 test rows inside their intervals."""
    from gpexperts import DistributedGPRegressor

    X, y, X_test, y_test = common.load(data)
    model = DistributedGPRegressor(random_state=seed).fit(X, y)
    order = np.random.default_rng(seed).permutation(len(y_test))
    inside, alone = [], []
    for rows in order[: len(order) // 100 * 100].reshape(-1, 100):
        mean, std = model.predict_sum(X_test[rows], np.full(100, 0.01))
        _, each = model.predict(X_test[rows], return_std=True)
        inside.append(abs(y_test[rows].mean() - mean) <= WIDTH * std)
        alone.append(abs(y_test[rows].mean() - mean) <= WIDTH * np.sqrt((each**2).sum()) / 100)
    return {
        "sums": float(np.mean(inside)),
        "sums_independent": float(np.mean(alone)),
        "groups": len(inside),
    }


def one(data: str, seed: int) -> None:
    """Print a line of JSON."""
    print(json.dumps(known_gp(seed) if data == "gp" else groups_of(data, seed)))


if __name__ == "__main__":
    common.run_grid("joint_coverage", __doc__, one, {"data": DATA, "seed": SEEDS}, limit=LIMIT)

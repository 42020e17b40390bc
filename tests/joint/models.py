"""Models of every setup whose predictions are linear, with nothing learned, and their naive weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import NPAE

SETUPS: dict[str, dict[str, Any]] = {
    "experts": {"n_neighbors": 0, "n_selected": 3},
    "own": {"n_neighbors": 24, "n_selected": 0},
    "both": {"n_neighbors": 24, "n_selected": 2},
    "exact": {"n_experts": 1, "n_neighbors": 0, "n_selected": 1},
}
SIGNAL, NOISE = 1.5 * Matern([0.4, 0.7], nu=1.5), 0.04
KERNEL = SIGNAL + WhiteKernel(NOISE)
SMOOTH = 1.5 * RBF([0.4, 0.7]) + WhiteKernel(NOISE)


def data(n: int = 150, n_new: int = 9, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows and targets of a draw from the kernel, and queries, some of them outside."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    y = np.linalg.cholesky(KERNEL(X)) @ rng.normal(size=n)
    return X, y, rng.uniform(-0.2, 1.2, size=(n_new, 2))


def fixed(
    X: Any, y: np.ndarray, setup: str, weight: Any = None, noise_std: Any = None, **changes: Any
) -> DistributedGPRegressor:
    """Fit with given hyperparameters and no corrections, so that the model depends on y through w alone."""
    given = {
        "n_experts": 5,
        "kernel": KERNEL,
        "optimizer": None,
        "standardize": False,
        "aggregation": NPAE(disagreement=None),
        "n_jobs": 1,
        "random_state": 0,
    }
    return DistributedGPRegressor(**(given | SETUPS[setup] | changes)).fit(X, y, weight, noise_std)


def naive_weights(X: np.ndarray, X_new: np.ndarray, setup: str, **changes: Any) -> np.ndarray:
    """w(x), (n_new, n): the predictions for the targets e_1, …, e_n, as as many outputs."""
    return fixed(X, np.eye(len(X)), setup, **changes).predict(X_new)


def naive_covariance(
    X: np.ndarray, X_new: np.ndarray, W: np.ndarray, noise: np.ndarray | float = NOISE
) -> np.ndarray:
    """k(x, x') − w(x)ᵀk(X, x') − k(x, X)w(x') + w(x)ᵀ C w(x'), from dense matrices."""
    C = SIGNAL(X) + noise * np.eye(len(X))
    k = SIGNAL(X, X_new)
    return SIGNAL(X_new) - W @ k - k.T @ W.T + W @ C @ W.T

"""Random problems, and slow reference implementations of the formulas.

Nothing here uses the computations of the library; kernels are evaluated by scikit-learn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Kernel, WhiteKernel

from gpexperts import DistributedGPRegressor, fit_experts, held_out, prepare
from gpexperts.training import schedule
from gpexperts.training.likelihood import Training, maximise_likelihood

PLAIN: dict[str, Any] = {"trend": None, "noise": "gaussian"}
"""Settings of tests that are about neither: from 500 rows on, the choice takes longer than the fit."""


class Problem(NamedTuple):
    """Data, the expert of each row, and queries."""

    X: np.ndarray
    y: np.ndarray
    labels: np.ndarray
    X_new: np.ndarray
    signal: Kernel
    noise: float

    @property
    def kernel(self) -> Kernel:
        return self.signal + WhiteKernel(self.noise)

    @property
    def n_experts(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def scale(self) -> float:
        """Standard deviation of the signal, the unit of tolerances."""
        return float(np.sqrt(self.signal.diag(self.X[:1])[0]))


def random_problem(
    seed: int, n: int = 80, d: int = 2, n_experts: int = 4, n_new: int = 12, noise: float = 0.05
) -> Problem:
    """Rows drawn from a GP; parts are intervals of the first input."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    signal = float(rng.uniform(0.5, 3.0)) * RBF(rng.uniform(0.6, 1.5, size=d))
    covariance = signal(X) + noise * np.eye(n)
    y = np.linalg.cholesky(covariance) @ rng.normal(size=n)
    labels = np.empty(n, dtype=int)
    labels[np.argsort(X[:, 0])] = np.arange(n) * n_experts // n
    return Problem(X, y, labels, 1.3 * rng.normal(size=(n_new, d)), signal, noise)


def fixed_model(problem: Problem, **settings: Any) -> DistributedGPRegressor:
    """Fit with the hyperparameters, parts and units of the problem; nothing is learned or chosen."""
    given = {
        "partition": problem.labels,
        "kernel": problem.kernel,
        "optimizer": None,
        "training": "full",
        "standardize": False,
        "selection": "all",
        "n_neighbors": 0,
        "random_state": 0,
    }
    return DistributedGPRegressor(**(given | settings)).fit(problem.X, problem.y)


def in_few_steps(*arguments: Any, max_steps: int = 200, **settings: Any) -> Training:
    """Maximise the likelihood, but for a few steps only."""
    return maximise_likelihood(*arguments, max_steps=min(max_steps, 3), **settings)


def choose_and_train_quickly(patch: pytest.MonkeyPatch) -> None:
    """Few steps, candidates and held-out rows, for tests of whether something runs, not of how well."""
    for trainer in (fit_experts, schedule):
        patch.setattr(trainer, "maximise_likelihood", in_few_steps)
    patch.setattr(prepare, "NEIGHBORS", (32,))
    patch.setattr(prepare, "EXPERTS", (1, 2))
    patch.setattr(held_out, "ENOUGH", 100)


class Local(NamedTuple):
    """One expert's q (n_new, m), mean (n_new,) and variance (n_new,)."""

    q: np.ndarray
    mean: np.ndarray
    var: np.ndarray


def gp(problem: Problem, rows: np.ndarray) -> Local:
    """The exact GP on some rows of the problem, by an explicit inverse."""
    X, y = problem.X[rows], problem.y[rows]
    C = problem.signal(X) + problem.noise * np.eye(len(X))
    k = problem.signal(problem.X_new, X)
    q = k @ np.linalg.inv(C)
    return Local(q, q @ y, problem.signal.diag(problem.X_new) - np.einsum("nm,nm->n", q, k))


def local_gps(problem: Problem) -> list[Local]:
    """Every expert of the problem."""
    return [gp(problem, np.flatnonzero(problem.labels == i)) for i in range(problem.n_experts)]


def dense_npae(problem: Problem, selected: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """NPAE as the best linear predictor from the dense joint covariance of (f*, y).

    For each query the experts' means are A y with a sparse (K, n) matrix A. Their covariance is
    A (K + σ²I) Aᵀ and their covariance with f* is A k*. No formula of the paper is used.

    `selected` is (n_new, K), the selected experts of each query; None means all.
    """
    n, n_new = len(problem.X), len(problem.X_new)
    if selected is None:
        selected = np.tile(np.arange(problem.n_experts), (n_new, 1))
    C = problem.signal(problem.X) + problem.noise * np.eye(n)
    k = problem.signal(problem.X, problem.X_new)
    prior = problem.signal.diag(problem.X_new)
    experts = local_gps(problem)
    mean, var = np.empty(n_new), np.empty(n_new)
    for query in range(n_new):
        A = np.zeros((selected.shape[1], n))
        for row, i in enumerate(selected[query]):
            A[row, problem.labels == i] = experts[i].q[query]
        covariance, with_f = A @ C @ A.T, A @ k[:, query]
        weight = np.linalg.solve(covariance, with_f)
        mean[query] = weight @ A @ problem.y
        var[query] = prior[query] - weight @ with_f
    return mean, var

"""The synthetic problem of the paper."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Split", "analytic_function", "analytic_problem"]


class Split(NamedTuple):
    """Training and test rows."""

    X_train: np.ndarray
    """(n, d)"""
    y_train: np.ndarray
    """(n,)"""
    X_test: np.ndarray
    """(n_test, d)"""
    y_test: np.ndarray
    """(n_test,)"""


def analytic_function(x: np.ndarray) -> np.ndarray:
    """The noise-free function of Liu et al. (2018), eq. (f_x) of the paper: 5x² sin 12x + …."""
    return 5 * x**2 * np.sin(12 * x) + (x**3 - 0.5) * np.sin(3 * x - 0.5) + 4 * np.cos(2 * x)


def analytic_problem(n: int = 3000, noise: float = 0.2, seed: int = 0) -> Split:
    """Return n training rows uniform on [0, 1], 0.1 n test rows uniform on [−0.2, 1.2], all noisy.

    Parameters
    ----------
    n : int
        Training rows.
    noise : float
        Standard deviation of the noise.
    seed : int
    """
    rng = np.random.default_rng(seed)
    x_train, x_test = rng.uniform(0.0, 1.0, n), rng.uniform(-0.2, 1.2, n // 10)
    y_train = analytic_function(x_train) + noise * rng.standard_normal(n)
    y_test = analytic_function(x_test) + noise * rng.standard_normal(n // 10)
    return Split(x_train[:, None], y_train, x_test[:, None], y_test)

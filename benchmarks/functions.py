"""Functions whose truth is known: problems that the benchmarks make themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

LINKS = 8


class Function(NamedTuple):
    """A function on a box, and how it is observed."""

    at: Callable[[np.ndarray], np.ndarray]
    """X (n, d) ↦ values (n,)."""
    d: int
    low: float
    high: float
    """The box, the same for every input."""
    noise: float
    """Standard deviation of the noise, relative to that of the function."""

    def inputs(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n uniform inputs."""
        return rng.uniform(self.low, self.high, size=(n, self.d))


class Problem(NamedTuple):
    """Training and test rows of a function."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    """With noise."""
    truth: np.ndarray
    """The function at `X_test`."""


def arm(X: np.ndarray) -> np.ndarray:
    """Distance of the end point of a planar arm with equal links, of total length 1, from its foot."""
    direction = np.cumsum(X, axis=1)
    return np.hypot(np.cos(direction).mean(axis=1), np.sin(direction).mean(axis=1))


def field(X: np.ndarray) -> np.ndarray:
    """Evaluate a smooth field on the unit square: waves and a hill."""
    u, v = X.T
    hill = np.exp(-40 * ((u - 0.6) ** 2 + (v - 0.4) ** 2))
    return np.sin(6 * u) * np.cos(4 * v) + 0.5 * np.sin(10 * u * v + 2) + 0.4 * hill


def rough(X: np.ndarray) -> np.ndarray:
    """Evaluate a continuous function on the unit cube whose slope jumps: waves with kinks, three octaves."""
    waves = sum(np.abs(np.sin(2**k * np.pi * X + k)) / 2**k for k in range(1, 4))
    return waves.sum(axis=1) + np.abs(X[:, 0] - X[:, 1] * X[:, 2])


FUNCTIONS = {
    "field": Function(field, 2, 0.0, 1.0, 0.1),
    "rough": Function(rough, 3, 0.0, 1.0, 0.1),
    "arm": Function(arm, LINKS, -np.pi / 2, np.pi / 2, 0.01),
}


def problem(name: str, rows: int, test_rows: int, seed: int = 0) -> Problem:
    """Draw training and test rows of a function; test rows do not depend on the number of training rows."""
    function = FUNCTIONS[name]
    test_rng, rng = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 0])
    X_test, X = function.inputs(test_rows, test_rng), function.inputs(rows, rng)
    truth = function.at(X_test)
    sigma = function.noise * truth.std()
    y = function.at(X) + sigma * rng.standard_normal(rows)
    return Problem(X, y, X_test, truth + sigma * test_rng.standard_normal(test_rows), truth)

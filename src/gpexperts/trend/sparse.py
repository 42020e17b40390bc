"""A sparse GP of all rows, which inducing points summarise (FITC; Snelson and Ghahramani, 2006).

With inducing inputs Z, k(Z, Z) = L Lᵀ and v(x) = L⁻¹ k(Z, x), different rows have the covariance
q(x, x') = v(x)ᵀ v(x'), and row i the noise λ_i = σ_i² + k(x_i, x_i) − q(x_i, x_i). Two sums over the rows
give the posterior:

    A = I + Σ_i v_i v_iᵀ / λ_i,   b = Σ_i v_i y_i / λ_i,   c = A⁻¹ b,
    mean(x) = v(x)ᵀ c,   cov(x, x') = k(x, x') − v(x)ᵀ v(x') + v(x)ᵀ A⁻¹ v(x').

Where a smooth function is hidden in noise, this averages over many more rows than a query's neighbourhood
holds. The sums of the folds give the posterior without each fold: cross-fitting costs no further fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from gpexperts.kernels.base import Covariance
from gpexperts.kernels.derivative import input_gradient, slope_variance
from gpexperts.linalg.cholesky import factorise
from gpexperts.scaling import Standardizer

__all__ = ["InducingPoints", "SparseFeatures", "SparseGP", "SparseSums"]

_BLOCK = 4096
"""Rows whose features are computed together."""
_LEAST_NOISE = 1e-10
"""Of a row, relative to its prior variance: for kernels without noise."""


@dataclass(frozen=True)
class InducingPoints:
    """Inputs that summarise all rows."""

    covariance: Covariance
    Z: np.ndarray
    """(u, d) in the units of the covariance."""

    @cached_property
    def _lower(self) -> np.ndarray:
        """L (u, u), with the jitter that it needs."""
        gram = self.covariance.gram(self.Z)
        return np.tril(factorise(gram, name="covariance matrix of the inducing points").lower)

    def features(self, X: np.ndarray) -> np.ndarray:
        """Return v (u, n) of inputs X (n, d)."""
        return self.whitened(self.covariance(self.Z, X))

    def whitened(self, values: np.ndarray) -> np.ndarray:
        """Return L⁻¹ values (u, n)."""
        return np.asarray(solve_triangular(self._lower, values, lower=True))

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """Return ∂v/∂x (u, d) at x (d,)."""
        return self.whitened(input_gradient(self.covariance, x, self.Z))


class SparseFeatures(NamedTuple):
    """What all moments of some points follow from."""

    rows: slice
    """Their numbers."""
    X: np.ndarray
    """(b, d) in the units of the inducing points."""
    v: np.ndarray
    """(u, b)"""
    conditioned: np.ndarray
    """A^(−½) v, (u, b): the products of its columns are v(x)ᵀ A⁻¹ v(x')."""


@dataclass(frozen=True)
class SparseGP:
    """The posterior of a sparse GP of one target."""

    points: InducingPoints
    x_scale: Standardizer
    """The user's units ↔ those of the inducing points."""
    y_scale: Standardizer
    """The units of the target ↔ those of the covariance."""
    coef: np.ndarray
    """c, (u,)."""
    factor: np.ndarray
    """(u, u) lower Cholesky factor of A."""
    average_var: float = 0.0
    """Mean variance at the training rows, without the fold of each, in the units of the target."""

    def inputs(self, X: np.ndarray) -> np.ndarray:
        """Return inputs (n, d) of the user in the units of the inducing points."""
        return self.x_scale.transform(X)

    @property
    def variance_unit(self) -> float:
        """Variance of the target that counts as 1."""
        return float(self.y_scale.scale[0]) ** 2

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the mean (n,) at inputs X (n, d) in the user's units."""
        X, mean = self.inputs(X), np.empty(len(X))
        for rows in _blocks(len(X)):
            mean[rows] = self.coef @ self.points.features(X[rows])
        return mean * self.y_scale.scale[0] + self.y_scale.shift[0]

    def moments(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance (n,) of the function at inputs X (n, d), in the user's units."""
        mean, var = np.empty(len(X)), np.empty(len(X))
        for some in self.features(X):
            mean[some.rows], var[some.rows] = self.moments_of(some)
        return mean, var

    def features(self, X: np.ndarray) -> Iterator[SparseFeatures]:
        """Yield the features of inputs X (n, d), in the user's units, in blocks."""
        X = self.inputs(X)
        for rows in _blocks(len(X)):
            v = self.points.features(X[rows])
            yield SparseFeatures(rows, X[rows], v, self.conditioned(v))

    def moments_of(self, some: SparseFeatures) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance (b,) of the function, in the user's units."""
        mean, prior = self.coef @ some.v, self.points.covariance.prior_variance(some.X)
        var = np.maximum(prior - _squares(some.v), 0.0) + _squares(some.conditioned)
        return mean * self.y_scale.scale[0] + self.y_scale.shift[0], var * self.variance_unit

    def conditioned(self, v: np.ndarray) -> np.ndarray:
        """Return A^(−½) v (u, n) of features v (u, n)."""
        return np.asarray(solve_triangular(self.factor, v, lower=True))

    def gradient(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivative (d,) of the mean at x (d,), and its variance (d,), in the user's units.

        The variance is infinite where the function has no derivative.
        """
        x = self.inputs(x[None])[0]
        dv, prior = self.points.slopes(x), slope_variance(self.points.covariance, len(x))
        prior = np.full(len(x), np.inf) if prior is None else prior
        var = np.maximum(prior - _squares(dv), 0.0) + _squares(self.conditioned(dv))
        scale = self.y_scale.scale[0] / self.x_scale.scale
        return self.coef @ dv * scale, var * scale**2


class SparseSums:
    """The sums over the rows of each fold.

    Parameters
    ----------
    points : InducingPoints
    n_folds : int
    """

    def __init__(self, points: InducingPoints, n_folds: int) -> None:
        self.points, u = points, len(points.Z)
        self.A, self.b = np.zeros((n_folds, u, u)), np.zeros((n_folds, u))

    def add(self, fold: int, X: np.ndarray, y: np.ndarray, noise: np.ndarray) -> None:
        """Add rows X (n, d), y (n,) with their table of noise, in the units of the covariance."""
        covariance = self.points.covariance
        level = np.broadcast_to(covariance.row_noise(noise), len(X))
        for rows in _blocks(len(X)):
            v, prior = self.points.features(X[rows]), covariance.prior_variance(X[rows])
            noises = level[rows] + np.maximum(prior - _squares(v), 0.0)
            weighted = v / np.maximum(noises, _LEAST_NOISE * prior)
            self.A[fold] += weighted @ v.T
            self.b[fold] += weighted @ y[rows]

    def posterior(self, x_scale: Standardizer, y_scale: Standardizer, without: int | None = None) -> SparseGP:
        """Return the posterior from all rows, or from those of all folds but one."""
        folds = [f for f in range(len(self.b)) if f != without]
        A, b = self.A[folds].sum(axis=0), self.b[folds].sum(axis=0)
        A[np.diag_indices_from(A)] += 1.0
        factor = np.tril(factorise(A, name="matrix of the inducing points").lower)
        coef = solve_triangular(factor, solve_triangular(factor, b, lower=True), lower=True, trans="T")
        return SparseGP(self.points, x_scale, y_scale, coef, np.ascontiguousarray(factor))


def _squares(v: np.ndarray) -> np.ndarray:
    return np.einsum("un,un->n", v, v)


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, n, _BLOCK))

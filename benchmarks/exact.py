"""The exact GP on all rows, at the hyperparameters of a fitted model.

Up to `DENSE` rows by a Cholesky factor. Beyond, (K + σ²I) α = y is solved by conjugate gradients: kernel
values are computed tile by tile and never stored, and the preconditioner is the Nyström approximation
WᵀW + σ²I from some of the rows, with W = L⁻¹ k(U, X) and L Lᵀ = k(U, U). For 36,000 rows and 3,000 rows U,
that takes 2 GB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

DENSE = 12_000
"""Rows up to which the matrix is stored."""
NYSTROM = 3000
"""Rows of the preconditioner, at most; a quarter of all rows if that is less."""
TILE = 512
"""Rows and columns of the kernel values that are computed together."""
EVERY = 5
"""Iterations between two tests for the end."""


class ExactGP:
    """The exact GP at the θ of a fitted model; means in the units of y.

    Parameters
    ----------
    fitted : DistributedGPRegressor
        Gives θ and the units.
    X, y : ndarray of shape (n, d) and (n,)
    """

    def __init__(self, fitted: Any, X: np.ndarray, y: np.ndarray) -> None:
        from gpexperts.engines import ThreadEngine

        model = fitted.model_
        self.covariance, self.x_scale, self.y_scale = model.covariance, model.x_scale, model.y_scale
        self.X = self.x_scale.transform(X)
        self.y = self.y_scale.transform(y[:, None])[:, 0]
        self.engine = ThreadEngine()
        self.alpha = np.zeros(len(X))
        self.iterations, self.residual = 0, 1.0

    def solve_dense(self) -> ExactGP:
        """Compute α by a Cholesky factor."""
        C = self.covariance.gram(self.X)
        C[np.diag_indices_from(C)] += self.covariance.noise_variance
        self.alpha = cho_solve(cho_factor(C, lower=True, overwrite_a=True, check_finite=False), self.y)
        return self

    def solve(self, converged: Callable[[], bool], limit: int = 500) -> ExactGP:
        """Compute α by conjugate gradients until ``converged()``, which sees the present `mean`."""
        noise, precondition = self.covariance.noise_variance, self._preconditioner()
        alpha, r = np.zeros_like(self.y), self.y.copy()
        z = precondition(r)
        p, rz = z.copy(), r @ z
        for self.iterations in range(1, limit + 1):
            Cp = self._times(p) + noise * p
            step = rz / (p @ Cp)
            alpha += step * p
            r -= step * Cp
            self.alpha, self.residual = alpha, float(np.linalg.norm(r) / np.linalg.norm(self.y))
            if self.residual < 1e-12 or (self.iterations % EVERY == 0 and converged()):
                return self
            z = precondition(r)
            rz, before = r @ z, rz
            p = z + (rz / before) * p
        raise RuntimeError(f"Not converged after {limit} iterations, relative residual {self.residual:.1e}.")

    def mean(self, X: np.ndarray) -> np.ndarray:
        """Return the predicted mean (n,) at X (n, d), in the units of X and y."""
        Z = self.x_scale.transform(X)
        pieces = [Z[rows] for rows in _tiles(len(Z))]
        means = self.engine.map(self._mean_of_piece, pieces)
        return self.y_scale.restore(np.concatenate(means)[:, None])[:, 0]

    def _mean_of_piece(self, Z: np.ndarray) -> np.ndarray:
        return sum(self.covariance(Z, self.X[rows]) @ self.alpha[rows] for rows in _tiles(len(self.X)))

    def _times(self, v: np.ndarray) -> np.ndarray:
        """K v; every tile above the diagonal serves twice."""
        tiles = _tiles(len(v))

        def band(i: int) -> np.ndarray:
            rows, out = tiles[i], np.zeros_like(v)
            for j in range(i, len(tiles)):
                columns = tiles[j]
                k = self.covariance(self.X[rows], self.X[columns])
                out[rows] += k @ v[columns]
                if j > i:
                    out[columns] += v[rows] @ k
            return out

        return sum(self.engine.map(band, range(len(tiles)), [len(tiles) - i for i in range(len(tiles))]))

    def _preconditioner(self) -> Callable[[np.ndarray], np.ndarray]:
        n, noise = len(self.X), self.covariance.noise_variance
        U = self.X[np.random.default_rng(0).choice(n, min(NYSTROM, n // 4), replace=False)]
        K = self.covariance.gram(U)
        K[np.diag_indices_from(K)] += 1e-9 * np.trace(K) / len(U)
        L = cholesky(K, lower=True, overwrite_a=True, check_finite=False)
        W = np.empty((len(U), n))
        for rows in _tiles(n):
            W[:, rows] = solve_triangular(L, self.covariance(U, self.X[rows]), lower=True, check_finite=False)
        inner = W @ W.T
        inner[np.diag_indices_from(inner)] += noise
        factor = cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)
        return lambda v: (v - W.T @ cho_solve(factor, W @ v, check_finite=False)) / noise


class Settled:
    """Whether a number has changed by less than a relative `tolerance`, twice in succession."""

    def __init__(self, value: Callable[[], float], tolerance: float) -> None:
        self.value, self.tolerance = value, tolerance
        self.last, self.times = np.inf, 0

    def __call__(self) -> bool:
        """Compute the number and compare it with the one before."""
        value = self.value()
        self.times = self.times + 1 if abs(value - self.last) <= self.tolerance * abs(value) else 0
        self.last = value
        return self.times >= 2


def _tiles(n: int) -> list[slice]:
    return [slice(start, min(start + TILE, n)) for start in range(0, n, TILE)]

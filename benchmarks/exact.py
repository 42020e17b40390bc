"""The exact GP on all rows, at the hyperparameters of a fitted model.

Up to `DENSE` rows by a Cholesky factor in double precision. Beyond, (K + σ²I) α = y is solved by conjugate
gradients. The products K v are in double precision, from kernel values that are computed tile by tile and
never stored. The preconditioner is a Cholesky factor of K + τI in single precision, with τ ≥ σ² large enough
for single precision: after preconditioning, all eigenvalues are between σ²/τ and 1. For 36,000 rows the
factor takes 2.6 GB. (A Nyström preconditioner of 750 rows was tried on 9,000 rows of the arm: the residual
was still 0.7 after 30 iterations, because the eigenvalues of K decay slowly with 8 inputs.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular

DENSE = 12_000
"""Rows up to which the matrix is stored."""
RIDGE = 1e-3
"""τ relative to the prior variance, at least; ten times as much where the factor fails."""
TILE = 512
"""Rows and columns of the kernel values that are computed together."""
BLOCK = 2048
"""Rows and columns of the blocks of the factor."""
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
        sparse = None if model.trend is None else model.trend.sparse
        if sparse is not None:  # whose covariance is that of the targets
            self.covariance = sparse.points.covariance
            self.x_scale, self.y_scale = sparse.x_scale, sparse.y_scale
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
        pieces = [Z[rows] for rows in _slices(len(Z), TILE)]
        means = self.engine.map(self._mean_of_piece, pieces)
        return self.y_scale.restore(np.concatenate(means)[:, None])[:, 0]

    def _mean_of_piece(self, Z: np.ndarray) -> np.ndarray:
        return sum(self.covariance(Z, self.X[rows]) @ self.alpha[rows] for rows in _slices(len(self.X), TILE))

    def _times(self, v: np.ndarray) -> np.ndarray:
        """K v; every tile above the diagonal serves twice."""
        tiles = _slices(len(v), TILE)

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

    def _preconditioner(self) -> SingleFactor:
        noise, prior = self.covariance.noise_variance, float(self.covariance.prior_variance(self.X[:1])[0])
        ridge = max(noise, RIDGE * prior)
        while True:
            try:
                return SingleFactor(self.covariance, self.X, ridge)
            except LinAlgError:
                ridge *= 10.0


class SingleFactor:
    """L Lᵀ = k(X, X) + ridge · I in single precision; called with v (n,), it returns (L Lᵀ)⁻¹ v."""

    def __init__(self, covariance: Any, X: np.ndarray, ridge: float) -> None:
        self.blocks = _slices(len(X), BLOCK)
        self.bands: list[np.ndarray] = []
        """Rows of L, a block at a time, up to the diagonal block."""
        for i, rows in enumerate(self.blocks):
            band = np.empty((rows.stop - rows.start, rows.stop), dtype=np.float32)
            self.bands.append(band)
            for j, columns in enumerate(self.blocks[: i + 1]):
                A = covariance(X[rows], X[columns]).astype(np.float32)
                A -= band[:, : columns.start] @ self.bands[j][:, : columns.start].T
                if j < i:
                    band[:, columns] = _solve(self.bands[j][:, columns], A.T).T
                else:
                    A[np.diag_indices_from(A)] += np.float32(ridge)
                    band[:, columns] = cholesky(A, lower=True, overwrite_a=True, check_finite=False)

    def __call__(self, v: np.ndarray) -> np.ndarray:
        z = v.astype(np.float32)
        for rows, band in zip(self.blocks, self.bands, strict=True):
            z[rows] = _solve(band[:, rows], z[rows] - band[:, : rows.start] @ z[: rows.start])
        for rows, band in zip(reversed(self.blocks), reversed(self.bands), strict=True):
            z[rows] = _solve(band[:, rows], z[rows], transposed=True)
            z[: rows.start] -= z[rows] @ band[:, : rows.start]
        return z.astype(float)


def _solve(L: np.ndarray, b: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    return solve_triangular(L, b, lower=True, trans=int(transposed), check_finite=False)


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


def _slices(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]

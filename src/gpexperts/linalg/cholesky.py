"""Cholesky factorisation of covariance matrices, with jitter if it fails without.

`factorise` first tries without jitter. If that fails, it adds a multiple of the mean diagonal, raised
tenfold until the factorisation succeeds. The jitter used is part of the result: the gradient of the
likelihood takes it into account, and `fit` reports it.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from gpexperts.exceptions import NotPositiveDefiniteError
from gpexperts.linalg.lapack import (
    cholesky_in_place,
    inverse_from_cholesky_in_place,
    invert_triangular_in_place,
    multiply_triangular_in_place,
    solve_triangular_in_place,
)

__all__ = ["JITTERS", "Factor", "InverseFactor", "factorise"]

JITTERS: tuple[float, ...] = (0.0, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
"""Multiples of the mean diagonal that are tried in turn."""


class Factor(NamedTuple):
    """A Cholesky factorisation C + jitter · mean(diag C) · I = L Lᵀ."""

    lower: np.ndarray
    """L in the lower triangle, (m, m), Fortran order; the strict upper triangle is undefined."""

    jitter: float
    """The multiple of C's mean diagonal that was added; usually 0."""

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Overwrite b (k, m), right-hand sides first, with (C⁻¹ bᵀ)ᵀ and return it."""
        solve_triangular_in_place(self.lower, b.T)
        solve_triangular_in_place(self.lower, b.T, transposed=True)
        return b

    def inverted(self) -> InverseFactor:
        """L⁻¹, for many right-hand sides; overwrites the factor."""
        invert_triangular_in_place(self.lower)
        return InverseFactor(self.lower)

    def inverse(self) -> np.ndarray:
        """C⁻¹, (m, m), full and symmetric; overwrites the factor."""
        inverse_from_cholesky_in_place(self.lower)
        return _mirror(self.lower.T)

    def log_determinant(self) -> float:
        """Log |C|, from the diagonal of L."""
        return 2.0 * float(np.log(np.diagonal(self.lower)).sum())


class InverseFactor(NamedTuple):
    """L⁻¹ of a factorisation C = L Lᵀ. Multiplying by it is three times as fast as solving with L."""

    lower: np.ndarray
    """L⁻¹ in the lower triangle, (m, m), Fortran order; the strict upper triangle is undefined."""

    def whiten(self, b: np.ndarray) -> np.ndarray:
        """Overwrite b (k, m), right-hand sides first, with (L⁻¹ bᵀ)ᵀ and return it."""
        multiply_triangular_in_place(self.lower, b.T)
        return b

    def whiten_transposed(self, b: np.ndarray) -> np.ndarray:
        """Overwrite b (k, m), right-hand sides first, with (L⁻ᵀ bᵀ)ᵀ and return it."""
        multiply_triangular_in_place(self.lower, b.T, transposed=True)
        return b

    def precision(self, block: int = 64) -> np.ndarray:
        """Diagonal of C⁻¹ = L⁻ᵀ L⁻¹, (m,)."""
        m = len(self.lower)
        squares = np.empty(m)
        for start in range(0, m, block):
            stop = min(start + block, m)
            square, below = self.lower[start:stop, start:stop].copy(), self.lower[stop:, start:stop]
            square.T[_below_diagonal(stop - start)] = 0.0
            squares[start:stop] = np.einsum("ij,ij->j", square, square) + np.einsum("ij,ij->j", below, below)
        return squares


def factorise(matrix: np.ndarray, *, name: str = "covariance matrix") -> Factor:
    """Factorise a symmetric positive definite matrix, with the smallest jitter that works.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        Symmetric, C-contiguous; overwritten by the factor.
    name : str
        Name of the matrix in error messages.

    Returns
    -------
    Factor

    Raises
    ------
    NotPositiveDefiniteError
        If the matrix holds NaN or infinity, or if the largest of `JITTERS` is not enough.
    """
    lower = matrix.T  # The matrix is symmetric; its transpose is in Fortran order, as LAPACK needs it.
    diagonal = np.diagonal(matrix).copy()
    mean_diagonal = float(diagonal.mean())
    # Any NaN reaches the last pivot. An infinite pivot may not, as values divided by it become 0.
    if cholesky_in_place(lower) == 0 and np.isfinite(lower[-1, -1]) and np.isfinite(mean_diagonal):
        return Factor(lower, 0.0)
    # LAPACK overwrote only the lower triangle: the strict upper triangle is unchanged.
    if not (np.isfinite(mean_diagonal) and np.isfinite(np.triu(lower, 1)).all()):
        raise NotPositiveDefiniteError(
            f"The {name} ({len(matrix)} rows) contains NaN or infinity. "
            "Look for extreme values in the inputs or in the kernel's hyperparameters."
        )
    for jitter in JITTERS[1:]:
        # The upper triangle is unchanged, and the matrix is restored from it.
        _mirror(lower)
        np.fill_diagonal(lower, diagonal + jitter * mean_diagonal)
        if cholesky_in_place(lower) == 0:
            return Factor(lower, jitter)
    raise NotPositiveDefiniteError(
        f"The {name} ({len(matrix)} rows) is not positive definite, even with {JITTERS[-1]:g} of its mean "
        "diagonal added. Add a WhiteKernel to the kernel, or raise its noise_level or its lower bound."
    )


def _mirror(a: np.ndarray, block: int = 64) -> np.ndarray:
    """Copy the strict upper triangle of `a` onto the lower one, block by block, in place."""
    for start in range(0, len(a), block):
        stop = min(start + block, len(a))
        a[start:stop, :start] = a[:start, start:stop].T
        square, below = a[start:stop, start:stop], _below_diagonal(stop - start)
        square[below] = square.T[below]
    return a


@cache
def _below_diagonal(size: int) -> tuple[np.ndarray, np.ndarray]:
    return np.tril_indices(size, -1)

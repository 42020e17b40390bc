"""Zero mean and unit variance, and the way back; safe at any scale a double can hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["FAR", "Standardizer", "check_magnitudes", "is_rounding", "scaled_offsets"]

FAR = 1e150
"""Further away than this many units all places are the same: squares of larger numbers overflow."""


def scaled_offsets(A: np.ndarray, origin: np.ndarray | float, scale: np.ndarray | float) -> np.ndarray:
    """Return (A − origin) / scale as a new array, with ±`FAR` for all that is larger or overflows."""
    with np.errstate(over="ignore"):
        Z = A - origin
        Z /= scale
    return np.clip(Z, -FAR, FAR, out=Z)


def is_rounding(spread: np.ndarray, n: int) -> np.ndarray:
    """Whether columns of n rows are constant, by their deviations relative to their size, (k,)."""
    # What is left of a constant column is rounding of its mean.
    return spread <= 10 * np.finfo(float).eps * np.sqrt(n)


@dataclass(frozen=True)
class Standardizer:
    """z = (x − shift) / scale, column by column."""

    shift: np.ndarray
    """(k,)"""
    scale: np.ndarray
    """(k,) all positive; 1 for a constant column."""

    @classmethod
    def fit(cls, A: np.ndarray) -> Standardizer:
        """Learn the mean and standard deviation (ddof 0) of each column of A (n, k)."""
        # Relative to each column's largest magnitude: squares of 1e200 would overflow, of 1e-200 vanish.
        size = np.abs(A).max(axis=0, initial=0.0)
        size = np.where(size > 0, size, 1.0)
        relative = A / size
        mean = relative.mean(axis=0)
        spread = relative.std(axis=0)
        constant = is_rounding(spread, len(A))
        mean = np.where(constant, relative[0], mean)
        return cls(mean * size, np.where(constant, 1.0, spread * size))

    @classmethod
    def identity(cls, k: int) -> Standardizer:
        """Return the standardizer that changes nothing."""
        return cls(np.zeros(k), np.ones(k))

    def transform(self, A: np.ndarray) -> np.ndarray:
        """Return A (n, k) in standardised units, as a new array; what is beyond ±`FAR` comes to lie there."""
        return scaled_offsets(A, self.shift, self.scale)

    def restore(self, Z: np.ndarray) -> np.ndarray:
        """Return Z (…, k) in the original units."""
        return Z * self.scale + self.shift


def check_magnitudes(X: np.ndarray, y: np.ndarray) -> None:
    """Refuse data that have to be standardised, because variances of their size are no doubles.

    Constant columns have no variance to speak of, and are left alone.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, p)
    """
    for name, values, least in (("X", X, 0.0), ("y", y, 1.0 / FAR)):
        size = float(np.abs(values[:, (values != values[0]).any(axis=0)]).max(initial=0.0))
        if not (size == 0.0 or least <= size <= FAR):
            raise ValueError(
                f"standardize=False, but {name} has values of size {size:.3g}, whose squares a double cannot "
                f"hold. Leave standardize=True, or bring {name} to a size below {FAR:g}"
                + (f" and above {least:g}." if least else ".")
            )

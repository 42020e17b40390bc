"""Zero mean and unit variance, and the way back; safe at any scale a double can hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Standardizer"]


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
        # What is left of a constant column is rounding of its mean.
        constant = spread <= 10 * np.finfo(float).eps * np.sqrt(len(A))
        mean = np.where(constant, relative[0], mean)
        return cls(mean * size, np.where(constant, 1.0, spread * size))

    @classmethod
    def identity(cls, k: int) -> Standardizer:
        """Return the standardizer that changes nothing."""
        return cls(np.zeros(k), np.ones(k))

    def transform(self, A: np.ndarray) -> np.ndarray:
        """Return A (n, k) in standardised units, as a new array."""
        Z = A - self.shift
        Z /= self.scale
        return Z

    def restore(self, Z: np.ndarray) -> np.ndarray:
        """Return Z (…, k) in the original units."""
        return Z * self.scale + self.shift

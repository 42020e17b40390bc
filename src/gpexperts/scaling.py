"""Zero mean and unit variance, and the way back; safe at any scale a double can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

__all__ = ["FAR", "ColumnSummary", "Standardizer", "check_magnitudes", "rounded", "scaled_offsets"]

FAR = 1e150
"""Scaled values are clipped to ±FAR: squares of larger numbers overflow."""
_BITS = 30
"""Of a mean or a deviation that are kept. They differ in the last bits with the order of summation; without
those bits, the same rows have the same scaling whatever the pieces in which they are stored."""


def scaled_offsets(A: np.ndarray, origin: np.ndarray | float, scale: np.ndarray | float) -> np.ndarray:
    """Return (A − origin) / scale as a new array, clipped to ±`FAR`."""
    with np.errstate(over="ignore"):
        Z = A - origin
        Z /= scale
    return np.clip(Z, -FAR, FAR, out=Z)


class ColumnSummary(NamedTuple):
    """Means, deviations and ranges of the columns of some rows."""

    n: int
    """Rows."""
    mean: np.ndarray
    """(k,)"""
    std: np.ndarray
    """(k,) with ddof 0; 0 where only rounding is left of it."""
    low: np.ndarray
    """(k,) smallest value."""
    high: np.ndarray
    """(k,) largest value."""
    weight: float | None = None
    """Sum of the weights of the rows; None stands for n."""

    @classmethod
    def of(cls, A: np.ndarray, weight: np.ndarray | None = None) -> ColumnSummary:
        """Summarise A (n, k), whose rows may have weights (n,)."""
        if len(A) == 0:
            zero = np.zeros(A.shape[1])
            return cls(0, zero, zero, zero, zero)
        low, high = A.min(axis=0), A.max(axis=0)
        # Relative to each column's largest magnitude: squares of 1e200 would overflow, of 1e-200 vanish.
        size = _size(low, high)
        relative = A / size
        if weight is None:
            mean, std, total = relative.mean(axis=0), relative.std(axis=0), None
        else:
            total = float(weight.sum())
            mean = weight / total @ relative
            std = np.sqrt(weight / total @ (relative - mean) ** 2)
        return _without_rounding(len(A), mean * size, std * size, low, high, total)

    @classmethod
    def combined(cls, parts: Sequence[ColumnSummary]) -> ColumnSummary:
        """Summarise the rows of several summaries, at least one of which has rows."""
        parts = [part for part in parts if part.n]
        n = sum(part.n for part in parts)
        weighted = parts[0].weight is not None
        each = np.array([part.weight if weighted else part.n for part in parts])
        share = each / each.sum()
        means, stds, lows, highs = (np.stack(columns) for columns in list(zip(*parts, strict=True))[1:5])
        low, high = lows.min(axis=0), highs.max(axis=0)
        size = _size(low, high)
        mean = share @ (means / size)
        variance = share @ ((stds / size) ** 2 + (means / size - mean) ** 2)
        total = float(each.sum()) if weighted else None
        return _without_rounding(n, mean * size, np.sqrt(variance) * size, low, high, total)

    @property
    def constant(self) -> np.ndarray:
        """(k,) whether all values of a column are equal."""
        return np.asarray(self.low == self.high)

    @property
    def spread(self) -> np.ndarray:
        """(k,) the deviation; 1 for a constant column."""
        return np.where(self.std > 0, self.std, 1.0)

    def shared_spread(self, scale_index: np.ndarray | None) -> np.ndarray:
        """(k,) the spread of all inputs together that share a length scale, by its number (k,)."""
        if scale_index is None:
            return self.spread
        # Variances are added, as squared distances are.
        total = np.sqrt(np.bincount(scale_index, weights=self.std**2))[scale_index]
        return np.where(total > 0, total, 1.0)


def _size(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    size = np.maximum(np.abs(low), np.abs(high))
    return np.where(size > 0, size, 1.0)


def _without_rounding(
    n: int, mean: np.ndarray, std: np.ndarray, low: np.ndarray, high: np.ndarray, weight: float | None
) -> ColumnSummary:
    """Set the deviation of constant columns, which is rounding of their mean, to 0."""
    rounding = std <= 10 * np.finfo(float).eps * np.sqrt(n) * _size(low, high)
    return ColumnSummary(n, np.where(rounding, low, mean), np.where(rounding, 0.0, std), low, high, weight)


@dataclass(frozen=True)
class Standardizer:
    """z = (x − shift) / scale, column by column."""

    shift: np.ndarray
    """(k,)"""
    scale: np.ndarray
    """(k,) all positive; 1 for a constant column."""

    @classmethod
    def of(cls, summary: ColumnSummary) -> Standardizer:
        """Return the standardizer to zero mean and unit variance, both to 9 digits."""
        scale = rounded(summary.spread)
        with np.errstate(over="ignore", invalid="ignore"):
            shift = np.round(summary.mean / scale * 2.0**_BITS) / 2.0**_BITS * scale
        usable = (summary.std > 0) & np.isfinite(shift)
        return cls(np.where(usable, shift, summary.mean), scale)

    @classmethod
    def identity(cls, k: int) -> Standardizer:
        """Return the standardizer that changes nothing."""
        return cls(np.zeros(k), np.ones(k))

    def transform(self, A: np.ndarray) -> np.ndarray:
        """Return A (n, k) in standardised units, as a new array, clipped to ±`FAR`."""
        return scaled_offsets(A, self.shift, self.scale)

    def restore(self, Z: np.ndarray) -> np.ndarray:
        """Return Z (…, k) in the original units."""
        return Z * self.scale + self.shift


def rounded(values: np.ndarray) -> np.ndarray:
    """Return values to 9 digits (30 bits)."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0**_BITS) / 2.0**_BITS, exponent)


def check_magnitudes(X: ColumnSummary, y: ColumnSummary) -> None:
    """Refuse data whose variances are not doubles, where they are not to be standardised.

    Constant columns have no variance, and are left alone.
    """
    for name, values, least in (("X", X, 0.0), ("y", y, 1.0 / FAR)):
        varies = ~values.constant
        size = float(np.maximum(np.abs(values.low), np.abs(values.high))[varies].max(initial=0.0))
        if not (size == 0.0 or least <= size <= FAR):
            raise ValueError(
                f"standardize=False, but {name} has values of size {size:.3g}, whose squares a double cannot "
                f"hold. Leave standardize=True, or bring {name} to a size below {FAR:g}"
                + (f" and above {least:g}." if least else ".")
            )

"""Points for the levels of a category, all (nearly) at distance 1 from each other.

A stationary kernel sees levels by their distances only, and levels without order are equally far apart. Up
to 32 levels are the corners of a regular simplex: distances are exactly 1, as of one-hot columns divided by
√2, with one column less. More levels would need as many columns. They are words of a binary code instead,
whose squared distances are 3/4, 1 or 5/4: 31 columns hold 1,024 levels, 63 columns hold 4,096. The words are
those of the Gold codes (R. Gold, 1967), two linear shift registers whose sums have three correlations only.
"""

from __future__ import annotations

import numpy as np

__all__ = ["MOST_LEVELS", "level_points", "n_columns"]

_SIMPLEX = 32
"""Levels up to which the points are those of a simplex."""
_REGISTERS: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {
    5: ((5, 2), (5, 4, 3, 2)),
    6: ((6, 1), (6, 5, 2, 1)),
}
"""Degree ↦ exponents of two polynomials, each with the constant 1, that form a preferred pair."""
MOST_LEVELS = 4 ** max(_REGISTERS)
"""Levels that can be told apart."""


def n_columns(n: int) -> int:
    """Return the number of coordinates of `level_points(n)`."""
    if n <= _SIMPLEX:
        return max(1, n - 1)
    return 2 ** _degree(n) - 1


def level_points(n: int) -> np.ndarray:
    """Return one point per level.

    Parameters
    ----------
    n : int
        Levels, at least 1 and at most `MOST_LEVELS`.

    Returns
    -------
    points : ndarray of shape (n, n_columns(n))
        Squared distances are 1; for more than 32 levels, from 3/4 to 5/4.
    """
    if n <= _SIMPLEX:
        points = np.zeros((n, n_columns(n)))
        if n > 1:  # relative to the first corner: |v_i|² = 1 and v_iᵀv_j = ½
            points[1:] = np.linalg.cholesky(0.5 * (np.eye(n - 1) + 1.0))
        return points
    degree = _degree(n)
    generator = np.concatenate([_shifts(taps, degree) for taps in _REGISTERS[degree]])
    bits = (np.arange(n)[:, None] >> np.arange(2 * degree)) & 1
    words = (bits @ generator) % 2
    # Two words differ in 2^(degree − 1) places on average; a difference of 2c in each makes the distance 1.
    return (2.0 * words - 1.0) / np.sqrt(2.0 ** (degree + 1))


def _degree(n: int) -> int:
    return next(degree for degree in _REGISTERS if n <= 4**degree)


def _shifts(taps: tuple[int, ...], degree: int) -> np.ndarray:
    """The sequence of a shift register and its first shifts, (degree, 2^degree − 1): a basis of all."""
    period = 2**degree - 1
    sequence = [0] * (degree - 1) + [1]
    for t in range(degree, period + degree):
        sequence.append(sum(sequence[t - tap] for tap in taps) % 2)
    return np.array([sequence[s : s + period] for s in range(degree)])

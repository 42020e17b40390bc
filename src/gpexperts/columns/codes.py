"""Points for the levels of a category, all (nearly) at distance 1 from each other.

A stationary kernel sees levels by their distances only, and levels without order are equally far apart. Few
levels are the corners of a regular simplex: distances are exactly 1, as of one-hot columns divided by √2,
with one column less. More levels would need as many columns. They are words of a Gold (1967) code instead:
sums of the sequences of two shift registers of degree D, with 2^D − 1 columns for up to 4^D levels. Squared
distances are 1 between the first 2^D levels, and at most 1/4 (D = 5, 6) or 1/8 (D = 7) from 1 otherwise. The
degree depends on the number of rows, since the points of all rows are in memory.
"""

from __future__ import annotations

import numpy as np

__all__ = ["DEGREES", "MOST_LEVELS", "code_degree", "level_points", "n_columns"]

_REGISTERS: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {
    5: ((5, 2), (5, 4, 3, 2)),
    6: ((6, 1), (6, 5, 2, 1)),
    7: ((7, 3), (7, 3, 2, 1)),
}
"""Degree ↦ exponents of two polynomials, each with the constant 1, that form a preferred pair."""
DEGREES = tuple(_REGISTERS)
MOST_LEVELS = 4 ** max(DEGREES)
"""Levels that can be told apart."""
_ENTRIES = 2**25
"""Of the encoded columns of one category: a larger degree is used as long as they take no more (256 MiB)."""


def code_degree(n: int, n_rows: int) -> int:
    """Return the degree of the code of n levels in a table of `n_rows` rows."""
    exact = next((degree for degree in DEGREES if n <= 2**degree), max(DEGREES))
    affordable = [degree for degree in DEGREES if n_rows * (2**degree - 1) <= _ENTRIES]
    least = next(degree for degree in DEGREES if n <= 4**degree)
    return max(least, min(exact, max(affordable, default=min(DEGREES))))


def n_columns(n: int, degree: int) -> int:
    """Return the number of coordinates of `level_points(n, degree)`."""
    return max(1, min(n, 2**degree) - 1)


def level_points(n: int, degree: int) -> np.ndarray:
    """Return one point per level.

    Parameters
    ----------
    n : int
        Levels, from 1 to 4 ** degree.
    degree : int
        One of `DEGREES`.

    Returns
    -------
    points : ndarray of shape (n, n_columns(n, degree))
        Squared distances are 1 if n is at most 2 ** degree, and nearly 1 otherwise.
    """
    if n <= 2**degree:
        points = np.zeros((n, n_columns(n, degree)))
        if n > 1:  # relative to the first corner: |v_i|² = 1 and v_iᵀv_j = ½
            points[1:] = np.linalg.cholesky(0.5 * (np.eye(n - 1) + 1.0))
        return points
    generator = np.concatenate([_shifts(taps, degree) for taps in _REGISTERS[degree]])
    bits = (np.arange(n)[:, None] >> np.arange(2 * degree)) & 1
    words = (bits @ generator) % 2
    # Two words differ in 2^(degree − 1) places on average; a difference of 2c in each makes the distance 1.
    return np.asarray((2.0 * words - 1.0) / np.sqrt(2.0 ** (degree + 1)))


def _shifts(taps: tuple[int, ...], degree: int) -> np.ndarray:
    """The sequence of a shift register and its first shifts, (degree, 2^degree − 1): a basis of all."""
    period = 2**degree - 1
    sequence = [0] * (degree - 1) + [1]
    for t in range(degree, period + degree):
        sequence.append(sum(sequence[t - tap] for tap in taps) % 2)
    return np.array([sequence[s : s + period] for s in range(degree)])

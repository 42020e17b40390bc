"""Points for the levels of a category, all (nearly) at distance 1 from each other.

A stationary kernel sees levels by their distances only, and levels without order are equally far apart.
One-hot columns divided by √2 are exactly at distance 1. Where they would take too much memory, levels are
words of a Gold (1967) code instead: sums of the sequences of two shift registers of degree D, with 2^D − 1
columns for up to 4^D levels. Squared distances are 1 between the first 2^D levels, and at most 1/4
(D = 5, 6) or 1/8 (D = 7) from 1 otherwise. That has a price: d columns hold the effects of d levels, and
those of more levels are mixed.
"""

from __future__ import annotations

import numpy as np

__all__ = ["DEGREES", "MOST_LEVELS", "code_degree", "level_points", "most_levels", "n_columns"]

_REGISTERS: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {
    5: ((5, 2), (5, 4, 3, 2)),
    6: ((6, 1), (6, 5, 2, 1)),
    7: ((7, 3), (7, 3, 2, 1)),
}
"""Degree ↦ exponents of two polynomials, each with the constant 1, that form a preferred pair."""
_EXACT = 10
"""The degree of levels that have a column each, but are too many for that by any of these codes."""
DEGREES = (*_REGISTERS, _EXACT)
MOST_LEVELS = 4 ** max(_REGISTERS)
"""Levels that can be told apart."""
_ENTRIES = 2**25
"""Of the encoded columns of one category: a larger degree is used as long as they take no more (256 MiB)."""


def most_levels(degree: int) -> int:
    """Return the number of points that there are for a degree."""
    return int(2**degree if degree == _EXACT else 4**degree)


def code_degree(n: int, n_rows: int) -> int:
    """Return the degree of the code of n levels in a table of `n_rows` rows."""
    possible = [degree for degree in DEGREES if n <= most_levels(degree)]
    exact = next((degree for degree in possible if n <= 2**degree), max(_REGISTERS))
    affordable = [degree for degree in possible if n_rows * n_columns(n, degree) <= _ENTRIES]
    return min(exact, max(affordable, default=min(possible)))


def n_columns(n: int, degree: int) -> int:
    """Return the number of coordinates of `level_points(n, degree)`."""
    if n <= 2:
        return 1
    return n if n <= 2**degree else 2**degree - 1


def level_points(n: int, degree: int) -> np.ndarray:
    """Return one point per level.

    Parameters
    ----------
    n : int
        Levels, from 1 to `most_levels(degree)`.
    degree : int
        One of `DEGREES`.

    Returns
    -------
    points : ndarray of shape (n, n_columns(n, degree))
        Squared distances are 1 if n is at most 2 ** degree, and nearly 1 otherwise.
    """
    if n <= 2:
        return np.arange(float(n))[:, None]
    if n <= 2**degree:
        return np.eye(n) / np.sqrt(2.0)
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

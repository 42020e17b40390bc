"""Exact nearest rows of a few points by matrix products, with ties broken by the row number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Nearest", "merged", "nearest_rows", "rounded"]

_ENTRIES = 8_000_000
"""Of the array of distances that is in memory at a time."""
_PROBE = 20_000
"""Rows, evenly spaced, that give a first bound on the distance of the m-th nearest row."""
_BITS = 30
"""Of a distance that count. The rest is rounding, which may differ from one batch to the next."""
_SLACK = 1e-9
"""Relative error of squared distances from matrix products, generously: candidates are computed again."""


class Nearest(NamedTuple):
    """The rows nearest to each of k points, nearest first."""

    distance: np.ndarray
    """(k, m) squared and rounded; infinite where there are fewer than m rows."""
    number: np.ndarray
    """(k, m)"""


def rounded(distance: np.ndarray) -> np.ndarray:
    """Return distances to 9 digits: what differs beyond them counts as a tie."""
    mantissa, exponent = np.frexp(distance)
    return np.ldexp(np.round(mantissa * 2.0**_BITS), exponent)


def nearest_rows(
    X: np.ndarray, numbers: np.ndarray, points: np.ndarray, metric: np.ndarray, m: int
) -> Nearest:
    """Return the m rows of X (n, d) nearest to each of the points (k, d).

    Parameters
    ----------
    X : ndarray of shape (n, d)
    numbers : ndarray of shape (n,)
        Ascending.
    points : ndarray of shape (k, d)
    metric : ndarray of shape (d,)
    m : int
    """
    k, n = len(points), len(X)
    best = Nearest(np.full((k, m), np.inf), np.full((k, m), np.iinfo(np.int64).max))
    if n == 0 or k == 0:
        return best
    centre = points.mean(axis=0)
    P = (points - centre) / metric
    p2 = np.einsum("kd,kd->k", P, P)
    bound = np.full(k, np.inf)
    if n > 2 * _PROBE and m <= _PROBE:
        probe = (X[:: n // _PROBE] - centre) / metric
        sq = _squares(probe, P, p2)
        bound = np.partition(sq, m - 1, axis=1)[:, m - 1]
    step = max(m, _ENTRIES // k)
    for start in range(0, n, step):
        Z = (X[start : start + step] - centre) / metric
        sq = _squares(Z, P, p2)
        size = p2 + float(np.einsum("nd,nd->n", Z, Z).max())
        if m < len(Z):
            bound = np.minimum(bound, np.partition(sq, m - 1, axis=1)[:, m - 1] + _SLACK * size)
        point, row = np.nonzero(sq <= (bound + _SLACK * size)[:, None])
        distance = rounded(((Z[row] - P[point]) ** 2).sum(axis=1))
        best = _with_candidates(best, point, distance, numbers[start : start + step][row])
        bound = np.minimum(bound, best.distance[:, -1] * (1.0 + _SLACK))
    return best


def merged(several: list[Nearest], m: int) -> Nearest:
    """Return the m nearest rows of several sets of rows."""
    distance = np.concatenate([s.distance for s in several], axis=1)
    number = np.concatenate([s.number for s in several], axis=1)
    order = np.lexsort((number, distance), axis=1)[:, :m]
    return Nearest(*(np.take_along_axis(values, order, axis=1) for values in (distance, number)))


def _squares(Z: np.ndarray, P: np.ndarray, p2: np.ndarray) -> np.ndarray:
    """|p − z|² for all pairs, (k, n), by one matrix product."""
    sq = P @ Z.T
    sq *= -2.0
    sq += np.einsum("nd,nd->n", Z, Z)
    sq += p2[:, None]
    return sq


def _with_candidates(best: Nearest, point: np.ndarray, distance: np.ndarray, number: np.ndarray) -> Nearest:
    """Merge a list of candidates, grouped by point in ascending order, into the best so far."""
    counts = np.bincount(point, minlength=len(best.distance))
    width = int(counts.max(initial=0))
    if width == 0:
        return best
    column = np.arange(len(point)) - np.repeat(np.cumsum(counts) - counts, counts)
    more = Nearest(
        np.full((len(counts), width), np.inf), np.full((len(counts), width), np.iinfo(np.int64).max)
    )
    more.distance[point, column] = distance
    more.number[point, column] = number
    return merged([best, more], best.distance.shape[1])

"""Squared distances between all pairs of two sets of points, by matrix products."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = [
    "CACHED",
    "MANY_INPUTS",
    "SMALL",
    "Pairs",
    "factors",
    "portions",
    "products",
    "refine",
    "squared_distances",
    "varying",
]

CACHED = 65_536
"""Entries of a matrix that are computed together, so that they stay in the cache."""
SMALL = 1e-6
"""Squared distances below this share of the squared norms have lost six digits or more to cancellation."""

MANY_INPUTS = 32
"""Inputs up to which none is left out."""

Pairs = tuple[np.ndarray, np.ndarray]
"""Rows and columns of some entries of a matrix."""


def squared_distances(X: np.ndarray, Z: np.ndarray, far: float) -> np.ndarray:
    """|x − z|² for all pairs, (…, n, m), as one matrix product; never negative, and at most `far`."""
    return products(_left(X), _right(Z), far)


def varying(Z: np.ndarray) -> np.ndarray:
    """Return sets of points (B, n, d), relative to one of each, without inputs that are 0; (B, n, at most d).

    Most columns of a category with many levels are 0 in a small set: none of its points has the level.
    """
    d = Z.shape[2]
    if d <= MANY_INPUTS:
        return Z
    varies = Z.any(axis=1)
    width = max(1, int(varies.sum(axis=1).max(initial=0)))
    if 2 * width > d:
        return Z
    first = np.argsort(~varies, axis=1, kind="stable")[:, :width]
    return np.take_along_axis(Z, first[:, None], axis=2)


def factors(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors (…, n, d + 2) whose `products` are the squared distances of Z (…, n, d), and |z|² (…, n)."""
    left = _left(Z)
    norms = left[..., -2]
    return left, _right(Z, norms), norms


def products(left: np.ndarray, right: np.ndarray, far: float) -> np.ndarray:
    """Squared distances from factors; never negative, and at most `far`."""
    sq = np.matmul(left, np.swapaxes(right, -1, -2))
    np.maximum(sq, 0.0, out=sq)
    return np.minimum(sq, far, out=sq)


# (−2x, |x|², 1) · (z, 1, |z|²): two passes over the result fewer than adding the norms afterwards.


def _left(X: np.ndarray) -> np.ndarray:
    left = np.empty((*X.shape[:-1], X.shape[-1] + 2))
    np.multiply(X, -2.0, out=left[..., :-2])
    left[..., -2], left[..., -1] = np.einsum("...ij,...ij->...i", X, X), 1.0
    return left


def _right(Z: np.ndarray, norms: np.ndarray | None = None) -> np.ndarray:
    right = np.empty((*Z.shape[:-1], Z.shape[-1] + 2))
    right[..., :-2], right[..., -2] = Z, 1.0
    right[..., -1] = np.einsum("...ij,...ij->...i", Z, Z) if norms is None else norms
    return right


def refine(sq: np.ndarray, X: np.ndarray, Z: np.ndarray) -> Pairs:
    """Compute small squared distances again from differences, which lose no digits; in place.

    Returns
    -------
    rows, columns : ndarray of int
        The entries that were refined.
    """
    # The largest |z|² bounds all of them: a few more entries are refined, but no matrix of norms is needed.
    size = np.einsum("ij,ij->i", X, X) + np.einsum("ij,ij->i", Z, Z).max(initial=0.0)
    rows, columns = np.divmod(np.flatnonzero(sq <= SMALL * size[:, None]), max(1, len(Z)))
    for i, j in portions(rows, columns, X.shape[1]):
        sq[i, j] = ((X[i] - Z[j]) ** 2).sum(axis=1)
    return rows, columns


def portions(rows: np.ndarray, columns: np.ndarray, d: int) -> Iterator[Pairs]:
    """Cut a list of pairs so that their differences in d inputs stay in the cache."""
    step = max(1, CACHED // d)
    return (
        (rows[start : start + step], columns[start : start + step]) for start in range(0, len(rows), step)
    )

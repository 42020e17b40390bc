"""Inputs of small systems of rows, without the columns of levels that none of their rows has."""

from __future__ import annotations

import numpy as np

from gpexperts.kernels.distances import MANY_INPUTS

__all__ = ["compact"]


def compact(
    X: np.ndarray, at: np.ndarray, scale_index: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the inputs of systems of rows, without most columns of categories with many levels.

    A category of 400 levels has 400 columns, of which all but one are 0 in a row. A system needs as many as
    its rows have levels: the first for one level in one system, for another in the next.

    Parameters
    ----------
    X : ndarray of shape (k, d)
    at : ndarray of int, shape (B, m)
        The rows of each system.
    scale_index : ndarray of int, shape (d,), optional
        The length scale of each column.

    Returns
    -------
    inputs : ndarray of shape (B, m, at most d)
        With the distances between the rows of each system.
    scale_index : ndarray of int, or None
        The length scale of each; None if all columns are kept.
    """
    if scale_index is None:
        return X[at], None
    many = np.flatnonzero(np.bincount(scale_index) > MANY_INPUTS)
    levels = {group: _levels(X[:, scale_index == group]) for group in many}
    categories = {group: found for group, found in levels.items() if found is not None}
    if not categories:
        return X[at], None
    kept = ~np.isin(scale_index, list(categories))
    columns, index = [X[:, kept][at]], [scale_index[kept]]
    for group, (level, value) in categories.items():
        places = _ranks(level[at])
        one_hot = np.zeros((*at.shape, int(places.max(initial=0)) + 1))
        np.put_along_axis(one_hot, places[..., None], value, axis=2)
        columns.append(one_hot)
        index.append(np.full(one_hot.shape[2], group))
    return np.concatenate(columns, axis=2), np.concatenate(index)


def _levels(points: np.ndarray) -> tuple[np.ndarray, float] | None:
    """The level (k,) of one-hot points (k, levels) and the value of its column; None for other points."""
    level = np.argmax(points, axis=1)
    value = points[np.arange(len(points)), level]
    one_hot = len(points) and (value == value[0]).all() and np.count_nonzero(points) == len(points)
    return (level, float(value[0])) if one_hot else None


def _ranks(values: np.ndarray) -> np.ndarray:
    """Number (B, m) the distinct integers of each row of (B, m), in ascending order."""
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    rank = np.zeros_like(values)
    np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1, out=rank[:, 1:])
    places = np.empty_like(rank)
    np.put_along_axis(places, order, rank, axis=1)
    return places

"""Who asks whom: the queries of a batch sorted by expert, and by pair of experts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["ByExpert", "ByPair", "queries_by_expert", "queries_by_pair"]


class ByExpert(NamedTuple):
    """The queries of a batch that ask one expert."""

    expert: int
    query: np.ndarray
    column: np.ndarray


def queries_by_expert(index: np.ndarray) -> Iterator[ByExpert]:
    """For each expert that `index` (n, K) names, its queries in ascending order; −1 pads."""
    K = index.shape[1]
    flat = index.ravel()
    order = np.argsort(flat, kind="stable")
    order = order[np.searchsorted(flat[order], 0) :]  # leave out the padding, −1
    for entries in np.split(order, np.flatnonzero(np.diff(flat[order])) + 1):
        if len(entries):
            yield ByExpert(int(flat[entries[0]]), entries // K, entries % K)


class ByPair(NamedTuple):
    """The queries of a batch that ask both of two experts, i < j."""

    i: int
    j: int
    query: np.ndarray
    column_i: np.ndarray
    column_j: np.ndarray


def queries_by_pair(index: np.ndarray) -> Iterator[ByPair]:
    """For each pair of experts that a query of `index` (n, K) asks both, its queries in ascending order."""
    n, K = index.shape
    if n == 0 or K < 2:
        return
    a, b = np.triu_indices(K, 1)
    first, second = index[:, a], index[:, b]  # (n, K(K−1)/2)
    swap = first > second
    base = int(index.max()) + 1
    key = np.minimum(first, second).astype(np.int64) * base + np.maximum(first, second)
    key[(first < 0) | (second < 0)] = -1
    flat = key.ravel()
    order = np.argsort(flat, kind="stable")
    order = order[np.searchsorted(flat[order], 0) :]
    for entries in np.split(order, np.flatnonzero(np.diff(flat[order])) + 1):
        if len(entries) == 0:
            continue
        query, pair = np.divmod(entries, len(a))
        flipped = swap[query, pair]
        column_i, column_j = (
            np.where(flipped, b[pair], a[pair]),
            np.where(flipped, a[pair], b[pair]),
        )
        i, j = divmod(int(flat[entries[0]]), base)
        yield ByPair(i, j, query, column_i, column_j)

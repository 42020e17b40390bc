"""The queries of a batch, grouped by selected expert and by pair of selected experts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["QueriesOfExpert", "QueriesOfPair", "queries_by_expert", "queries_by_pair"]


class QueriesOfExpert(NamedTuple):
    """The queries for which one expert is selected: `expert` is ``index[query, column]``."""

    expert: int
    query: np.ndarray
    column: np.ndarray


class QueriesOfPair(NamedTuple):
    """The queries for which both of two experts i < j are selected, and the column of each."""

    i: int
    j: int
    query: np.ndarray
    column_i: np.ndarray
    column_j: np.ndarray


def queries_by_expert(index: np.ndarray) -> Iterator[QueriesOfExpert]:
    """Yield the queries of each expert in `index` (n, K), in ascending order; −1 pads."""
    K = index.shape[1]
    flat = index.ravel()
    for entries in _equal_entries(flat):
        yield QueriesOfExpert(int(flat[entries[0]]), entries // K, entries % K)


def queries_by_pair(index: np.ndarray) -> Iterator[QueriesOfPair]:
    """Yield the queries of each pair of experts in a row of `index` (n, K), in ascending order; −1 pads."""
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
    for entries in _equal_entries(flat):
        query, pair = np.divmod(entries, len(a))
        swapped = swap[query, pair]
        i, j = divmod(int(flat[entries[0]]), base)
        column_i, column_j = np.where(swapped, b[pair], a[pair]), np.where(swapped, a[pair], b[pair])
        yield QueriesOfPair(i, j, query, column_i, column_j)


def _equal_entries(flat: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the positions of each value of `flat` that is not negative, in ascending order."""
    order = np.argsort(flat, kind="stable")
    order = order[np.searchsorted(flat[order], 0) :]  # leave out the padding, −1
    if len(order):
        yield from np.split(order, np.flatnonzero(np.diff(flat[order])) + 1)

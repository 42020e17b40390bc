"""Batches of items of about equal cost: a Dask task has an overhead of about a millisecond."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpexperts.engines.base import Result

__all__ = ["balanced_batches", "in_order"]


def balanced_batches(costs: Sequence[float], n_batches: int) -> list[list[int]]:
    """Assign positions to at most `n_batches` non-empty batches of about equal cost."""
    n_batches = min(n_batches, len(costs))
    batches: list[list[int]] = [[] for _ in range(n_batches)]
    load = np.zeros(n_batches)
    for position in np.argsort(-np.asarray(costs, dtype=float), kind="stable"):
        lightest = int(np.argmin(load))
        batches[lightest].append(int(position))
        load[lightest] += max(costs[position], 1e-300)
    return [sorted(batch) for batch in batches]


def in_order(batches: Sequence[Sequence[int]], results: Sequence[Sequence[Result]]) -> list[Result]:
    """Undo `balanced_batches`: one result per position."""
    placed = {
        position: result
        for batch, values in zip(batches, results, strict=True)
        for position, result in zip(batch, values, strict=True)
    }
    return [placed[position] for position in range(len(placed))]

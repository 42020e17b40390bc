"""Nearest rows of queries whose experts are on a cluster: searched where the rows are.

    queries ─► distance to the box of every shard
    shard g ─► nearest rows of the queries whose nearest box is its own ─► bound on the m-th distance
    shard g ─► nearest rows of the other queries whose bound reaches its box ─► the m nearest of all
    shard g ─► the rows that were found, each once ─► neighbourhoods

The result is that of :meth:`LocalExperts.neighbourhood`; only rows that are neighbours move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpexperts.engines.dask import DaskEngine
from gpexperts.engines.threads import ThreadEngine
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.own import Neighbourhood
from gpexperts.rows.neighbours import Nearest, merged

__all__ = ["Boxes", "box_of", "neighbourhood_graph"]

_REACH = 1.0 + 1e-8
"""Distances are compared with this margin for rounding."""


class Boxes(NamedTuple):
    """The smallest box around the rows of each of G shards, in the metric of the kernel."""

    low: np.ndarray
    """(G, d)"""
    high: np.ndarray
    """(G, d)"""
    metric: np.ndarray
    """(d,)"""


def box_of(shard: LocalExperts, metric: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners (d,) of the box around the rows of a shard."""
    Z = shard.X / metric
    return Z.min(axis=0), Z.max(axis=0)


def neighbourhood_graph(
    engine: DaskEngine, shards: Sequence[Any], starts: np.ndarray, boxes: Boxes, X: Any, m: int
) -> Any:
    """Return the task that finds the m nearest rows of queries.

    Parameters
    ----------
    engine : DaskEngine
    shards : sequence of Delayed
    starts : ndarray of shape (G + 1,)
        Position of the first row of each shard among all rows.
    boxes : Boxes
    X : Delayed
        Queries (n, d).
    m : int
        At most the number of rows.
    """
    task = engine.task
    found = min(m + 1, int(starts[-1]))  # one more, for the rim
    away = task("distances to shards", _away, X, boxes)
    first = [
        task(f"neighbours in shard {g}", _search, shard, X, away, g, None, found, int(starts[g]))
        for g, shard in enumerate(shards)
    ]
    bound = task("neighbours", _best, first, None, X, found)
    second = [
        task(f"more neighbours in shard {g}", _search, shard, X, away, g, bound, found, int(starts[g]))
        for g, shard in enumerate(shards)
    ]
    near = task("neighbours", _best, second, bound, X, found)
    rows = [
        task(f"rows of neighbours in shard {g}", _rows, shard, near, int(starts[g]))
        for g, shard in enumerate(shards)
    ]
    return task("neighbourhoods", _neighbourhood, near, rows, m)


# ------------------------------------------------------------------------------ what a worker computes


class _Found(NamedTuple):
    """Nearest rows of some of the queries."""

    query: np.ndarray
    nearest: Nearest
    """With the numbers of rows."""
    position: np.ndarray
    """(k, m) among the rows of all experts."""


class _Best(NamedTuple):
    """The nearest rows of all queries so far; infinite distances where there are fewer than m."""

    nearest: Nearest
    position: np.ndarray


def _away(X: np.ndarray, boxes: Boxes) -> np.ndarray:
    """Squared distance of every query to the box of every shard, (n, G)."""
    Z = X / boxes.metric
    away = np.empty((len(Z), len(boxes.low)))
    for g, (low, high) in enumerate(zip(boxes.low, boxes.high, strict=True)):
        outside = np.maximum(np.maximum(low - Z, Z - high), 0.0)
        away[:, g] = np.einsum("nd,nd->n", outside, outside)
    return away


def _search(
    shard: LocalExperts, X: np.ndarray, away: np.ndarray, g: int, bound: _Best | None, m: int, start: int
) -> _Found:
    """The nearest rows of the queries that are searched in shard g, first or second."""
    home = np.argmin(away, axis=1) == g
    if bound is None:
        query = np.flatnonzero(home)
    else:
        query = np.flatnonzero(~home & (away[:, g] <= bound.nearest.squared_distance[:, -1] * _REACH))
    m = min(m, len(shard.X))
    position, sq = shard.nearest(X[query], m, ThreadEngine(1))
    return _Found(query, Nearest(sq, shard.numbers[position]), start + position)


def _best(found: Sequence[_Found], before: _Best | None, X: np.ndarray, m: int) -> _Best:
    n, largest = len(X), np.iinfo(np.int64).max
    if before is None:
        none = np.full((n, m), largest)
        before = _Best(Nearest(np.full((n, m), np.inf), none), none)
    sq, number = (values.copy() for values in before.nearest)
    position = before.position.copy()
    for some in found:
        if len(some.query) == 0:
            continue
        own = Nearest(sq[some.query], number[some.query])
        best = merged([own, some.nearest], m)
        positions = np.concatenate([position[some.query], some.position], axis=1)
        numbers = np.concatenate([own.number, some.nearest.number], axis=1)
        position[some.query] = _aligned(positions, numbers, best.number)
        sq[some.query], number[some.query] = best
    return _Best(Nearest(sq, number), position)


def _aligned(values: np.ndarray, numbers: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Reorder values as their numbers appear in `wanted`, row by row; numbers are unique but for padding."""
    order = np.argsort(numbers, axis=1, kind="stable")
    ranked = np.take_along_axis(numbers, order, axis=1)
    place = np.stack([np.searchsorted(row, some) for row, some in zip(ranked, wanted, strict=True)])
    return np.take_along_axis(values, np.take_along_axis(order, place, axis=1), axis=1)


def _rows(shard: LocalExperts, near: _Best, start: int) -> tuple[np.ndarray, ...]:
    """Positions, inputs, targets and noise of the neighbours that are in a shard, each once."""
    position = np.unique(near.position)
    position = position[(position >= start) & (position < start + len(shard.X))]
    return position, *shard.take(position - start)


def _neighbourhood(near: _Best, rows: Sequence[tuple[np.ndarray, ...]], m: int) -> Neighbourhood:
    position, X, y, noise = (np.concatenate(columns) for columns in zip(*rows, strict=True))
    sq = near.nearest.squared_distance
    m = min(m, sq.shape[1])
    rim = sq[:, m] if sq.shape[1] > m else np.full(len(sq), np.inf)
    at = np.searchsorted(position, near.position[:, :m])
    return Neighbourhood(
        X[at], y[at], noise[at], sq[:, :m], rim, near.position[:, :m], near.nearest.number[:, :m]
    )

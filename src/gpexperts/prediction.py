"""From queries and the experts they ask to moments, in batches that fit the memory budget.

The work is ordered by who is asked, not by who asks: one triangular solve per expert serves all the
queries that chose it, and one matrix product per pair of experts serves all the queries that chose
both. Queries are sorted by their experts before they are cut into batches, so that those who share
experts also share the blocks k(X_i, X_j).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpexperts.aggregation.base import Aggregator
from gpexperts.engines.base import Engine
from gpexperts.experts.local import Answer, Experts
from gpexperts.moments import ExpertMoments, Prediction

__all__ = ["gather_moments", "predict_in_batches", "without_experts", "without_weak_experts"]

_FLOOR = 1e-15
"""Smallest posterior variance, relative to the prior: what rounding leaves of a certainty."""


def predict_in_batches(
    experts: Experts,
    aggregator: Aggregator,
    X: np.ndarray,
    index: np.ndarray,
    engine: Engine,
    *,
    budget: int,
    prune: float = 0.0,
    max_batch: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Iterator[tuple[np.ndarray, ExpertMoments, Prediction]]:
    """Yield (rows, moments, prediction) for batches of queries, until all are answered.

    Parameters
    ----------
    experts : Experts
    aggregator : Aggregator
    X : ndarray of shape (n, d)
        Queries.
    index : ndarray of shape (n, K)
        The experts each query asks; −1 pads.
    engine : Engine
    budget : int
        Bytes for the work arrays of a batch.
    prune : float
        As in :func:`gather_moments`.
    max_batch : int, optional
        Upper limit of queries per batch.
    on_batch : callable, optional
        Called with the number of queries answered by each batch, for progress reports.
    """
    n = len(X)
    if n == 0:
        return
    order = np.lexsort(index.T[::-1])
    size = _batch_size(experts, aggregator, X.shape[1], index.shape[1], budget)
    size = min(size, max_batch or n)
    for start in range(0, n, size):
        rows = order[start : start + size]
        moments = gather_moments(
            experts,
            X[rows],
            index[rows],
            engine,
            covariance=aggregator.needs_covariance,
            communication=aggregator.needs_communication,
            prune=prune,
        )
        yield rows, moments, aggregator.combine(moments)
        if on_batch is not None:
            on_batch(len(rows))


def _batch_size(experts: Experts, aggregator: Aggregator, d: int, K: int, budget: int) -> int:
    """How many queries fit the budget, by what one of them keeps in memory."""
    rows = int(experts.sizes.max()) + (0 if experts.shared is None else len(experts.shared[0]))
    words = 4 * d + (4 + experts.n_outputs) * K
    if aggregator.needs_covariance:
        # q of each asked expert, the gathered copies of a pair, R, its solve, and the list of pairs.
        words += (K + 4) * rows + 8 * K * K
    else:
        words += 3 * rows
    return max(16, budget // (8 * words))


def gather_moments(
    experts: Experts,
    X: np.ndarray,
    index: np.ndarray,
    engine: Engine,
    *,
    covariance: bool,
    communication: bool = False,
    prune: float = 0.0,
) -> ExpertMoments:
    """Ask the experts of `index` about the queries X and collect what they say.

    Parameters
    ----------
    experts : Experts
    X : ndarray of shape (n, d)
    index : ndarray of shape (n, K)
    engine : Engine
    covariance : bool
        Whether the experts' covariances R are wanted.
    communication : bool
        Whether the communication expert is asked too, by every query.
    prune : float
        Experts that explain less than this share of what a query's best expert explains are left
        out before the pairs are formed; their places in the index become −1.
    """
    n, K = index.shape
    prior = experts.covariance.prior_variance(X)
    mean = np.zeros((n, K, experts.n_outputs))
    var = np.repeat(prior[:, None], K, axis=1)
    groups = list(_by_expert(index))

    def ask(group: _Group) -> Answer:
        return experts.answer(group.expert, X[group.query], weights=covariance)

    costs = [float(experts.size(g.expert)) ** 2 * len(g.query) for g in groups]
    answers = engine.map(ask, groups, costs)
    for group, answer in zip(groups, answers, strict=True):
        mean[group.query, group.column] = answer.mean
        var[group.query, group.column] -= answer.explained
    np.maximum(var, _FLOOR * prior[:, None], out=var)

    moments = ExpertMoments(index, mean, var, prior)
    if prune > 0:
        moments = without_weak_experts(moments, prune)
    if covariance:
        moments = replace(moments, covariance=_covariances(experts, moments.index, groups, answers, engine))
    if not communication:
        return moments
    (answer,) = engine.map(lambda i: experts.answer(i, X), [experts.n_experts])
    communication_var = np.maximum(prior - answer.explained, _FLOOR * prior)
    return replace(moments, communication_mean=answer.mean, communication_var=communication_var)


def without_experts(moments: ExpertMoments, dropped: np.ndarray) -> ExpertMoments:
    """Return the moments as if the experts marked in `dropped` (n, K) had not been asked."""
    kept = moments.asked & ~dropped
    R = moments.covariance
    return replace(
        moments,
        index=np.where(kept, moments.index, -1),
        mean=np.where(kept[:, :, None], moments.mean, 0.0),
        var=np.where(kept, moments.var, moments.prior_var[:, None]),
        covariance=None if R is None else np.where(kept[:, :, None] & kept[:, None, :], R, 0.0),
    )


def without_weak_experts(moments: ExpertMoments, prune: float) -> ExpertMoments:
    """Leave out the experts that explain less than `prune` of what a query's best expert explains."""
    explained = moments.prior_var[:, None] - moments.var
    return without_experts(moments, explained < prune * explained.max(axis=1, keepdims=True))


class _Group(NamedTuple):
    """The queries of a batch that ask one expert."""

    expert: int
    query: np.ndarray
    column: np.ndarray


def _by_expert(index: np.ndarray) -> Iterator[_Group]:
    K = index.shape[1]
    flat = index.ravel()
    order = np.argsort(flat, kind="stable")
    order = order[np.searchsorted(flat[order], 0) :]  # leave out the padding, −1
    for entries in np.split(order, np.flatnonzero(np.diff(flat[order])) + 1):
        if len(entries):
            yield _Group(int(flat[entries[0]]), entries // K, entries % K)


def _covariances(
    experts: Experts,
    index: np.ndarray,
    groups: list[_Group],
    answers: list[Answer],
    engine: Engine,
) -> np.ndarray:
    """R (n, K, K) of the experts' means; its diagonal is r_i = q_iᵀ C_i q_i."""
    n, K = index.shape
    R = np.zeros((n, K, K))
    # Where a query's q_i is found: in the answer of group `place[q, k]`, row `slot[q, k]`.
    slot = np.zeros((n, K), dtype=np.int64)
    q = {}
    for group, answer in zip(groups, answers, strict=True):
        slot[group.query, group.column] = np.arange(len(group.query))
        assert answer.explained is not None
        kept = index[group.query, group.column] >= 0
        R[group.query, group.column, group.column] = np.where(kept, answer.explained, 0.0)
        assert answer.weights is not None
        q[group.expert] = answer.weights
    pairs = list(_by_pair(index))

    def covary(pair: _Pair) -> np.ndarray:
        q_i = _take(q[pair.i], slot[pair.query, pair.column_i])
        q_j = _take(q[pair.j], slot[pair.query, pair.column_j])
        return experts.pair_covariance(pair.i, pair.j, q_i, q_j)

    costs = [float(experts.size(p.i) * experts.size(p.j)) * (20 + len(p.query)) for p in pairs]
    for pair, values in zip(pairs, engine.map(covary, pairs, costs), strict=True):
        R[pair.query, pair.column_i, pair.column_j] = values
        R[pair.query, pair.column_j, pair.column_i] = values
    return R


class _Pair(NamedTuple):
    """The queries of a batch that ask both of two experts, i < j."""

    i: int
    j: int
    query: np.ndarray
    column_i: np.ndarray
    column_j: np.ndarray


def _by_pair(index: np.ndarray) -> Iterator[_Pair]:
    K = index.shape[1]
    if K < 2:
        return
    a, b = np.triu_indices(K, 1)
    first, second = index[:, a], index[:, b]  # (n, K(K−1)/2)
    swap = first > second
    key = np.minimum(first, second).astype(np.int64) * (int(index.max()) + 1)
    key += np.maximum(first, second)
    key[(first < 0) | (second < 0)] = -1
    flat = key.ravel()
    order = np.argsort(flat, kind="stable")
    order = order[np.searchsorted(flat[order], 0) :]
    base = int(index.max()) + 1
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
        yield _Pair(i, j, query, column_i, column_j)


def _take(rows: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """rows[positions], without a copy where that is all of them in order."""
    if len(positions) == len(rows) and np.array_equal(positions, np.arange(len(rows))):
        return rows
    return rows[positions]

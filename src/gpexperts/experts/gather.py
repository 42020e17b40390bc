"""From queries and the experts they ask to moments, in batches that fit the memory budget.

The work is ordered by who is asked, not by who asks: one triangular solve per expert serves all the
queries that chose it, and one matrix product per pair of experts serves all the queries that chose
both. Queries are sorted by their experts before they are cut into batches, so that those who share
experts also share the blocks k(X_i, X_j).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpexperts.aggregation.base import Aggregator
from gpexperts.engines.base import Engine
from gpexperts.experts.local import Answer, Experts
from gpexperts.experts.moments import VARIANCE_FLOOR, ExpertMoments, Prediction
from gpexperts.experts.queries import ByExpert, ByPair, queries_by_expert, queries_by_pair

if TYPE_CHECKING:
    from gpexperts.cluster.experts import ClusterExperts

__all__ = [
    "Said",
    "collected",
    "gather_moments",
    "posterior_variance",
    "predict_in_batches",
    "without_experts",
    "without_weak_experts",
]


def predict_in_batches(
    experts: Experts | ClusterExperts,
    aggregator: Aggregator,
    X: np.ndarray,
    index: np.ndarray,
    engine: Engine,
    *,
    budget: int,
    prune: float = 0.0,
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
    on_batch : callable, optional
        Called with the number of queries answered by each batch, for progress reports.
    """
    n = len(X)
    if n == 0:
        return
    order = np.lexsort(index.T[::-1])
    size = _batch_size(experts, aggregator, X.shape[1], index.shape[1], budget)
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
            surprise=aggregator.needs_surprise,
        )
        yield rows, moments, aggregator.combine(moments)
        if on_batch is not None:
            on_batch(len(rows))


def _batch_size(
    experts: Experts | ClusterExperts, aggregator: Aggregator, d: int, K: int, budget: int
) -> int:
    """How many queries fit the budget, by what one of them keeps in memory."""
    largest = sorted((experts.size(i) for i in range(experts.n_experts)), reverse=True)[:K]
    words = 4 * d + (4 + experts.n_outputs) * K
    if aggregator.needs_covariance:
        # q of each asked expert, the gathered copies of a pair, R, its solve, and the list of pairs.
        words += sum(largest) + 4 * largest[0] + 8 * K * K
    else:
        words += 3 * largest[0]
    return max(16, budget // (8 * words))


class Said(NamedTuple):
    """What one or more experts say, entry by entry: the answer to `query` in `column` of the index."""

    query: np.ndarray
    """(e,)"""
    column: np.ndarray
    """(e,)"""
    mean: np.ndarray
    """(e, p)"""
    explained: np.ndarray | None
    """(e,) r_i; None where only means were asked for."""
    surprise: np.ndarray | None
    """(e, p) as in :class:`Answer`; None where nobody asked for it."""


def gather_moments(
    experts: Experts | ClusterExperts,
    X: np.ndarray,
    index: np.ndarray,
    engine: Engine,
    *,
    covariance: bool,
    communication: bool = False,
    prune: float = 0.0,
    variance: bool = True,
    surprise: bool = False,
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
    variance : bool
        False asks for means alone, which is cheaper; the variances are then those of the prior.
    surprise : bool
        Whether to ask how far the experts erred on their own rows near the queries.
    """
    if not isinstance(experts, Experts):
        return experts.gather(
            X,
            index,
            covariance=covariance,
            communication=communication,
            prune=prune,
            variance=variance,
            surprise=surprise,
        )
    groups = list(queries_by_expert(index))
    in_pairs = covariance and index.shape[1] > 1

    def ask(group: ByExpert) -> Answer:
        return experts.answer(
            group.expert, X[group.query], variance=variance, weights=in_pairs, surprise=surprise
        )

    costs = [float(experts.size(g.expert)) ** 2 * len(g.query) for g in groups]
    answers = engine.map(ask, groups, costs)
    said = (
        Said(g.query, g.column, a.mean, a.explained, a.surprise) for g, a in zip(groups, answers, strict=True)
    )
    prior = experts.covariance.prior_variance(X)
    moments = collected(index, prior, experts.n_outputs, said, prune)
    if covariance:
        moments = replace(moments, covariance=_covariances(experts, moments.index, groups, answers, engine))
    if not communication:
        return moments
    (answer,) = engine.map(lambda i: experts.answer(i, X), [experts.n_experts])
    return replace(
        moments,
        communication_mean=answer.mean,
        communication_var=posterior_variance(prior, answer.explained),
    )


def collected(
    index: np.ndarray, prior: np.ndarray, n_outputs: int, said: Iterable[Said], prune: float
) -> ExpertMoments:
    """Put what experts said in the places of the index (n, K), and leave out who explains little."""
    n, K = index.shape
    mean = np.zeros((n, K, n_outputs))
    explained = np.zeros((n, K))
    surprise = None
    for entries in said:
        at = entries.query, entries.column
        mean[at] = entries.mean
        if entries.explained is not None:
            explained[at] = entries.explained
        if entries.surprise is not None:
            surprise = np.ones_like(mean) if surprise is None else surprise
            surprise[at] = entries.surprise
    var = posterior_variance(prior[:, None], explained)
    moments = ExpertMoments(index, mean, var, prior, surprise=surprise)
    return without_weak_experts(moments, prune) if prune > 0 else moments


def posterior_variance(prior: np.ndarray, explained: np.ndarray | None) -> np.ndarray:
    """Return v = s² − r, and no less than what rounding leaves of a certainty."""
    return np.maximum(prior - explained, VARIANCE_FLOOR * prior)


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
        surprise=None if moments.surprise is None else np.where(kept[:, :, None], moments.surprise, 1.0),
    )


def without_weak_experts(moments: ExpertMoments, prune: float) -> ExpertMoments:
    """Leave out the experts that explain less than `prune` of what a query's best expert explains."""
    explained = moments.prior_var[:, None] - moments.var
    return without_experts(moments, explained < prune * explained.max(axis=1, keepdims=True))


def _covariances(
    experts: Experts,
    index: np.ndarray,
    groups: list[ByExpert],
    answers: list[Answer],
    engine: Engine,
) -> np.ndarray:
    """R (n, K, K) of the experts' means; its diagonal is r_i = q_iᵀ C_i q_i."""
    n, K = index.shape
    R = np.zeros((n, K, K))
    # Where the q_i of a query is found: in row `slot[query, column]` of the answer of expert i.
    slot = np.zeros((n, K), dtype=np.int64)
    q = {}
    for group, answer in zip(groups, answers, strict=True):
        slot[group.query, group.column] = np.arange(len(group.query))
        assert answer.explained is not None
        kept = index[group.query, group.column] >= 0
        R[group.query, group.column, group.column] = np.where(kept, answer.explained, 0.0)
        if answer.weights is not None:
            q[group.expert] = answer.weights
    pairs = list(queries_by_pair(index))

    def covary(pair: ByPair) -> np.ndarray:
        q_i = _take(q[pair.i], slot[pair.query, pair.column_i])
        q_j = _take(q[pair.j], slot[pair.query, pair.column_j])
        return experts.pair_covariance(pair.i, pair.j, q_i, q_j)

    costs = [float(experts.size(p.i) * experts.size(p.j)) * (20 + len(p.query)) for p in pairs]
    for pair, values in zip(pairs, engine.map(covary, pairs, costs), strict=True):
        R[pair.query, pair.column_i, pair.column_j] = values
        R[pair.query, pair.column_j, pair.column_i] = values
    return R


def _take(rows: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """rows[positions], without a copy where that is all of them in order."""
    if len(positions) == len(rows) and np.array_equal(positions, np.arange(len(rows))):
        return rows
    return rows[positions]

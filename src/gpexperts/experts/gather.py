"""From queries and their selected experts to moments: written once, for threads and for Dask workers.

    evaluate     experts, queries, index ─► the predictions of each expert for the queries that selected it
    moments_of   predictions of all experts ─► moments in the order of the index, with R if requested

The work is ordered by expert, not by query: one triangular solve per expert serves all queries that
selected it, and one matrix product per pair of experts serves all queries that selected both. The threads
engine maps `evaluate` over experts and `moments_of` over pairs. On a Dask cluster, one task per shard calls
`evaluate` on the experts it holds, and one task per batch of queries calls `moments_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpexperts.engines.base import Engine
from gpexperts.experts.covariances import own_covariance, pair_covariance
from gpexperts.experts.moments import VARIANCE_FLOOR, ExpertMoments, ExpertPrediction, Request
from gpexperts.experts.own import (
    Neighbourhood,
    OwnPrediction,
    nested,
    own_predictions,
    posterior_variance,
)
from gpexperts.experts.queries import QueriesOfExpert, QueriesOfPair, queries_by_expert, queries_by_pair
from gpexperts.kernels.base import Covariance

if TYPE_CHECKING:
    from gpexperts.experts.local import LocalExperts

__all__ = ["Evaluated", "EvaluatedOwn", "evaluate", "evaluate_own", "moments_of"]


class Evaluated(NamedTuple):
    """The predictions of one expert for the queries of a batch that selected it."""

    expert: int
    """Number in the whole model."""
    query: np.ndarray
    """(e,) ascending."""
    column: np.ndarray
    """(e,) where the expert stands in the index of each query."""
    prediction: ExpertPrediction
    X: np.ndarray
    """(m_i, d) its inputs, for the covariances with other experts; (0, d) if not requested."""


def evaluate(
    experts: LocalExperts, X: np.ndarray, index: np.ndarray, request: Request, engine: Engine
) -> list[Evaluated]:
    """Evaluate those experts of the index that are stored here.

    Parameters
    ----------
    experts : LocalExperts
        All experts, or a shard of them.
    X : ndarray of shape (n, d)
        Queries.
    index : ndarray of shape (n, K)
        Experts of each query, numbered in the whole model; −1 pads.
    request : Request
    engine : Engine
    """
    own = index - experts.first
    own = np.where((own >= 0) & (own < experts.n_experts), own, -1)
    groups = list(queries_by_expert(own))
    in_pairs = request.covariance and index.shape[1] + (request.n_neighbors > 0) > 1

    def predict(group: QueriesOfExpert) -> Evaluated:
        prediction = experts.predict(
            group.expert,
            X[group.query],
            variance=request.variance,
            weights=in_pairs or request.row_weights,
            local_noise=request.local_noise,
        )
        inputs = experts.rows(group.expert).X
        return Evaluated(
            experts.first + group.expert,
            group.query,
            group.column,
            prediction,
            inputs if in_pairs else inputs[:0],
        )

    costs = [float(experts.size(g.expert)) ** 2 * len(g.query) for g in groups]
    return engine.map(predict, groups, costs)


class EvaluatedOwn(NamedTuple):
    """The own experts of a batch of queries."""

    neighbourhood: Neighbourhood
    prediction: OwnPrediction
    offsets: np.ndarray
    """(M + 1,) of the fixed experts, among whose rows the neighbours are."""

    @property
    def number(self) -> int:
        """Its number in the index, M."""
        return len(self.offsets) - 1


def evaluate_own(
    covariance: Covariance,
    neighbourhood: Neighbourhood,
    X: np.ndarray,
    index: np.ndarray,
    offsets: np.ndarray,
    request: Request,
    engine: Engine,
) -> EvaluatedOwn:
    """Evaluate the own experts of queries X (n, d), whose nearest rows are given."""
    prediction = own_predictions(
        covariance,
        neighbourhood,
        X,
        engine,
        weights=request.row_weights or (request.covariance and index.shape[1] > 0),
        local_noise=request.local_noise,
    )
    return EvaluatedOwn(neighbourhood, prediction, offsets)


def moments_of(
    covariance: Covariance,
    X: np.ndarray,
    index: np.ndarray,
    n_outputs: int,
    evaluated: Sequence[Sequence[Evaluated]],
    communication: ExpertPrediction | None,
    own: EvaluatedOwn | None,
    request: Request,
    engine: Engine,
) -> ExpertMoments:
    """Put the predictions of all experts in the places of the index, and add R if requested.

    Parameters
    ----------
    covariance : Covariance
    X : ndarray of shape (n, d)
    index : ndarray of shape (n, K)
    n_outputs : int
    evaluated : sequence of sequence of Evaluated
        Of each shard.
    communication : ExpertPrediction or None
        Of GRBCM's communication expert, for every query.
    own : EvaluatedOwn or None
        The own experts, which become the first column.
    request : Request
    engine : Engine
    """
    n, K = index.shape
    prior = covariance.prior_variance(X)
    alone = None if own is None else _own_moments(own, prior)
    if alone is not None and K == 0 and communication is None:
        return alone
    predictions = [one for shard in evaluated for one in shard]
    mean, explained = np.zeros((n, K, n_outputs)), np.zeros((n, K))
    local_noise = np.ones((n, K, n_outputs)) if request.local_noise else None
    for one in predictions:
        at = one.query, one.column
        mean[at] = one.prediction.mean
        if one.prediction.explained is not None:
            explained[at] = one.prediction.explained
        if local_noise is not None and one.prediction.local_noise is not None:
            local_noise[at] = one.prediction.local_noise
    var = _posterior_variance(prior[:, None], explained)
    moments = ExpertMoments(index, mean, var, prior, explained=explained, local_noise=local_noise)
    if alone is not None:
        moments = _joined(alone, moments)
    if request.prune > 0:
        moments = moments.without_weak(request.prune)
    if request.covariance:
        moments = replace(moments, covariance=_covariances(covariance, moments, predictions, own, engine))
    if communication is None:
        return moments
    return replace(
        moments,
        communication_mean=communication.mean,
        communication_var=_posterior_variance(prior, communication.explained),
    )


def _own_moments(evaluated: EvaluatedOwn, prior: np.ndarray) -> ExpertMoments:
    """Moments of the own experts alone."""
    own = evaluated.prediction
    freedom = len(nested(evaluated.neighbourhood.squared_distance.shape[1]))
    return ExpertMoments(
        np.full((len(prior), 1), evaluated.number),
        own.mean[:, None],
        posterior_variance(own, prior)[:, None],
        prior,
        explained=own.explained[:, None],
        covariance=own.variance_of_mean[:, None, None],
        local_noise=None if own.local_noise is None else own.local_noise[:, None],
        own_disagreement=own.disagreement,
        own_freedom=None if own.disagreement is None else np.full(len(prior), freedom),
    )


def _joined(own: ExpertMoments, fixed: ExpertMoments) -> ExpertMoments:
    """Add the own expert as the first column; without covariances."""
    explained, noise = fixed.explained, fixed.local_noise
    assert own.explained is not None
    assert explained is not None
    if noise is not None and own.local_noise is not None:
        noise = np.concatenate([own.local_noise, noise], axis=1)
    return replace(
        own,
        index=np.concatenate([own.index, fixed.index], axis=1),
        mean=np.concatenate([own.mean, fixed.mean], axis=1),
        var=np.concatenate([own.var, fixed.var], axis=1),
        explained=np.concatenate([own.explained, explained], axis=1),
        covariance=None,
        local_noise=noise,
    )


def _posterior_variance(prior: np.ndarray, explained: np.ndarray | None) -> np.ndarray:
    """Return s² − r, bounded below by what rounding leaves of it."""
    return np.maximum(prior - explained, VARIANCE_FLOOR * prior)


def _covariances(
    covariance: Covariance,
    moments: ExpertMoments,
    evaluated: Sequence[Evaluated],
    own: EvaluatedOwn | None,
    engine: Engine,
) -> np.ndarray:
    """R (n, K, K) of the experts' means; its diagonal is r_i = q_iᵀ C_i q_i, for the own expert Var(μ)."""
    index, explained = moments.index, moments.explained
    assert explained is not None
    n, K = index.shape
    R = np.zeros((n, K, K))
    R[:, np.arange(K), np.arange(K)] = np.where(index >= 0, explained, 0.0)
    by_number = {one.expert: one for one in evaluated}
    fixed = index
    if own is not None:
        R[:, 0, 0] = np.where(index[:, 0] >= 0, own.prediction.variance_of_mean, 0.0)
        fixed = np.where(index == own.number, -1, index)
        _add_own_covariances(R, covariance, fixed, by_number, own, engine)
    pairs = list(queries_by_pair(fixed))

    def covary(pair: QueriesOfPair) -> np.ndarray:
        i, j = by_number[pair.i], by_number[pair.j]
        return pair_covariance(covariance, i.X, j.X, _weights(i, pair.query), _weights(j, pair.query))

    costs = [float(len(by_number[p.i].X) * len(by_number[p.j].X)) * (20 + len(p.query)) for p in pairs]
    for pair, values in zip(pairs, engine.map(covary, pairs, costs), strict=True):
        R[pair.query, pair.column_i, pair.column_j] = values
        R[pair.query, pair.column_j, pair.column_i] = values
    return R


def _add_own_covariances(
    R: np.ndarray,
    covariance: Covariance,
    fixed: np.ndarray,
    by_number: dict[int, Evaluated],
    own: EvaluatedOwn,
    engine: Engine,
) -> None:
    """Add the covariances of the own expert, in column 0, with the selected experts."""
    groups = list(queries_by_expert(fixed))
    if not groups:
        return
    q_0 = own.prediction.weights
    assert q_0 is not None

    def covary(group: QueriesOfExpert) -> np.ndarray:
        one, query = by_number[group.expert], group.query
        near = own.neighbourhood
        position = near.position[query] - own.offsets[group.expert]
        return own_covariance(
            covariance, near.X[query], near.noise[query], position, q_0[query], one.X, _weights(one, query)
        )

    costs = [float(q_0.shape[1] * len(by_number[g.expert].X)) * 20 * len(g.query) for g in groups]
    for group, values in zip(groups, engine.map(covary, groups, costs), strict=True):
        R[group.query, 0, group.column] = R[group.query, group.column, 0] = values


def _weights(one: Evaluated, query: np.ndarray) -> np.ndarray:
    """The rows of q_i for some of the expert's queries; no copy where these are all of them."""
    q = one.prediction.weights
    assert q is not None
    return q if len(query) == len(q) else q[np.searchsorted(one.query, query)]

"""What a worker does when experts are asked: small pure functions of a group of experts and a batch.

Experts and queries keep their numbers of the whole model and the whole batch; a group knows the number of
its first expert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpexperts.engines.worker import memory_at_hand
from gpexperts.experts.gather import Said, collected, posterior_variance
from gpexperts.experts.local import Answer, Experts, pair_covariance
from gpexperts.experts.moments import ExpertMoments
from gpexperts.experts.queries import queries_by_expert, queries_by_pair
from gpexperts.kernels.named import Covariance

__all__ = [
    "Gathered",
    "Reply",
    "WeightTable",
    "ask",
    "ask_communication",
    "assemble",
    "collect",
    "covary",
    "factorised",
    "pack",
    "said_of",
]


class Weights(NamedTuple):
    """An expert's rows and what it says of some queries, as `covary` needs them."""

    X: np.ndarray
    """(m_i, d)"""
    query: np.ndarray
    """(n_i,) ascending."""
    q: np.ndarray
    """(n_i, m_i)"""

    def of(self, queries: np.ndarray) -> np.ndarray:
        """The rows of q for some of the queries."""
        return self.q[np.searchsorted(self.query, queries)]


WeightTable = dict[int, Weights]
"""By expert."""


class Reply(NamedTuple):
    """What a group of experts says about a batch."""

    said: Said
    weights: WeightTable
    jitter: dict[int, float]
    """Experts whose matrix needed jitter."""

    def __sizeof__(self) -> int:
        return int(self.said.mean.nbytes + sum(w.q.nbytes for w in self.weights.values()))


class Gathered(NamedTuple):
    """The moments of a batch, and what was seen on the way."""

    moments: ExpertMoments
    jitter: dict[int, float]
    travelled: int
    """Bytes of rows and weights that went from one group of experts to another."""


class Covariances(NamedTuple):
    """Entries of R."""

    query: np.ndarray
    column_i: np.ndarray
    column_j: np.ndarray
    value: np.ndarray


@memory_at_hand()
def ask(
    experts: Experts, X: np.ndarray, index: np.ndarray, variance: bool, weights: bool, surprise: bool
) -> Reply:
    """Let the experts of a group answer those queries of a batch that ask them."""
    said: list[Said] = []
    table: WeightTable = {}
    weights = weights and index.shape[1] > 1  # who is asked alone covaries with nobody
    for group in queries_by_expert(_own(experts, index)):
        answer = experts.answer(
            group.expert, X[group.query], variance=variance, weights=weights, surprise=surprise
        )
        said.append(Said(group.query, group.column, answer.mean, answer.explained, answer.surprise))
        if answer.weights is not None:
            rows = experts.rows(group.expert)[0]
            table[experts.first + group.expert] = Weights(rows, group.query, answer.weights)
    jitter = {experts.first + i: jitter for i, jitter in experts.jitter.items()}
    return Reply(_joined(said, experts.n_outputs), table, jitter)


@memory_at_hand()
def ask_communication(experts: Experts, X: np.ndarray) -> Answer:
    """Let the communication expert answer every query."""
    return experts.answer(experts.n_experts, X)


def said_of(reply: Reply, index: np.ndarray) -> tuple[Said, dict[int, float]]:
    """The part of a reply that is small enough to travel; the index keeps Dask from fusing this task."""
    return reply.said, reply.jitter


def collect(
    covariance: Covariance,
    n_outputs: int,
    prune: float,
    X: np.ndarray,
    index: np.ndarray,
    said: Sequence[tuple[Said, dict[int, float]]],
    communication: Answer | None,
) -> Gathered:
    """Bring what the groups said to the places of the index."""
    prior = covariance.prior_variance(X)
    moments = collected(index, prior, n_outputs, (entries for entries, _ in said), prune)
    if communication is not None:
        moments = replace(
            moments,
            communication_mean=communication.mean,
            communication_var=posterior_variance(prior, communication.explained),
        )
    return Gathered(moments, {i: value for _, jitter in said for i, value in jitter.items()}, 0)


def pack(experts: Experts, reply: Reply, gathered: Gathered, start: int, stop: int) -> WeightTable:
    """What experts ``start`` to ``stop`` of another group need to covary with those of this one."""
    index = gathered.moments.index
    both = np.flatnonzero(((index >= start) & (index < stop)).any(axis=1))
    table: WeightTable = {}
    for group in queries_by_expert(_own(experts, index[both])):
        own, queries = reply.weights[experts.first + group.expert], both[group.query]
        table[experts.first + group.expert] = Weights(own.X, queries, own.of(queries))
    return table


@memory_at_hand()
def covary(
    experts: Experts, reply: Reply, gathered: Gathered, parcels: Sequence[WeightTable]
) -> tuple[Covariances, int]:
    """R_ij for each expert i of this group and every j ≥ i, and the bytes that came from other groups."""
    index = gathered.moments.index
    first, stop = experts.first, experts.first + experts.n_experts
    entries: list[Covariances] = []
    query, column = reply.said.query, reply.said.column
    if reply.said.explained is not None:
        kept = index[query, column] >= 0
        query, column = query[kept], column[kept]
        entries.append(Covariances(query, column, column, reply.said.explained[kept]))
    table = dict(reply.weights)
    for parcel in parcels:
        table.update(parcel)
    mine = np.flatnonzero(((index >= first) & (index < stop)).any(axis=1))
    for pair in queries_by_pair(np.where(index[mine] >= first, index[mine], -1)):
        if pair.i >= stop:
            continue
        queries = mine[pair.query]
        a, b = table[pair.i], table[pair.j]
        values = pair_covariance(experts.covariance, a.X, b.X, a.of(queries), b.of(queries))
        entries.append(Covariances(queries, pair.column_i, pair.column_j, values))
    travelled = sum(w.X.nbytes + w.q.nbytes for parcel in parcels for w in parcel.values())
    if not entries:  # nobody asks this group any more
        nothing = np.empty(0, dtype=np.int64)
        return Covariances(nothing, nothing, nothing, np.empty(0)), travelled
    return Covariances(*(np.concatenate(column) for column in zip(*entries, strict=True))), travelled


def assemble(gathered: Gathered, parts: Sequence[tuple[Covariances, int]]) -> Gathered:
    """Put the covariances that the groups computed into R (n, K, K)."""
    n, K = gathered.moments.index.shape
    R = np.zeros((n, K, K))
    for entries, _ in parts:
        R[entries.query, entries.column_i, entries.column_j] = entries.value
        R[entries.query, entries.column_j, entries.column_i] = entries.value
    return gathered._replace(
        moments=replace(gathered.moments, covariance=R), travelled=sum(bytes_ for _, bytes_ in parts)
    )


@memory_at_hand()
def factorised(experts: Experts, who: list[int]) -> None:
    """Factorise the matrices of some experts, to see whether that can be done."""
    for i in who:
        experts.trained(i - experts.first)


def _own(experts: Experts, index: np.ndarray) -> np.ndarray:
    """The index in the group's own numbers, −1 for everybody else."""
    own = index - experts.first
    return np.where((own >= 0) & (own < experts.n_experts), own, -1)


def _joined(said: list[Said], n_outputs: int) -> Said:
    if not said:
        none = np.empty(0, dtype=np.int64)
        return Said(none, none, np.empty((0, n_outputs)), None, None)
    query, column, mean = (np.concatenate(arrays) for arrays in zip(*(s[:3] for s in said), strict=True))
    return Said(query, column, mean, _whole([s.explained for s in said]), _whole([s.surprise for s in said]))


def _whole(arrays: list[np.ndarray | None]) -> np.ndarray | None:
    """All of them in one, or None where nobody asked for them."""
    there = [a for a in arrays if a is not None]
    return np.concatenate(there) if there else None

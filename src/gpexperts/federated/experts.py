"""Experts that stay with their owners: an expert store whose evaluation is a round of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn

import numpy as np

from gpexperts.engines import Engine
from gpexperts.exceptions import FederationError
from gpexperts.experts.gather import Evaluated, moments_of
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.moments import ExpertMoments, ExpertPrediction, Request
from gpexperts.experts.own import Neighbourhood
from gpexperts.experts.store import ExpertStore, Observations, Sample
from gpexperts.federated.federation import Federation, array_of, require
from gpexperts.federated.messages import Parcel
from gpexperts.kernels.base import Covariance

__all__ = ["FederatedExperts"]

_FACTOR_BYTES = 2**28
"""For the factor of the communication expert."""


class FederatedExperts(ExpertStore):
    """The experts of all clients. Their rows cannot be read; they are evaluated where they are.

    Parameters
    ----------
    federation : Federation
    sizes : dict of int to ndarray
        Rows of each expert, by client, in the order of experts.
    covariance : Covariance
    n_features, n_outputs : int
    shared : Observations or None
        The communication set, in the units of the experts.
    """

    has_rows = False

    def __init__(
        self,
        federation: Federation,
        sizes: dict[int, np.ndarray],
        covariance: Covariance,
        *,
        n_features: int,
        n_outputs: int,
        shared: Observations | None,
    ) -> None:
        self.federation, self.covariance, self.shared = federation, covariance, shared
        self.n_features, self.n_outputs = n_features, n_outputs
        self.offsets = np.concatenate([[0], np.cumsum(np.concatenate(list(sizes.values())))])
        self.owner = np.repeat(list(sizes), [len(own) for own in sizes.values()])
        """(M,) client of each expert."""
        self.first = {client: int(np.argmax(self.owner == client)) for client in sizes}
        self.jitter: dict[int, float] = {}
        self.ranking: Callable[[np.ndarray], np.ndarray] | None = None
        """Queries (n, d) ↦ all experts (n, M), best first: replacements for those of absent clients."""
        self.n_certain = 0
        """If positive, clients give only so many experts of each query, those with the smallest variances."""
        self.absent: set[int] = set()
        """Clients that did not answer, since the last `start_answer`."""

    def start_answer(self) -> None:
        """Ask all clients again, also those that were absent before."""
        self.absent = set()

    def gather(self, X: np.ndarray, index: np.ndarray, request: Request, engine: Engine) -> ExpertMoments:
        """Evaluate the selected experts; those of absent clients are replaced by the next best."""
        if request.covariance or request.n_neighbors or request.local_noise:
            raise ValueError("Clients of a federation give means and variances of their experts only.")
        if self.n_certain:
            return self._gather_certain(X, request, engine)
        index = self._replaced(X, index.copy(), index < 0)
        n, K = index.shape
        mean, explained = np.zeros((n, K, self.n_outputs)), np.zeros((n, K))
        done = np.zeros((n, K), dtype=bool)
        while (pending := (index >= 0) & ~done).any():
            owner = np.where(pending, self.owner[index], -1)
            asked = {int(client): (owner == client) for client in np.unique(owner[pending])}
            for client, (mu, r) in self._ask(X, index, asked).items():
                rows, places = asked[client].any(axis=1), asked[client]
                mean[places], explained[places] = mu[places[rows]], r[places[rows]]
                done |= places
            self.absent |= {client for client, places in asked.items() if not done[places].all()}
            index = self._replaced(X, index, done | (index < 0))
        return self._moments(X, index, mean, explained, request, engine)

    def _gather_certain(self, X: np.ndarray, request: Request, engine: Engine) -> ExpertMoments:
        """Evaluate all experts; each client gives its most certain ones, and the others are padded."""
        n, M, p = len(X), self.n_experts, self.n_outputs
        clients = [client for client in self.first if client not in self.absent]
        fewest = {client: min(self.n_certain, int((self.owner == client).sum())) for client in clients}

        def answer(client: int, reply: Parcel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            k, own = fewest[client], int((self.owner == client).sum())
            column = array_of(reply, "index", (n, k))
            require(
                np.issubdtype(column.dtype, np.integer)
                and bool(((column >= 0) & (column < own)).all())
                and bool((np.diff(np.sort(column, axis=1), axis=1) > 0).all()),
                "experts that do not exist, or one twice",
            )
            mean, explained = array_of(reply, "mean", (n, k, p)), array_of(reply, "explained", (n, k))
            return column + self.first[client], mean, explained

        values = {"n_certain": self.n_certain}
        replies = self.federation.ask(
            "predict",
            {client: Parcel("predict", self.federation.fit, values, {"X": X}) for client in clients},
            answer,
        )
        self.absent |= set(clients) - set(replies)
        if not replies:
            raise FederationError(f"No client answers. {self.federation.failures()}")
        index = np.full((n, M), -1)
        mean, explained = np.zeros((n, M, p)), np.zeros((n, M))
        query = np.arange(n)[:, None]
        for client, reply in replies.items():
            column, own_mean, own_explained = answer(client, reply)
            mean[query, column], explained[query, column] = own_mean, own_explained
            index[query, column] = column
        return self._moments(X, index, mean, explained, request, engine)

    def _moments(
        self,
        X: np.ndarray,
        index: np.ndarray,
        mean: np.ndarray,
        explained: np.ndarray,
        request: Request,
        engine: Engine,
    ) -> ExpertMoments:
        query, column = np.nonzero(index >= 0)
        prediction = ExpertPrediction(mean[query, column], explained[query, column], None)
        evaluated = Evaluated(0, query, column, prediction, X[:0])
        communication = self._communication(X) if request.communication else None
        return moments_of(
            self.covariance, X, index, self.n_outputs, [[evaluated]], communication, None, request, engine
        )

    def _ask(
        self, X: np.ndarray, index: np.ndarray, asked: dict[int, np.ndarray]
    ) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Mean (e, K, p) and explained variance (e, K) of each client, for the queries that it was asked."""
        parcels, sizes = {}, {}
        for client, places in asked.items():
            rows = places.any(axis=1)
            own = np.where(places[rows], index[rows] - self.first[client], -1)
            parcels[client] = Parcel("predict", self.federation.fit, {}, {"X": X[rows], "index": own})
            sizes[client] = own.shape

        def answer(client: int, reply: Parcel) -> tuple[np.ndarray, np.ndarray]:
            n, K = sizes[client]
            return array_of(reply, "mean", (n, K, self.n_outputs)), array_of(reply, "explained", (n, K))

        replies = self.federation.ask("predict", parcels, answer)
        return {client: answer(client, reply) for client, reply in replies.items()}

    def _replaced(self, X: np.ndarray, index: np.ndarray, fixed: np.ndarray) -> np.ndarray:
        """Put the next best experts of clients that are there in the places of absent ones."""
        away = np.isin(self.owner, list(self.absent))
        lost = ~fixed & away[index]
        if not lost.any():
            return index
        if away.all():
            raise FederationError(f"No client answers. {self.federation.failures()}")
        (rows,) = np.nonzero(lost.any(axis=1))
        ranking = np.tile(np.arange(self.n_experts), (len(rows), 1))
        if self.ranking is not None:
            ranking = self.ranking(X[rows])
        for row, ranked in zip(rows, ranking, strict=True):
            used = set(index[row, ~lost[row]].tolist())
            spare = [i for i in ranked.tolist() if i >= 0 and not away[i] and i not in used]
            places = np.flatnonzero(lost[row])
            index[row, places] = (spare + [-1] * len(places))[: len(places)]
        return index

    def _communication(self, X: np.ndarray) -> ExpertPrediction:
        """The communication expert, which the server evaluates itself."""
        assert self.shared is not None
        alone = LocalExperts(
            self.shared.X[:0],
            self.shared.y[:0],
            np.array([0]),
            self.covariance,
            shared=self.shared,
            factor_budget=_FACTOR_BYTES,
        )
        return alone.predict(0, X)

    # ------------------------------------------------------------------------ what needs rows

    @property
    def sample(self) -> Sample:
        """No rows."""
        none = np.empty(0, dtype=np.int64)
        return Sample(np.empty((0, self.n_features)), none, none)

    def take(self, positions: np.ndarray) -> NoReturn:
        _refuse()

    def without(self, positions: np.ndarray) -> NoReturn:
        _refuse()

    def robust(self, degrees: float, rounds: int) -> NoReturn:
        _refuse()

    def neighbourhood(self, X: np.ndarray, m: int, engine: Engine) -> Neighbourhood:
        _refuse()

    def row_batches(self, column: int, max_bytes: int) -> Iterator[np.ndarray]:
        _refuse()

    def to_local(self, factor_budget: int) -> NoReturn:
        _refuse()


def _refuse() -> NoReturn:
    raise FederationError("The rows of a federation stay with their clients.")

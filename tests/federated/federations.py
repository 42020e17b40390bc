"""Small federations for tests, and a Grid whose clients fail as told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import Message, RecordDict

from gpexperts.experts.local import LocalExperts
from gpexperts.federated import ClientPolicy, ClientRows, FederatedGPRegressor, LocalGrid, client_app
from gpexperts.federated.holdings import Holdings
from gpexperts.federated.messages import Parcel, pack, unpack
from gpexperts.federated.state import State

VANISHES, LATE = "vanishes", "late"
Fault = str | Callable[[Parcel], Parcel]
POLICY = ClientPolicy(n_jobs=1)


def rows_of(region: int, n: int = 90, d: int = 2, seed: int = 0) -> ClientRows:
    """Rows of a smooth function with noise; clients own intervals of the first input."""
    rng = np.random.default_rng([seed, region])
    X = rng.uniform(size=(n, d)) + region * np.eye(d)[0]
    return ClientRows(X, function(X) + 0.1 * rng.standard_normal(n))


def function(X: np.ndarray) -> np.ndarray:
    return 3.0 + np.sin(4.0 * X[:, 0]) * X[:, 1]


def queries(n: int = 40, regions: int = 4, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(n, 2)) * [regions, 1.0]


def four_clients() -> list[ClientRows]:
    return [rows_of(region, 90 + 7 * region) for region in range(4)]


class FaultyGrid(LocalGrid):
    """Clients that fail at a kind of message: for good, or with a changed reply.

    Parameters
    ----------
    rows : iterable of ClientRows
    faults : mapping from (client, kind) to Fault
        `VANISHES`: the client never answers again. `LATE`: its reply comes with those of the next round. A
        function changes its reply.
    policy : ClientPolicy
    """

    def __init__(
        self,
        rows: Iterable[ClientRows],
        faults: Mapping[tuple[int, str], Fault] | None = None,
        policy: ClientPolicy = POLICY,
    ) -> None:
        super().__init__([client_app(own, policy) for own in rows])
        self.faults = dict(faults or {})
        self.gone: set[int] = set()
        self.late: list[Message] = []
        self.arriving: list[Message] = []
        self.traffic: list[tuple[str, RecordDict]] = []
        """Kind and content of every message and reply."""

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        self.arriving, self.late = self.late, []
        numbers = []
        for message in messages:
            node, kind = message.metadata.dst_node_id, unpack(message.content).kind
            self.traffic.append((kind, message.content))
            fault = self.faults.get((node, kind))
            if fault == VANISHES:
                self.gone.add(node)
            number = message.metadata.message_id
            numbers.append(number)
            if node in self.gone:
                continue
            reply = self.answered(message)
            if fault == LATE:
                self.late.append(reply)
                continue
            if callable(fault):
                reply = Message(pack(fault(unpack(reply.content))), reply_to=message)
            self.traffic.append((kind, reply.content))
            self._replies[number] = reply
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Also hand out late replies, though Flower gives only those to the messages that are named."""
        arrived, self.arriving = self.arriving, []
        return [*arrived, *super().pull_messages(message_ids)]


def fitted(grid: LocalGrid, **parameters: Any) -> FederatedGPRegressor:
    """Fit with a fixed kernel and few steps, which is quick; who does not answer is not waited for."""
    given: dict[str, Any] = {
        "kernel": "rbf",
        "expert_size": 30,
        "max_steps": 3,
        "random_state": 0,
        "timeout": 0.01,
    }
    return FederatedGPRegressor(**{**given, **parameters}).fit(grid)


def holdings(grid: LocalGrid, rows: list[ClientRows], client: int) -> Holdings:
    return Holdings(rows[client - 1], State(grid.contexts[client]))


def all_experts(model: FederatedGPRegressor, grid: LocalGrid, rows: list[ClientRows]) -> LocalExperts:
    """The experts of all clients in one store, as the library would have them."""
    parts = [holdings(grid, rows, client).parts() for client in model.clients_]
    store = model.fitted_.model.experts
    return LocalExperts(
        np.concatenate([part.rows.X for part in parts]),
        np.concatenate([part.rows.y for part in parts]),
        store.offsets,
        store.covariance,
        shared=store.shared,
        factor_budget=10**9,
    )

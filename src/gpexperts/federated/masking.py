"""A client's part in secure sums: masks on its vectors, and the seeds that open a sum."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction

from gpexperts.federated import secure
from gpexperts.federated.messages import Parcel, Refusal
from gpexperts.federated.policy import ClientPolicy
from gpexperts.federated.state import State

__all__ = ["Masking"]


class Masking:
    """Masks vectors, each sum with new masks; gives seeds away once per sum.

    Parameters
    ----------
    policy : ClientPolicy
    state : State
    node : int
        This client.
    within_secagg : bool
        Whether Flower's SecAgg+ masks the reply.
    """

    def __init__(self, policy: ClientPolicy, state: State, node: int, within_secagg: bool) -> None:
        self.policy, self.state, self.node = policy, state, node
        self.within_secagg = within_secagg

    def peers(self, request: Parcel) -> dict[int, bytes]:
        """The clients of a sum with their keys, which may not change within a fit."""
        nodes, keys = request.values.get("nodes", []), request.values.get("keys", [])
        peers = dict(zip(map(int, nodes), keys, strict=True))
        for node, key in peers.items():
            known = self.state.value(f"key {node}")
            if known is not None and known != key:
                raise Refusal(f"The key of client {node} has changed.")
            self.state.keep(**{f"key {node}": key})
        if peers.get(self.node, self.state.value("public_key")) != self.state.value("public_key"):
            raise Refusal("The key that the server has of this client is another one.")
        return peers

    def summed(self, request: Parcel, values: Sequence[float | Fraction]) -> Parcel:
        vector = secure.encode(values)
        # A sum with noise is opened only for as many clients as share the noise.
        fewest = max(self.policy.min_clients, int(request.values.get("noise_clients", 0)))
        if self.within_secagg:
            self.state.keep(fewest=fewest)
            return Parcel(request.kind, request.fit, {"vector": vector})
        if request.values.get("masked") is not True:
            if self.policy.needs_secure_sum:
                raise Refusal("This client answers only to secure sums; use secure_sum=True.")
            if "noise_clients" in request.values:
                raise Refusal("The share of noise of one client hides nothing without a secure sum.")
            return Parcel(request.kind, request.fit, {"vector": vector})
        peers, number = self.peers(request), int(request.values["sum"])
        if self.node not in peers or len(peers) < self.policy.min_clients:
            raise Refusal(f"A sum needs at least {self.policy.min_clients} clients, not {len(peers)}.")
        if number <= self.state.value("last_sum"):
            raise Refusal(f"Sum {number} was asked for before.")
        own = os.urandom(32)
        nodes = [str(node) for node in peers]
        self.state.keep(last_sum=number, own_seed=own, sum_nodes=nodes, fewest=fewest, open=True)
        seeds = {node: self._pair_seed(node, number) for node in peers if node != self.node}
        return Parcel(request.kind, request.fit, {"vector": secure.masked(vector, own, self.node, seeds)})

    def _pair_seed(self, node: int, number: int) -> bytes:
        key = self.state.value(f"key {node}")
        return secure.pair_seed(
            self.state.value("private_key"), key, f"{self.state.value('fit')} sum {number}"
        )

    def unmask(self, request: Parcel) -> Parcel:
        number, there = int(request.values["sum"]), [int(node) for node in request.values["nodes"]]
        if not self.state.value("open") or number != self.state.value("last_sum"):
            raise Refusal(f"Sum {number} is not open.")
        peers = [int(node) for node in self.state.value("sum_nodes")]
        fewest = int(self.state.value("fewest"))
        if self.node not in there or not set(there) <= set(peers) or len(set(there)) < fewest:
            raise Refusal(f"A sum of {len(there)} clients is not unmasked; this one needs {fewest}.")
        self.state.keep(open=False)
        lost = [node for node in peers if node not in there]
        return Parcel(
            "unmask",
            request.fit,
            {
                "own_seed": self.state.value("own_seed"),
                "lost": [str(node) for node in lost],
                "lost_seeds": [self._pair_seed(node, number) for node in lost],
            },
        )

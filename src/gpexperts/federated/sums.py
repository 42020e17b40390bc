"""Sums over clients, of which the server sees nothing but the total."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gpexperts.federated import secure
from gpexperts.federated.federation import Federation, require
from gpexperts.federated.messages import Parcel

__all__ = ["Sums", "Total"]

_BYTES = 64


class Total(NamedTuple):
    """The sum of the members' vectors."""

    exact: list[Fraction]
    replies: dict[int, Parcel]
    """What the members sent, masked."""
    nodes: list[int]
    """Whom the message named as members."""

    @property
    def values(self) -> np.ndarray:
        """The sum as floats."""
        return np.array([float(value) for value in self.exact])


class Sums:
    """Asks members for vectors and returns their sum.

    A sum takes one round, or two if it is secure. A client that vanishes before it has sent its vector is
    left out. If one vanishes in the second round, the others are asked again, with new masks.

    Parameters
    ----------
    federation : Federation
    keys : mapping from client to bytes
        Their public keys.
    secure_sum : bool
    """

    def __init__(self, federation: Federation, keys: Mapping[int, bytes], secure_sum: bool) -> None:
        self.federation, self.keys, self.secure_sum = federation, keys, secure_sum
        self.number = 0

    def total(
        self,
        kind: str,
        length: int,
        values: dict[str, Any],
        arrays: dict[str, np.ndarray],
        own: Callable[[int], dict[str, Any]] = lambda client: {},
    ) -> Total:
        """Return the sum of vectors with `length` entries.

        Parameters
        ----------
        kind : str
        length : int
        values, arrays : dict
            Of the message.
        own : callable
            Client ↦ further values of its message.
        """
        federation = self.federation

        def check(client: int, reply: Parcel) -> None:
            vector = reply.values.get("vector")
            require(
                isinstance(vector, bytes) and len(vector) == length * _BYTES, "a vector of another length"
            )

        while True:
            self.number += 1
            nodes = list(federation.members)
            envelope = {
                "masked": self.secure_sum,
                "sum": self.number,
                "nodes": [str(node) for node in nodes],
                "keys": [self.keys[node] for node in nodes],
            }

            def parcel_of(client: int, envelope: dict[str, Any] = envelope) -> Parcel:
                return Parcel(kind, federation.fit, {**values, **envelope, **own(client)}, arrays)

            replies = federation.ask_members(kind, parcel_of, check)
            vectors = {client: bytes(reply.values["vector"]) for client, reply in replies.items()}
            if not self.secure_sum:
                return Total(secure.decode(secure.add(list(vectors.values()))), replies, nodes)
            seeds = self._seeds(nodes)
            if len(seeds) == len(vectors):
                own_seeds = {client: bytes(reply.values["own_seed"]) for client, reply in seeds.items()}
                lost = {client: _lost(reply) for client, reply in seeds.items()}
                return Total(secure.unmasked(vectors, own_seeds, lost), replies, nodes)

    def _seeds(self, nodes: list[int]) -> dict[int, Parcel]:
        federation = self.federation
        there = list(federation.members)
        lost = {str(node) for node in nodes if node not in there}
        values = {"sum": self.number, "nodes": [str(node) for node in there]}

        def check(client: int, reply: Parcel) -> None:
            names, seeds = reply.values.get("lost", []), reply.values.get("lost_seeds", [])
            require(
                isinstance(names, list) and isinstance(seeds, list) and set(names) == lost, "other clients"
            )
            require(
                all(
                    isinstance(seed, bytes) and len(seed) == 32
                    for seed in [reply.values.get("own_seed"), *seeds]
                ),
                "a seed has another length",
            )

        return federation.ask_members("unmask", lambda _: Parcel("unmask", federation.fit, values), check)


def _lost(reply: Parcel) -> dict[int, bytes]:
    return dict(zip(map(int, reply.values.get("lost", [])), reply.values.get("lost_seeds", []), strict=True))

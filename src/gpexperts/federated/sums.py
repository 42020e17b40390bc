"""Sums over clients, of which the server sees nothing but the total."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gpexperts.federated import secure
from gpexperts.federated.federation import Federation, require
from gpexperts.federated.messages import Parcel

__all__ = ["Asked", "MaskedSums", "PlainSums", "Sums", "Total"]


class Asked(NamedTuple):
    """The vectors that are to be summed."""

    kind: str
    length: int
    values: dict[str, Any]
    """Of the message."""
    arrays: dict[str, np.ndarray]
    own: Callable[[int], dict[str, Any]]
    """Client ↦ further values of its message."""

    def parcel(self, fit: str, client: int, envelope: dict[str, Any]) -> Parcel:
        """Return the message to a client."""
        return Parcel(self.kind, fit, {**self.values, **envelope, **self.own(client)}, self.arrays)

    def check(self, client: int, reply: Parcel) -> None:
        """Refuse a vector of another length."""
        vector = reply.values.get("vector")
        expected = self.length * secure.N_BYTES
        require(isinstance(vector, bytes) and len(vector) == expected, "a vector of another length")


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

    A client that vanishes before it has sent its vector is left out.

    Parameters
    ----------
    federation : Federation
    keys : mapping from client to bytes
        Their public keys.
    """

    masked: bool | str
    """How clients are told to mask their vectors."""

    def __init__(self, federation: Federation, keys: Mapping[int, bytes]) -> None:
        self.federation, self.keys = federation, keys
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
        asked = Asked(kind, length, values, arrays, own)
        total = None
        while total is None:
            self.number += 1
            total = self._attempt(asked)
        return total

    def _attempt(self, asked: Asked) -> Total | None:
        """Return the sum, or None if so many clients have vanished that it must be asked for again."""
        raise NotImplementedError

    def _envelope(self, nodes: list[int]) -> dict[str, Any]:
        return {
            "masked": self.masked,
            "sum": self.number,
            "nodes": [str(node) for node in nodes],
            "keys": [self.keys[node] for node in nodes],
        }

    def _vectors(self, asked: Asked) -> tuple[list[int], dict[int, Parcel], dict[int, bytes]]:
        """Members that were asked, their replies and their vectors."""
        federation = self.federation
        nodes = list(federation.members)
        envelope = self._envelope(nodes)
        replies = federation.ask_members(
            asked.kind, lambda client: asked.parcel(federation.fit, client, envelope), asked.check
        )
        return nodes, replies, {client: bytes(reply.values["vector"]) for client, reply in replies.items()}


class PlainSums(Sums):
    """Sums in one round: the server sees every vector."""

    masked = False

    def _attempt(self, asked: Asked) -> Total:
        nodes, replies, vectors = self._vectors(asked)
        return Total(secure.decode(secure.add(list(vectors.values()))), replies, nodes)


class MaskedSums(Sums):
    """Sums in two rounds: masked vectors, and then the seeds of masks that are not in pairs.

    If a client vanishes in the second round, the others are asked again, with new masks.
    """

    masked = True

    def _attempt(self, asked: Asked) -> Total | None:
        nodes, replies, vectors = self._vectors(asked)
        seeds = self._seeds(nodes)
        if len(seeds) < len(vectors):
            return None
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
                isinstance(names, list) and isinstance(seeds, list) and len(seeds) == len(names),
                "other clients",
            )
            require(set(names) == lost, "other clients")
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

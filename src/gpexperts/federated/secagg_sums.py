"""Sums by Flower's SecAgg+: the server's side of its four stages.

Flower's `SecAggPlusWorkflow` drives them for averages of model parameters only. This module sends the same
messages, and computes the same sum with Flower's functions. A client that vanishes does not stop a sum: the
others restore its mask from their shares.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.common import bytes_to_ndarray
from flwr.common.secure_aggregation.crypto.shamir import combine_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import generate_shared_key
from flwr.common.secure_aggregation.secaggplus_constants import Key, Stage
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from flwr.supercore.primitives.asymmetric import bytes_to_private_key, bytes_to_public_key

from gpexperts.exceptions import FederationError
from gpexperts.federated import secure
from gpexperts.federated.federation import require
from gpexperts.federated.messages import Parcel, stage_of
from gpexperts.federated.secagg import MODULUS, RANGE, SECAGG, from_digits, setup
from gpexperts.federated.sums import Asked, Sums, Total

__all__ = ["SecAggSums"]

Vector = list[np.ndarray]
"""Flower's weight (1,), and digits."""


class SecAggSums(Sums):
    """Sums that take four rounds: keys, shares of secrets, masked vectors, shares that open the sum."""

    masked = SECAGG

    def _attempt(self, asked: Asked) -> Total | None:
        federation = self.federation
        settings = setup(len(federation.members))
        found = self._stage("keys", lambda _: settings, Key.PUBLIC_KEY_1, Key.PUBLIC_KEY_2)
        keys = {client: [reply[Key.PUBLIC_KEY_1], reply[Key.PUBLIC_KEY_2]] for client, reply in found.items()}
        named = {str(client): pair for client, pair in keys.items()}
        found = self._stage(
            "shares",
            lambda _: {Key.STAGE: Stage.SHARE_KEYS, **named},
            Key.DESTINATION_LIST,
            Key.CIPHERTEXT_LIST,
        )
        parcels: dict[int, dict[int, bytes]] = defaultdict(dict)
        for source, reply in found.items():
            for to, text in zip(reply[Key.DESTINATION_LIST], reply[Key.CIPHERTEXT_LIST], strict=True):
                parcels[to][source] = text
        nodes = list(found)

        def collect(client: int) -> dict[str, Any]:
            return {
                Key.STAGE: Stage.COLLECT_MASKED_VECTORS,
                Key.CIPHERTEXT_LIST: list(parcels[client].values()),
                Key.SOURCE_LIST: list(parcels[client]),
            }

        envelope = self._envelope(nodes)
        replies = federation.ask_members(
            asked.kind,
            lambda client: asked.parcel(federation.fit, client, envelope)._replace(stage=collect(client)),
            lambda _, reply: _vector(reply, asked.length),
        )
        there, lost = list(replies), [client for client in nodes if client not in replies]
        request = {
            Key.STAGE: Stage.UNMASK,
            Key.ACTIVE_NODE_ID_LIST: there,
            Key.DEAD_NODE_ID_LIST: lost,
        }
        found = self._stage("unmask", lambda _: request, Key.NODE_ID_LIST, Key.SHARE_LIST)
        if len(found) < settings[Key.THRESHOLD]:
            return None
        shares: dict[int, list[bytes]] = defaultdict(list)
        for reply in found.values():
            for client, share in zip(reply[Key.NODE_ID_LIST], reply[Key.SHARE_LIST], strict=True):
                shares[client].append(share)
        vectors = {client: _vector(reply, asked.length) for client, reply in replies.items()}
        weight, digits = _opened(vectors, lost, shares, keys)
        if int(weight[0]) != len(there) * RANGE % MODULUS:
            raise FederationError(
                "A client has sent wrong shares: the sum cannot be opened. Use secure_sum=True."
            )
        total = from_digits(digits, len(there), secure.N_BYTES)
        return Total(secure.decode(total), replies, nodes)

    def _stage(
        self, kind: str, stage: Callable[[int], dict[str, Any]], *lists: str
    ) -> dict[int, dict[str, Any]]:
        """Send a stage to all members; return the two values of each reply."""
        fit = self.federation.fit

        def check(client: int, reply: Parcel) -> None:
            a, b = (stage_of(reply).get(name) for name in lists)
            require(a is not None and b is not None, "no reply of SecAgg+")
            require(not isinstance(a, list) or (isinstance(b, list) and len(a) == len(b)), "lists do not fit")

        replies = self.federation.ask_members(kind, lambda c: Parcel(kind, fit, stage=stage(c)), check)
        return {client: stage_of(reply) for client, reply in replies.items()}


def _vector(reply: Parcel, length: int) -> Vector:
    texts = stage_of(reply).get(Key.MASKED_PARAMETERS)
    require(isinstance(texts, list) and len(texts) == 2, "a vector of another length")
    assert isinstance(texts, list)
    arrays = [bytes_to_ndarray(text) for text in texts]
    shapes = [(1,), (length * secure.N_BYTES // 2,)]
    require([array.shape for array in arrays] == shapes, "a vector of another length")
    return arrays


def _opened(
    vectors: dict[int, Vector], lost: list[int], shares: dict[int, list[bytes]], keys: dict[int, list[bytes]]
) -> Vector:
    """Add masked vectors and remove the masks: of their clients, and of pairs with lost clients."""
    total = [sum(arrays) for arrays in zip(*vectors.values(), strict=True)]
    shapes = [array.shape for array in next(iter(vectors.values()))]

    def add(seed: bytes, sign: int) -> None:
        for i, mask in enumerate(pseudo_rand_gen(seed, MODULUS, shapes)):
            total[i] = total[i] + sign * mask

    try:
        for client in vectors:
            add(combine_shares(shares[client]), -1)
        for client in lost:
            private = bytes_to_private_key(combine_shares(shares[client]))
            for other in vectors:
                seed = generate_shared_key(private, bytes_to_public_key(keys[other][0]))
                add(seed, 1 if client > other else -1)
    except (ValueError, IndexError) as error:
        raise FederationError(
            "The shares of a secret do not fit together: the sum cannot be opened. Use secure_sum=True."
        ) from error
    return [np.asarray(array) % MODULUS for array in total]

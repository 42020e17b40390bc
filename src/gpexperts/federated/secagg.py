"""Flower's own SecAgg+: what its four stages carry, and the client's side of them.

A client answers the stages with Flower's `secaggplus_mod`. It refuses what the mod does not: weak settings,
sums of few clients, and requests for both kinds of shares of one client.

Flower rounds parameters to a range of integers. Integers of 16 bits pass unchanged if that range is wide
enough: `to_digits` writes an encoded vector (`secure.encode`) as such integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.compat.common.recorddict_compat import fitres_to_recorddict

from gpexperts.federated.messages import Parcel, Refusal, pack, stage_of
from gpexperts.federated.policy import ClientPolicy
from gpexperts.federated.state import State

__all__ = ["MODULUS", "RANGE", "SECAGG", "answered", "from_digits", "setup", "to_digits"]

SECAGG = "secagg+"
_BITS = 16
_CLIP = 1 << _BITS
RANGE = 2 * _CLIP
"""Flower maps numbers between ±clip to integers from 0 to this one: here digit d to d + clip, exactly."""
MODULUS = 1 << 32
"""Of masks; Flower's largest. Up to 2¹⁵ clients can be summed."""


def setup(n_clients: int) -> dict[str, Any]:
    """Return the settings of a sum: all clients get shares of a secret, and more than half restore it."""
    return {
        Key.STAGE: Stage.SETUP,
        Key.SAMPLE_NUMBER: n_clients,
        Key.SHARE_NUMBER: n_clients,
        Key.THRESHOLD: n_clients // 2 + 1,
        Key.CLIPPING_RANGE: float(_CLIP),
        Key.TARGET_RANGE: RANGE,
        Key.MOD_RANGE: MODULUS,
        Key.MAX_WEIGHT: 1.0,
    }


def to_digits(vector: bytes) -> np.ndarray:
    """Return an encoded vector as digits of 16 bits, which can be added one by one."""
    return np.frombuffer(vector, dtype="<u2").astype(float)


def from_digits(total: np.ndarray, n_clients: int, n_bytes: int) -> bytes:
    """Return the sum of encoded vectors, given the sum of what Flower has made of their digits.

    Parameters
    ----------
    total : ndarray of int
    n_clients : int
        In the sum.
    n_bytes : int
        Of one encoded number.
    """
    digits = total.reshape(-1, 8 * n_bytes // _BITS) - n_clients * _CLIP
    modulus = 1 << (8 * n_bytes)
    numbers = (sum(int(digit) << (_BITS * i) for i, digit in enumerate(row)) for row in digits)
    return b"".join((number % modulus).to_bytes(n_bytes, "little") for number in numbers)


def answered(
    message: Message,
    context: Context,
    policy: ClientPolicy,
    compute: Callable[[Parcel], Parcel],
    request: Parcel,
) -> RecordDict:
    """Answer one stage of a sum.

    Parameters
    ----------
    message : Message
    context : Context
    policy : ClientPolicy
    compute : callable
        Request ↦ reply with the vector that is summed; Flower masks it before it leaves this client.
    request : Parcel
        The content of the message.
    """
    state, node = State(context), message.metadata.dst_node_id
    stage = stage_of(request)
    _check(stage, state, policy, node)

    def inner(_: Message, __: Context) -> Message:
        reply = compute(request)
        vector = reply.values.pop("vector")
        parameters = ndarrays_to_parameters([to_digits(vector)])
        content = fitres_to_recorddict(FitRes(Status(Code.OK, ""), parameters, 1, {}), keep_input=False)
        further.append(reply)
        return Message(content, reply_to=message)

    further = [Parcel(request.kind, request.fit)]
    masked = dict(secaggplus_mod(message, context, inner).content.config_records[RECORD_KEY_CONFIGS])
    return pack(further[-1]._replace(stage=masked))


def _check(stage: dict[str, Any], state: State, policy: ClientPolicy, node: int) -> None:
    """Refuse settings and requests with which the server could see the vector of one client."""
    name, fewest = stage.get(Key.STAGE), policy.min_clients
    if name == Stage.SETUP:
        n = int(stage.get(Key.SAMPLE_NUMBER, 0))
        if n < fewest:
            raise Refusal(f"A sum needs at least {fewest} clients, not {n}.")
        if stage != setup(n):
            raise Refusal("These are other settings of SecAgg+ than those of the protocol.")
    elif name == Stage.SHARE_KEYS:
        n = len(stage) - 1
        if str(node) not in stage or n < fewest:
            raise Refusal(f"A sum needs at least {fewest} clients, not {n}.")
    elif name == Stage.COLLECT_MASKED_VECTORS:
        n = len(set(stage.get(Key.SOURCE_LIST, [])) | {node})
        if n < fewest:
            raise Refusal(f"A sum needs at least {fewest} clients, not {n}.")
    elif name == Stage.UNMASK:
        there, lost = (set(stage.get(key, [])) for key in (Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST))
        fewest = max(fewest, int(state.value("fewest", 0)))
        if node not in there or there & lost or len(there) < fewest:
            raise Refusal(f"A sum of {len(there)} clients is not unmasked; this one needs {fewest}.")

"""Sums by Flower's own SecAgg+: exact, with drop-outs, and refused where they would show one client."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from flwr.common.secure_aggregation.crypto.symmetric_encryption import generate_shared_key
from flwr.common.secure_aggregation.secaggplus_constants import Key, Stage
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from flwr.supercore.primitives.asymmetric import generate_key_pairs
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.exceptions import FederationError
from gpexperts.federated import ClientPolicy, secure
from gpexperts.federated.messages import Parcel, pack, unpack
from gpexperts.federated.secagg import MODULUS, from_digits, setup, to_digits
from tests.federated.federations import (
    POLICY,
    VANISHES,
    FaultyGrid,
    fitted,
    four_clients,
    function,
    queries,
    rows_of,
)

FIVE = [1, 2, 3, 4, 5]


def five_clients() -> list[Any]:
    return [*four_clients(), rows_of(4, 80)]


@given(st.lists(st.lists(st.floats(-1e50, 1e50), min_size=2, max_size=2), min_size=1, max_size=4))
def test_digits_carry_sums_exactly(vectors: list[list[float]]) -> None:
    encoded = [secure.encode(vector) for vector in vectors]
    flowers = sum((to_digits(text) + 2**16).astype(np.int64) for text in encoded)
    assert from_digits(flowers, len(vectors), secure.N_BYTES) == secure.add(encoded)


def test_the_fit_is_that_of_plain_sums_bit_for_bit() -> None:
    plain, masked = (
        fitted(
            FaultyGrid(four_clients(), policy=ClientPolicy(n_jobs=1, needs_secure_sum=False)), secure_sum=how
        )
        for how in (False, "secagg+")
    )
    theta = [model.fitted_.model.covariance.kernel.theta for model in (plain, masked)]
    np.testing.assert_array_equal(*theta)
    np.testing.assert_array_equal(plain.predict(queries()), masked.predict(queries()))
    sums = {"summary": 1, "start": 1, "likelihood": masked.n_steps_}
    rounds = {kind: traffic.rounds for kind, traffic in masked.log_.by_kind().items()}
    assert {kind: rounds[kind] for kind in sums} == sums
    assert rounds["keys"] == rounds["shares"] == rounds["unmask"] == sum(sums.values())


@pytest.mark.parametrize("kind", ["keys", "shares", "summary", "start", "likelihood", "unmask"])
def test_a_fit_goes_on_without_clients_that_vanish_at_a_stage(kind: str) -> None:
    model = fitted(
        FaultyGrid(five_clients(), {(2, kind): VANISHES, (5, kind): VANISHES}), secure_sum="secagg+"
    )
    assert list(model.clients_) == [1, 3, 4]
    assert {(event.client, event.kind) for event in model.log_.events} == {(2, kind), (5, kind)}
    X = queries()
    there = (X[:, 0] < 1) | (X[:, 0] >= 2)
    assert np.abs(model.predict(X) - function(X))[there].mean() < 0.1


@pytest.mark.parametrize("where", ["shares", "summary", "unmask"])
def test_a_sum_is_exact_though_clients_vanish(where: str) -> None:
    """Their masks are restored from shares; a client that has sent its vector is in the sum."""
    from gpexperts.federated.federation import Federation
    from gpexperts.federated.log import MessageLog
    from gpexperts.federated.secagg_sums import SecAggSums

    rows = five_clients()
    grid = FaultyGrid(rows, {(2, where): VANISHES, (5, where): VANISHES})
    federation = Federation(grid, timeout=0.01, min_clients=3, log=MessageLog())
    values = {"version": 1, "seed": 0, "calibrate": False}
    replies = federation.ask_members(
        "describe", lambda client: Parcel("describe", federation.fit, values), lambda client, reply: None
    )
    keys = {client: reply.values["public_key"] for client, reply in replies.items()}
    total = SecAggSums(federation, keys).total("summary", 7, {}, {})
    there = FIVE if where == "unmask" else [1, 3, 4]
    assert list(total.replies) == there
    assert federation.members == [1, 3, 4]
    assert total.exact[0] == sum(len(rows[client - 1].X) for client in there)
    X = np.concatenate([rows[client - 1].X for client in there])
    np.testing.assert_allclose(total.values[1:3], X.sum(axis=0), rtol=1e-12)
    assert federation.log.n_rounds == 5, "no stage is repeated"


def test_wrong_shares_end_a_fit_in_words() -> None:
    def forged(reply: Parcel) -> Parcel:
        assert reply.stage is not None
        shares = [share[:4] + bytes(len(share) - 4) for share in reply.stage[Key.SHARE_LIST]]
        return reply._replace(stage={**reply.stage, Key.SHARE_LIST: shares})

    grid = FaultyGrid(four_clients(), {(2, "unmask"): forged})
    with pytest.raises(FederationError, match=r"shares.*cannot be opened.*secure_sum=True"):
        fitted(grid, secure_sum="secagg+")


def test_noise_with_secagg() -> None:
    from gpexperts.federated import Privacy

    grid = FaultyGrid(four_clients())
    model = fitted(grid, secure_sum="secagg+", privacy=Privacy(noise_multiplier=4.0), min_clients=4)
    assert model.privacy_.epsilon_client > 0


class Server:
    """Sends single stages to client 1, whose fit has begun."""

    def __init__(self, policy: ClientPolicy = POLICY) -> None:
        self.grid = FaultyGrid(four_clients(), policy=policy)
        values = {"version": 1, "seed": 0, "calibrate": False}
        self.public = {c: self._ask(Parcel("describe", "fit", values), c, "query") for c in (1, 2, 3, 4)}

    def _ask(self, parcel: Parcel, client: int, how: str) -> Parcel:
        message: Message = self.grid.create_message(pack(parcel), how, client, "1")
        return unpack(self.grid.answered(message).content)

    def ask(
        self, kind: str, stage: dict[str, Any], client: int = 1, how: str = "train", **values: Any
    ) -> Parcel:
        return self._ask(Parcel(kind, "fit", values, stage=stage), client, how)

    def collected(self, **values: Any) -> Parcel:
        """Bring a sum to the stage before the last one."""
        found = {c: self.ask("keys", setup(4), c).stage for c in (1, 2, 3, 4)}
        keys = {str(c): [stage[Key.PUBLIC_KEY_1], stage[Key.PUBLIC_KEY_2]] for c, stage in found.items()}
        shares = {c: self.ask("shares", {Key.STAGE: Stage.SHARE_KEYS, **keys}, c).stage for c in (1, 2, 3, 4)}
        to_first = {c: stage[Key.CIPHERTEXT_LIST][0] for c, stage in shares.items() if c != 1}
        return self.ask("summary", self.collect(to_first), nodes=["1"], keys=[self.key(1)], **values)

    def key(self, client: int) -> bytes:
        return bytes(self.public[client].values["public_key"])

    @staticmethod
    def collect(to_first: dict[int, bytes]) -> dict[str, Any]:
        return {
            Key.STAGE: Stage.COLLECT_MASKED_VECTORS,
            Key.CIPHERTEXT_LIST: list(to_first.values()),
            Key.SOURCE_LIST: list(to_first),
        }

    def unmask(self, there: list[int], lost: list[int]) -> Parcel:
        return self.ask(
            "unmask",
            {Key.STAGE: Stage.UNMASK, Key.ACTIVE_NODE_ID_LIST: there, Key.DEAD_NODE_ID_LIST: lost},
        )


def reason(reply: Parcel) -> str:
    assert reply.kind == "refused"
    return str(reply.values["reason"])


@pytest.mark.parametrize(
    "change",
    [{Key.THRESHOLD: 2}, {Key.MOD_RANGE: 1}, {Key.TARGET_RANGE: 1}, {Key.CLIPPING_RANGE: 1.0}, {"more": 1}],
)
def test_weak_settings_are_refused(change: dict[str, Any]) -> None:
    assert "other settings of SecAgg+" in reason(Server().ask("keys", {**setup(4), **change}))


def test_a_sum_of_too_few_clients_is_refused_at_every_stage() -> None:
    server = Server()
    assert "at least 3 clients, not 2" in reason(server.ask("keys", setup(2)))
    server.ask("keys", setup(4))
    two = {Key.STAGE: Stage.SHARE_KEYS, "1": [b"a", b"b"], "2": [b"c", b"d"]}
    assert "at least 3 clients, not 2" in reason(server.ask("shares", two))
    assert "at least 3 clients, not 2" in reason(server.ask("summary", server.collect({2: b"text"})))
    assert server.collected().kind == "summary"
    assert "A sum of 2 clients is not unmasked; this one needs 3" in reason(server.unmask([1, 2], [3, 4]))


def test_no_client_is_both_there_and_lost() -> None:
    """Its own mask and those of its pairs together would show its vector; Flower's mod would give both."""
    server = Server()
    assert server.collected().kind == "summary"
    assert "not unmasked" in reason(server.unmask([1, 2, 3], [2, 4]))
    assert server.unmask([1, 2, 3], [4]).kind == "unmask"
    assert "ValueError" in reason(server.unmask([1, 2, 4], [3])), "a sum is opened once"


def test_a_sum_with_noise_is_opened_for_as_many_clients_as_share_the_noise() -> None:
    server = Server()
    assert server.collected(noise_clients=4).kind == "summary"
    assert "this one needs 4" in reason(server.unmask([1, 2, 3], [4]))


def test_a_vector_never_leaves_without_masks() -> None:
    server = Server()
    reply = server.collected()
    assert "vector" not in reply.values
    assert reply.stage is not None
    assert set(reply.stage) == {Key.MASKED_PARAMETERS}
    stage = server.collect({2: b"", 3: b"", 4: b""})
    values = {"masked": "secagg+", "sum": 1, "nodes": ["1"], "keys": [server.key(1)]}
    assert "only to secure sums" in reason(server.ask("summary", stage, how="query", **values))
    assert "which Flower sends as messages of training" in reason(server.ask("keys", setup(4), how="query"))


def test_flowers_masks_of_pairs_have_seeds_of_28_bits() -> None:
    """The reason why `secure_sum=True` is the default, and not "secagg+"; see docs/federated.md."""
    for _ in range(5):
        (private, _), (_, public) = generate_key_pairs(), generate_key_pairs()
        key = generate_shared_key(private, public)
        seed = int(np.bitwise_xor.reduce(np.frombuffer(key, dtype="<u4")))
        assert seed & 0x80808080 == 0
        mask = np.random.RandomState(seed).randint(0, MODULUS - 1, 3, dtype=np.int64)
        np.testing.assert_array_equal(pseudo_rand_gen(key, MODULUS, [(3,)])[0], mask)

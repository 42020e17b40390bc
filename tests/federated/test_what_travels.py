"""No training row or target is in any message; every message is logged."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Message, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto

from gpexperts.federated import ClientPolicy, FederatedGPRegressor
from gpexperts.federated.messages import KINDS, Parcel, count_bytes, pack
from tests.federated.federations import (
    VANISHES,
    FaultyGrid,
    fitted,
    four_clients,
    function,
    holdings,
    queries,
)


def serialised(content: RecordDict) -> bytes:
    """All bytes of a message, as Flower holds them."""
    pieces = []
    for record in content.array_records.values():
        pieces += [name.encode() + array.data for name, array in record.items()]
    for record in content.config_records.values():
        for name, value in record.items():
            pieces += [name.encode(), value if isinstance(value, bytes) else repr(value).encode()]
            pieces += [v if isinstance(v, bytes) else b"" for v in (value if isinstance(value, list) else [])]
    return b"|".join(pieces)


def numbers_found(text: bytes, values: np.ndarray) -> set[float]:
    """Which of some numbers are in a text: as doubles, as single floats in a row, or as decimals."""
    doubles = values.astype(np.float64).ravel()
    found: set[float] = set()
    for start in range(8):
        words = np.frombuffer(text[start : start + (len(text) - start) // 8 * 8], np.uint64)
        found |= set(doubles[np.isin(doubles.view(np.uint64), words)].tolist())
    width = values.shape[1]
    single = values.astype(np.float32)
    rows = {row.tobytes(): float(value) for row, value in zip(single, values[:, 0], strict=True)}
    for start in range(4 if width > 1 else 0):
        words = np.frombuffer(text[start : start + (len(text) - start) // 4 * 4], np.uint32)
        places = np.flatnonzero(np.isin(words, np.ascontiguousarray(single[:, 0]).view(np.uint32)))
        pieces = (words[place : place + width].tobytes() for place in places)
        found |= {rows[piece] for piece in pieces if piece in rows}
    decimals = {repr(float(v)).lstrip("-")[:10].encode(): float(v) for v in values.ravel()}
    return found | {value for digits, value in decimals.items() if len(digits) == 10 and digits in text}


@pytest.mark.parametrize("selection", ["certain", "knn", "dnn"])
@pytest.mark.parametrize("secure_sum", [True, False, "secagg+"])
def test_no_row_or_target_is_in_any_message(selection: str, secure_sum: bool | str) -> None:
    rows, X_c = four_clients(), queries(20, seed=3)
    grid = FaultyGrid(rows, policy=ClientPolicy(n_jobs=1, needs_secure_sum=bool(secure_sum)))
    model = FederatedGPRegressor(
        kernel="rbf",
        expert_size=30,
        aggregation="grbcm",
        selection=selection,
        network_rounds=1,
        max_steps=2,
        secure_sum=secure_sum,
        random_state=0,
    ).fit(grid, (X_c, function(X_c)))
    model.predict_interval(queries())
    model.explain(queries())
    texts = {}
    for kind, content in grid.traffic:
        texts[kind] = texts.get(kind, b"") + serialised(content)
    assert set(texts) <= set(KINDS)
    for client in model.clients_:
        held = holdings(grid, rows, client)
        scaled = held.units.x.transform(held.X), held.units.y.transform(held.y)
        for values in (held.X, held.y, *scaled, np.concatenate([held.X, held.y], axis=1)):
            for kind, text in texts.items():
                assert not numbers_found(text, values), f"{kind} holds rows of client {client}"


def test_the_search_finds_a_row_that_travels() -> None:
    rows = four_clients()[0]
    for array in (rows.X[3:5], rows.X[:5].astype(np.float32)):
        text = serialised(pack(Parcel("predict", "fit", {}, {"X": array})))
        assert numbers_found(text, rows.X)
    assert numbers_found(serialised(pack(Parcel("predict", "fit", {"a": float(rows.y[0])}))), rows.y[:, None])
    assert not numbers_found(serialised(pack(Parcel("predict", "fit", {"a": 1.0}))), rows.X)


def test_the_log_counts_every_message() -> None:
    grid = FaultyGrid(four_clients())
    model = fitted(grid)
    model.predict(queries())
    log = model.log_
    assert len(log.messages) == len(grid.traffic)
    assert sum(m.n_bytes for m in log.messages) == sum(count_bytes(content) for _, content in grid.traffic)
    table = log.by_kind()
    assert table["likelihood"].rounds == model.n_steps_ <= 15
    assert table["unmask"].rounds == 2 + model.n_steps_
    assert table["predict"].messages == 8
    assert log.n_rounds == sum(t.rounds for t in table.values())
    assert "likelihood" in str(log)
    assert log.events == []


def test_the_server_sees_no_single_gradient() -> None:
    """Masked replies are noise: of two equal fits, the replies differ in every number."""
    replies = []
    for _ in range(2):
        grid = FaultyGrid(four_clients())
        fitted(grid)
        replies.append(
            [
                c["values"]["vector"]
                for kind, c in grid.traffic
                if kind == "likelihood" and "vector" in c["values"]
            ]
        )
    assert len(replies[0]) == len(replies[1]) > 0
    for a, b in zip(*replies, strict=True):
        assert all(a[i : i + 64] != b[i : i + 64] for i in range(0, len(a), 64))


class SerialisingGrid(FaultyGrid):
    """Messages and the state of clients pass through Flower's serialisation, as between processes."""

    def answered(self, message: Message) -> Message:
        message.content = serialised_and_back(message.content)
        context = self.contexts[message.metadata.dst_node_id]
        context.state = serialised_and_back(context.state)
        reply = super().answered(message)
        reply.content = serialised_and_back(reply.content)
        return reply


def serialised_and_back(content: RecordDict) -> RecordDict:
    proto = recorddict_to_proto(content)
    return recorddict_from_proto(type(proto).FromString(proto.SerializeToString()))


@pytest.mark.parametrize("secure_sum", [True, "secagg+"])
def test_a_fit_is_the_same_if_everything_is_serialised(secure_sum: bool | str) -> None:
    """A client vanishes in training, and another has a number beyond 2⁶³, as Flower gives them."""
    answers = []
    for grid_class in (FaultyGrid, SerialisingGrid):
        grid = grid_class(four_clients(), {(3, "likelihood"): VANISHES})
        for kind in (grid.apps, grid.contexts):
            kind[2**64 - 2] = kind.pop(2)
        grid.contexts[2**64 - 2].node_id = 2**64 - 2
        model = fitted(grid, secure_sum=secure_sum)
        assert list(model.clients_) == [1, 4, 2**64 - 2]
        answers.append(model.predict(queries()))
    np.testing.assert_array_equal(*answers)

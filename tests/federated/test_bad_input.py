"""Clients and servers that do what they should not: each is refused in words, and the federation goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gpexperts.federated import ClientPolicy, ClientRows, FederatedGPRegressor, LocalGrid, client_app
from gpexperts.federated.answering import Client
from gpexperts.federated.messages import KINDS, Parcel, pack, unpack
from tests.federated.federations import POLICY, FaultyGrid, fitted, four_clients, queries, rows_of


def nan_row(rows: ClientRows) -> ClientRows:
    X = rows.X.copy()
    X[3, 1] = np.nan
    return replace(rows, X=X)


BAD = {
    "has no rows": lambda rows: ClientRows(rows.X[:0], rows.y[:0]),
    "has 5 rows; at least 20": lambda rows: ClientRows(rows.X[:5], rows.y[:5]),
    "NaN or infinite": nan_row,
    "All targets of this client are equal": lambda rows: replace(rows, y=np.full(len(rows.y), 2.5)),
    "has 3 inputs": lambda rows: replace(rows, X=np.hstack([rows.X, rows.X[:, :1]])),
    "columns \\['b', 'a'\\]": lambda rows: replace(rows, columns=("b", "a")),
    "units \\['mm', 'mm', 'kg'\\]": lambda rows: replace(rows, units=("mm", "mm", "kg")),
    "are not numbers": lambda rows: replace(rows, X=np.full(rows.X.shape, "text")),
    "inputs of shape \\(90, 2\\) and targets of shape \\(3, 1\\)": lambda rows: replace(rows, y=rows.y[:3]),
    "the same rows as client 1": lambda _: four_clients()[0],
}


@pytest.mark.parametrize("reason", BAD)
def test_a_client_with_bad_rows_is_left_out(reason: str) -> None:
    bad = BAD[reason](rows_of(0, 90, seed=7))
    model = fitted(FaultyGrid([*four_clients(), bad]), max_steps=1)
    assert list(model.clients_) == [1, 2, 3, 4]
    (event,) = model.log_.events
    assert event.client == 5
    check(event.reason, reason)


def check(text: str, pattern: str) -> None:
    assert re.search(pattern, text), text


Fault = Callable[[Parcel], Parcel]


def with_nan(name: str) -> Fault:
    def change(reply: Parcel) -> Parcel:
        array = reply.arrays[name].astype(float).copy()
        array[(0,) * array.ndim] = np.nan
        return reply._replace(arrays={**reply.arrays, name: array})

    return change


def shortened(name: str) -> Fault:
    return lambda reply: reply._replace(arrays={**reply.arrays, name: reply.arrays[name][1:]})


def without(name: str) -> Fault:
    return lambda reply: reply._replace(arrays={k: v for k, v in reply.arrays.items() if k != name})


def shifted_index(reply: Parcel) -> Parcel:
    return reply._replace(arrays={**reply.arrays, "index": reply.arrays["index"] + 99})


def short_vector(reply: Parcel) -> Parcel:
    return reply._replace(values={"vector": reply.values["vector"][:-64]})


WRONG = [
    ("predict", with_nan("mean"), "mean is not finite"),
    ("predict", shortened("explained"), "explained has shape"),
    ("predict", without("mean"), "mean is missing"),
    ("predict", lambda reply: reply._replace(fit="another"), "another fit"),
    ("predict", shifted_index, "do not exist"),
    ("parts", with_nan("scores"), "scores is not finite"),
    ("parts", shortened("sizes"), "parts of other rows"),
    ("likelihood", short_vector, "another length"),
    ("unmask", lambda reply: reply._replace(values={"own_seed": b"short"}), "a seed has another length"),
    ("describe", lambda reply: reply._replace(values={**reply.values, "n_rows": 0}), "numbers of rows"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "fault", "reason"), WRONG)
def test_a_wrong_reply_is_left_out(kind: str, fault: Fault, reason: str) -> None:
    model = fitted(FaultyGrid(four_clients(), {(2, kind): fault}), max_steps=1)
    assert np.isfinite(model.predict(queries())).all()
    assert [event.client for event in model.log_.events] == [2]
    check(model.log_.events[0].reason, reason)


def asked(grid: LocalGrid, parcel: Parcel, client: int = 1) -> Parcel:
    message = grid.create_message(pack(parcel), "query", client, "1")
    return unpack(grid.answered(message).content)


@pytest.fixture(scope="module")
def trained() -> tuple[FaultyGrid, FederatedGPRegressor]:
    grid = FaultyGrid(four_clients(), policy=ClientPolicy(n_jobs=1, max_queries=500, max_steps=5))
    return grid, fitted(grid, max_steps=1)


def test_a_server_that_asks_for_more_is_refused(
    trained: tuple[FaultyGrid, FederatedGPRegressor], caplog: pytest.LogCaptureFixture
) -> None:
    grid, model = trained
    fit = model.fitted_.model.experts.federation.fit
    theta = model.fitted_.model.covariance.kernel.theta
    keys = {str(c): grid.contexts[c].state["gpexperts.values"]["public_key"] for c in (1, 2, 3, 4)}
    envelope = {"masked": True, "sum": 99, "nodes": list(keys), "keys": list(keys.values()), "kernel": "rbf"}
    two = {"nodes": ["1", "2"], "keys": [keys["1"], keys["2"]]}
    forged = {"keys": [keys["1"], keys["2"], keys["3"], keys["1"]]}
    no_index = {"index": np.zeros((2, 1), int)}
    cases = [
        (Parcel("rows", fit), "Unknown message 'rows'"),
        (Parcel("predict", "other"), "no part in that fit"),
        (Parcel("likelihood", fit, {"kernel": "rbf"}, {"theta": theta}), "only to secure sums"),
        (Parcel("likelihood", fit, {**envelope, **two}, {"theta": theta}), "at least 3 clients"),
        (Parcel("likelihood", fit, {**envelope, **forged}, {"theta": theta}), "key of client 4 has changed"),
        (Parcel("likelihood", fit, envelope, {"theta": theta[1:]}), "finite numbers"),
        (Parcel("likelihood", fit, envelope, {"theta": theta}), "More than 5 messages 'likelihood'"),
        (Parcel("unmask", fit, {"sum": 98, "nodes": list(keys)}), "Sum 98 is not open"),
        (Parcel("predict", fit, {}, {"X": np.zeros((2, 3)), **no_index}), "do not fit"),
        (Parcel("predict", fit, {}, {"X": np.full((2, 2), np.nan), **no_index}), "finite"),
        (Parcel("predict", fit, {}, {"X": np.zeros((2, 2)), "index": np.full((2, 1), 77)}), "do not fit"),
        (Parcel("predict", fit, {"n_certain": 1}, {"X": np.zeros((600, 2))}), "More than 500 queries"),
        (Parcel("describe", fit, {"version": 99}), "Protocol 99"),
    ]  # fmt: skip
    for parcel, reason in cases:
        reply = asked(grid, parcel)
        assert reply.kind == "refused", reason
        check(reply.values["reason"], reason)
        check(caplog.text, reason)


@pytest.fixture
def opened() -> Callable[[list[str], dict[str, int]], Parcel]:
    """Client 1's replies to requests to open a sum, for given clients and further values of the sum."""
    grid, keys = FaultyGrid(four_clients()), {}
    for client in (1, 2, 3, 4):
        parcel = Parcel("describe", "fit", {"version": 1, "seed": 0, "calibrate": False})
        keys[str(client)] = asked(grid, parcel, client).values["public_key"]
    number = 0

    def ask(there: list[str], values: dict[str, int] | None) -> Parcel:
        nonlocal number
        if values is not None:
            number += 1
            envelope = {"masked": True, "sum": number, "nodes": list(keys), "keys": list(keys.values())}
            assert "vector" in asked(grid, Parcel("summary", "fit", {**envelope, **values})).values
            again = asked(grid, Parcel("summary", "fit", {**envelope, **values}))
            assert again.values["reason"] == f"Sum {number} was asked for before."
        return asked(grid, Parcel("unmask", "fit", {"sum": number, "nodes": there}))

    return ask


def test_a_sum_is_opened_once_and_not_for_fewer_clients(opened: Callable[..., Parcel]) -> None:
    assert opened(["1", "2"], {}).kind == "refused"
    assert opened(["1", "2", "2"], None).kind == "refused"
    assert opened(["2", "3", "4"], None).kind == "refused"
    assert opened(["1", "2", "3"], None).kind == "unmask"
    assert opened(["1", "2", "4"], None).kind == "refused"


def test_a_sum_with_noise_is_opened_for_as_many_clients_as_share_the_noise(
    opened: Callable[..., Parcel],
) -> None:
    few = opened(["1", "2", "3"], {"noise_clients": 4})
    assert few.values["reason"] == "A sum of 3 clients is not unmasked; this one needs 4."
    assert opened(["1", "2", "3", "4"], None).kind == "unmask"


def test_a_message_of_another_protocol() -> None:
    from flwr.app import ConfigRecord, RecordDict

    grid = LocalGrid([client_app(four_clients()[0], POLICY)])
    message = grid.create_message(RecordDict({"hello": ConfigRecord({"a": 1})}), "train", 1, "1")
    reply = unpack(grid.answered(message).content)
    assert reply.values["reason"] == "The message is not one of this protocol: KeyError."


def test_an_error_of_a_client_tells_nothing_of_its_rows() -> None:
    def broken(context: object) -> ClientRows:
        raise RuntimeError("row 17 is 3.14159")

    grid = LocalGrid([*(client_app(rows, POLICY) for rows in four_clients()), client_app(broken, POLICY)])
    model = fitted(grid, max_steps=0)
    assert model.log_.events[0].reason == "refused: RuntimeError; the log of the client says more."


def test_all_kinds_are_answered() -> None:
    assert all(callable(getattr(Client, kind)) for kind in KINDS)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"aggregation": "npae"}, "not possible in a federation: it needs k"),
        ({"selection": "ggm"}, "inputs do not travel"),
        ({"selection": "nearest_rows"}, "rows do not travel"),
        ({"kernel": "unknown"}, "kernel must be"),
        ({"max_steps": 16}, "at most 15"),
        ({"n_selected": 0}, "own expert"),
        ({"timeout": float("inf")}, "positive number of seconds"),
        ({"min_clients": 0}, "at least 1"),
        ({"secure_sum": "yes"}, r"must be True, False or 'secagg\+', got 'yes'"),
        ({"aggregation": "grbcm"}, "needs communication="),
        ({"calibrate": "yes"}, "calibrate must be"),
        ({"calibrate": "jackknife"}, "calibrate must be"),
    ],
)
def test_parameters_are_checked(parameters: dict, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        FederatedGPRegressor(**parameters).fit(FaultyGrid(four_clients()))


def test_arrays_are_no_grid() -> None:
    with pytest.raises(TypeError, match="fit takes a Flower Grid"):
        FederatedGPRegressor().fit(np.zeros((3, 2)))


def test_queries_of_another_width(trained: tuple[FaultyGrid, FederatedGPRegressor]) -> None:
    with pytest.raises(ValueError, match="X has 3 features, but the clients' rows have 2"):
        trained[1].predict(np.zeros((1, 3)))

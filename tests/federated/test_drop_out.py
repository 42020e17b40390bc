"""Clients vanish in any round; the others go on."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Error, Message
from flwr.common.constant import ErrorCode

from gpexperts.exceptions import FederationError
from gpexperts.federated import LocalGrid, client_app
from gpexperts.federated.federation import Federation
from gpexperts.federated.log import MessageLog
from gpexperts.federated.messages import Parcel
from gpexperts.federated.sums import MaskedSums
from tests.federated.federations import (
    LATE,
    POLICY,
    VANISHES,
    FaultyGrid,
    fitted,
    four_clients,
    function,
    queries,
    rows_of,
)


@pytest.mark.parametrize("kind", ["describe", "summary", "start", "likelihood", "unmask", "parts"])
def test_a_fit_goes_on_without_a_client(kind: str) -> None:
    grid = FaultyGrid(four_clients(), {(2, kind): VANISHES})
    model = fitted(grid)
    assert list(model.clients_) == [1, 3, 4]
    assert [(e.client, e.kind) for e in model.log_.events] == [(2, kind)]
    X = queries()
    there = (X[:, 0] < 1) | (X[:, 0] >= 2)
    mean = model.predict(X)
    assert np.abs(mean - function(X))[there].mean() < 0.1
    assert model.absent_ == set()


def test_a_client_that_vanishes_in_a_network_round() -> None:
    grid = FaultyGrid(four_clients(), {(2, "network"): VANISHES})
    model = fitted(grid, selection="dnn", network_rounds=2)
    mean = model.predict(queries())
    assert np.isfinite(mean).all()
    assert model.absent_ <= {2}


@pytest.mark.parametrize("selection", ["certain", "knn", "all"])
@pytest.mark.parametrize("aggregation", ["gpoe", "rbcm"])
def test_answers_say_who_is_absent(selection: str, aggregation: str) -> None:
    grid = FaultyGrid(four_clients())
    model = fitted(grid, selection=selection, aggregation=aggregation, n_selected="auto")
    X = queries(60)
    before = model.predict(X)
    grid.faults[3, "predict"] = VANISHES
    after, std = model.predict(X, return_std=True)
    assert model.absent_ == {3}
    assert np.isfinite(after).all()
    assert (std > 0).all()
    far = (X[:, 0] < 1.5) | (X[:, 0] > 3.5)
    assert np.abs(after - function(X))[far].mean() < 1.5 * np.abs(before - function(X))[far].mean() + 0.02
    shown = model.explain(X[:5]).experts
    assert not np.isin(shown, model.experts_of_[3]).any()
    grid.faults.clear()
    grid.gone.clear()
    np.testing.assert_allclose(model.predict(X), before)
    assert model.absent_ == set()


def test_a_prediction_without_an_expert_is_that_of_those_who_are_left() -> None:
    """The places of an absent client are taken by the next best experts, as if it had no experts."""
    grid = FaultyGrid(four_clients())
    model = fitted(grid, selection="knn", n_selected=3)
    X = queries()
    grid.faults[1, "predict"] = VANISHES
    mean = model.predict(X)
    experts, selector = model.fitted_.model.experts, model.fitted_.selector
    Z = model.fitted_.model.x_scale.transform(X)
    ranked = selector.select(Z, model.n_experts_)
    kept = np.array([[i for i in row if experts.owner[i] != 1][:3] for row in ranked])
    grid.faults.clear()
    grid.gone.clear()
    prediction = model._predictor.formula.aggregator.combine(
        experts.gather(Z, kept, model._predictor.formula.request, model._predictor._engine)
    )
    np.testing.assert_allclose(mean, model.fitted_.model.y_scale.restore(prediction.mean)[:, 0], rtol=1e-12)


def test_too_few_clients_end_a_fit_with_the_reasons() -> None:
    grid = FaultyGrid(four_clients(), {(1, "likelihood"): VANISHES, (4, "start"): VANISHES})
    with pytest.raises(FederationError, match=r"2 clients are left, but min_clients=3.*no reply within"):
        fitted(grid)


def test_no_client_left_to_answer() -> None:
    grid = FaultyGrid(four_clients())
    model = fitted(grid)
    grid.gone = {1, 2, 3, 4}
    with pytest.raises(FederationError, match="No client answers"):
        model.predict(queries())


@pytest.mark.parametrize("kind", ["likelihood", "predict"])
def test_a_late_reply_is_not_taken_for_one_to_a_later_message(kind: str) -> None:
    answers = []
    for fault in (LATE, VANISHES):
        model = fitted(FaultyGrid(four_clients(), {(2, kind): fault}))
        answers.append([model.predict(queries(seed=seed)) for seed in (1, 2)])
        assert {event.client for event in model.log_.events} == {2}
    np.testing.assert_array_equal(*answers)


def test_a_failed_fit_keeps_the_former_model() -> None:
    grid = FaultyGrid(four_clients())
    model = fitted(grid)
    before, log = model.predict(queries()), model.log_
    grid.faults = {(client, "start"): LATE for client in (1, 2)}
    with pytest.raises(FederationError, match="2 clients are left"):
        model.fit(grid)
    assert model.log_ is log
    assert not np.isnan(before).any()


def test_a_client_that_is_not_connected_is_not_waited_for() -> None:
    grid = FaultyGrid(four_clients())
    model = fitted(grid)
    del grid.apps[2]
    model.predict(queries())
    assert model.absent_ == {2}
    assert model.log_.events[-1].reason == "not connected"


@pytest.mark.parametrize("kind", ["summary", "unmask"])
@pytest.mark.parametrize("gone", [(), (2,), (1, 5)])
def test_a_secure_sum_is_that_of_those_who_are_there(kind: str, gone: tuple[int, ...]) -> None:
    rows = [rows_of(region, 40 + region) for region in range(5)]
    grid = FaultyGrid(rows, {(client, kind): VANISHES for client in gone})
    federation = Federation(grid, timeout=0.01, min_clients=3, log=MessageLog())
    values = {"version": 1, "seed": 0, "calibrate": False}
    replies = federation.ask_members(
        "describe", lambda client: Parcel("describe", federation.fit, values), lambda client, reply: None
    )
    keys = {client: reply.values["public_key"] for client, reply in replies.items()}
    total = MaskedSums(federation, keys).total("summary", 7, {}, {})
    X = np.concatenate([own.X for i, own in enumerate(rows, start=1) if i not in gone])
    y = np.concatenate([own.y for i, own in enumerate(rows, start=1) if i not in gone])
    expected = [len(X), *X.sum(axis=0), *(X**2).sum(axis=0), y.sum(), (y**2).sum()]
    np.testing.assert_allclose(total.values, expected, rtol=1e-12)
    # One client more round trips: whoever vanishes before the second message makes the sum start again.
    assert federation.log.n_rounds == (5 if gone and kind == "unmask" else 3)


class CrashingGrid(LocalGrid):
    """The process that Flower starts for client 2 ends some times without a reply."""

    def __init__(self, crashes: int) -> None:
        super().__init__([client_app(rows, POLICY) for rows in four_clients()])
        self.crashes = crashes

    def answered(self, message: Message) -> Message:
        if message.metadata.dst_node_id == 2 and self.crashes:
            self.crashes -= 1
            return Message(Error(ErrorCode.CLIENT_APP_CRASHED, "no reply"), reply_to=message)
        return super().answered(message)


@pytest.mark.parametrize(("crashes", "left"), [(2, [1, 2, 3, 4]), (3, [1, 3, 4])])
def test_a_client_whose_process_ends_is_asked_three_times(crashes: int, left: list[int]) -> None:
    model = fitted(CrashingGrid(crashes), timeout=5.0)
    assert list(model.clients_) == left
    assert model.log_.by_kind()["describe"].messages == 8 + 2 - (crashes == 3)
    assert [event.reason for event in model.log_.events] == ["error: no reply"] * (crashes == 3)

"""A predictor answers with one setting, whatever other threads do to the estimator."""

from __future__ import annotations

import pickle
import sys
import threading

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from gpexperts import DistributedGPRegressor
from gpexperts.exceptions import RefitRequiredError
from gpexperts.predictor import Predictor
from gpexperts.settings import Settings

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, size=(200, 2))
Y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=200)
GIVEN = {
    "kernel": 2.0 * RBF(1.5) + WhiteKernel(0.01), "optimizer": None, "n_experts": 6, "n_jobs": 1,
    "random_state": 0, "selection": "knn", "n_selected": 2, "n_neighbors": 0,
}  # fmt: skip


def fitted(**changes: object) -> DistributedGPRegressor:
    return DistributedGPRegressor(**(GIVEN | changes)).fit(X, Y)


def test_the_predictor_is_replaced_when_a_setting_changes() -> None:
    model = fitted()
    first = model.predictor_
    assert model.predictor_ is first
    assert first.model is model.model_
    model.set_params(n_selected=3)
    assert model.predictor_ is not first
    assert first.tuning.n_selected == 2
    assert model.predictor_.tuning.n_selected == 3


SETTINGS = [
    {"selection": "knn", "n_selected": 1, "aggregation": "poe"},
    {"selection": "all", "n_selected": "auto", "aggregation": "npae"},
]


@pytest.mark.parametrize("calibrate", [None, "conformal"])
def test_no_prediction_mixes_two_settings(calibrate: str | None) -> None:
    """One thread changes three settings at a time; what another computes belongs to one triple."""
    model = fitted(calibrate=calibrate)
    queries = X[:40]
    expected = [np.array(model.set_params(**given).predict_interval(queries, 0.9)) for given in SETTINGS]
    assert np.abs(expected[0] - expected[1]).max() > 0.01
    stop = threading.Event()

    def change() -> None:
        k = 0
        while not stop.is_set():
            model.set_params(**SETTINGS[k := 1 - k])

    thread = threading.Thread(target=change)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads change between any two steps
    thread.start()
    try:
        results = [np.array(model.predict_interval(queries, 0.9)) for _ in range(20)]
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    for result in results:
        assert any(np.allclose(result, one, rtol=1e-9, atol=1e-12) for one in expected)
    np.testing.assert_allclose(
        model.set_params(**SETTINGS[0]).predict_interval(queries, 0.9), expected[0], rtol=1e-9
    )


def test_an_interval_has_one_predictor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings change between its width and its mean."""
    model = fitted(calibrate="conformal", **SETTINGS[0])
    expected = model.predict_interval(X, 0.9)
    widths = Predictor.interval_widths

    def changing(self, level):
        result = widths(self, level)
        model.set_params(**SETTINGS[1])
        return result

    monkeypatch.setattr(Predictor, "interval_widths", changing)
    np.testing.assert_array_equal(model.predict_interval(X, 0.9), expected)


def test_a_setting_that_changes_while_a_predictor_is_built_takes_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = fitted()
    building, proceed = threading.Event(), threading.Event()
    build = Predictor.build.__func__

    def slow(cls, *args):
        building.set()
        proceed.wait(10)
        return build(cls, *args)

    monkeypatch.setattr(Predictor, "build", classmethod(slow))
    model.set_params(n_selected=3)
    predicting = threading.Thread(target=lambda: model.predict(X))
    predicting.start()
    building.wait(10)
    changing = threading.Thread(target=lambda: model.set_params(n_selected=5))
    changing.start()
    proceed.set()
    predicting.join()
    changing.join()
    assert model.select(X).shape == (200, 5)


def test_a_restored_predictor_predicts_the_same() -> None:
    for selection in ("nearest_rows", "dnn", "ggm"):
        predictor = fitted(selection=selection, n_selected="auto", n_neighbors="auto").predictor_
        learned = pickle.loads(pickle.dumps(predictor.learned))
        again = Predictor.restored(predictor.model, predictor.settings, learned)
        for one, other in zip(
            predictor.predict(X, return_std=True, latent=False),
            again.predict(X, return_std=True, latent=False),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)


def test_settings_that_the_experts_cannot_serve_are_refused() -> None:
    model = fitted()
    settings = Settings.of(model.get_params(deep=False) | {"aggregation": "grbcm"})
    with pytest.raises(RefitRequiredError, match="communication set"):
        Predictor.build(model.model_, settings)
    model.set_params(aggregation="grbcm")
    with pytest.raises(RefitRequiredError):
        model.predict(X)
    assert model.set_params(aggregation="npae").predict(X).shape == (200,)  # the model is as it was


def test_repairs_are_counted() -> None:
    predictor = fitted().predictor_
    predictor.count_repairs(2)
    predictor.count_repairs(3)
    assert predictor.queries_repaired == 5

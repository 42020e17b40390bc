"""The fit: one source of randomness per stage, held-out rows, choices."""

from __future__ import annotations

import numpy as np
import pytest

from gpexperts.fit_kernel import Streams
from gpexperts.parameters import PARAMETERS
from gpexperts.pipeline import fit_model
from gpexperts.rows.arrays import ArrayRows
from gpexperts.settings import Settings

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(150, 2))
Y = np.sin(2 * X[:, :1]) + 0.1 * RNG.normal(size=(150, 1))


def settings(**changes: object) -> Settings:
    defaults = {name: parameter.default for name, parameter in PARAMETERS.items()}
    return Settings.of(defaults | {"kernel": "rbf", "random_state": 0, "n_jobs": 1} | changes)


def test_streams_are_independent_and_fixed_by_the_seed() -> None:
    first, second = Streams.of(3), Streams.of(3)
    first.partition.rand(1000)  # what one stage draws does not change another
    assert first.training.rand() == second.training.rand()
    assert first.seeds == second.seeds
    drawn = [stream.randint(2**31) for stream in Streams.of(3)[:5]]
    assert len(set(drawn)) == 5
    assert Streams.of(4).seeds != second.seeds


@pytest.mark.parametrize(("given", "M"), [({"n_experts": 7}, 7), ({"expert_size": 40}, 4), ({}, 1)])
def test_number_of_experts(given: dict, M: int) -> None:
    model = fit_model(ArrayRows(X, Y), settings(optimizer=None, **given), one_output=True)
    assert model.experts.n_experts == M
    assert ("n_experts" in model.choices) == (given == {})  # chosen only where nothing was given
    np.testing.assert_array_equal(np.bincount(model.labels), model.experts.sizes)


def test_held_out_rows_are_in_no_expert() -> None:
    model = fit_model(ArrayRows(X, Y), settings(optimizer=None, calibrate="scale"), one_output=True)
    held_out = model.labels == -2
    assert model.experts.sizes.sum() == (~held_out).sum() == 113
    np.testing.assert_allclose(model.x_scale.restore(model.held_out[0]), X[held_out], rtol=1e-9)
    np.testing.assert_allclose(model.y_scale.restore(model.held_out[1]), Y[held_out], rtol=1e-9)
    np.testing.assert_allclose(model.y_scale.shift, Y[~held_out].mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize(("training", "reason"), [("auto", "trained kernel"), ("full", "standardised units")])
def test_the_metric_of_the_partition_is_recorded(training: str, reason: str) -> None:
    model = fit_model(ArrayRows(X, Y), settings(training=training, n_experts=3), one_output=True)
    assert model.choices["partition"].value == "balanced"
    assert reason in model.choices["partition"].reason


def test_the_automatic_kernel_has_the_best_score() -> None:
    model = fit_model(ArrayRows(X, Y), settings(kernel="auto", n_experts=2), one_output=True)
    choice = model.choices["kernel"]
    scores = {name: of["score"] for name, of in choice.evidence["last"].items()}
    assert choice.value == max(scores, key=scores.get)
    assert set(choice.evidence["first"]) == {"rbf", "matern12", "matern32", "matern52"}

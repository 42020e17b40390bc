"""The estimator of a federation: scikit-learn's manners, intervals, and the page about it."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from gpexperts.federated import FederatedGPRegressor, regressor
from gpexperts.federated.messages import KINDS
from gpexperts.federated.settings import FEDERATED_PARAMETERS
from tests.federated.federations import FaultyGrid, fitted, four_clients, function, queries

PAGE = Path(__file__).resolve().parents[2] / "docs" / "federated.md"


def test_the_constructor_is_the_table() -> None:
    shown = inspect.signature(FederatedGPRegressor).parameters
    assert {name: p.default for name, p in shown.items()} == {
        name: parameter.default for name, parameter in FEDERATED_PARAMETERS.items()
    }
    assert all(f"    {name} : " in FederatedGPRegressor.__doc__ for name in FEDERATED_PARAMETERS)


def test_clones_and_unfitted_models() -> None:
    model = FederatedGPRegressor(kernel="rbf", max_steps=2)
    assert clone(model).get_params() == model.get_params()
    for use in (
        lambda: model.predict([[0.0]]),
        lambda: model.kernel_,
        lambda: model.interval_width(0.9, 1.0),
    ):
        with pytest.raises(NotFittedError):
            use()


@pytest.mark.parametrize("calibrate", ["conformal", "scale", None])
def test_intervals_cover(calibrate: str | None) -> None:
    model = fitted(FaultyGrid(four_clients()), calibrate=calibrate)
    rng = np.random.default_rng(5)
    X = queries(1500, seed=6)
    y = function(X) + 0.1 * rng.standard_normal(len(X))
    lower, upper = model.predict_interval(X, 0.9)
    assert 0.84 < np.mean((lower <= y) & (y <= upper)) < 0.97
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(upper - mean, model.interval_width(0.9, std) * std, rtol=1e-8)
    assert (model.interval_width(0.5, std) < model.interval_width(0.95, std)).all()


def test_the_same_seed_gives_the_same_model() -> None:
    first, second = (fitted(FaultyGrid(four_clients())).predict(queries()) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_explanations_add_up() -> None:
    model = fitted(FaultyGrid(four_clients()), aggregation="rbcm", selection="knn", n_selected=3)
    X = queries(7)
    shown = model.explain(X)
    combined = (shown.weight * shown.expert_mean).sum(axis=1)
    # The means of experts are in the units of y: the prior mean has the rest of the weight.
    np.testing.assert_allclose(combined + shown.prior_weight * shown.prior_mean, shown.mean, rtol=1e-8)
    np.testing.assert_array_equal(shown.experts, model.select(X))


def test_no_queries() -> None:
    model = fitted(FaultyGrid(four_clients()), max_steps=0)
    assert model.predict(np.empty((0, 2))).shape == (0,)


def test_doctest() -> None:
    assert doctest.testmod(regressor).failed == 0


def test_the_page_lists_all_kinds_of_messages_and_its_first_example_runs() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"| `{kind}` |" in text for kind in KINDS)
    code = text.split("```python\n")[1].split("```")[0]
    namespace: dict[str, object] = {}
    exec(code, namespace)
    assert namespace["mean"].shape == (2,)

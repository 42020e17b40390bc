"""Facts about a fitted model agree with the data it was fitted to."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from gpexperts import DistributedGPRegressor, inspection

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(120, 2)) * [1.0, 50.0]
Y = 7.0 + np.sin(8 * X[:, 0]) + 0.1 * RNG.standard_normal(120)


@pytest.mark.parametrize("aggregation", ["npae", "grbcm"])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_training_rows_are_the_given_ones(aggregation: str, n_outputs: int) -> None:
    y = Y if n_outputs == 1 else np.c_[Y, 3 * Y]
    model = DistributedGPRegressor(n_experts=4, kernel="rbf", optimizer=None, aggregation=aggregation).fit(
        X, y
    )
    inputs, targets = inspection.training_inputs(model), inspection.training_targets(model)
    assert inspection.n_training_rows(model) == len(inputs) == 120
    assert targets.shape == y.shape
    given, found = np.column_stack([X, y]), np.column_stack([inputs, targets])
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], given[np.argsort(given[:, 0])], rtol=1e-12)
    np.testing.assert_allclose(inspection.input_ranges(model), np.c_[X.min(axis=0), X.max(axis=0)])


def test_rows_have_the_numbers_of_the_user() -> None:
    weight = np.where(np.arange(120) % 7 == 0, 0.0, 1.0)
    model = DistributedGPRegressor(n_experts=3, kernel="rbf", optimizer=None, calibrate="scale")
    model.fit(X, Y, sample_weight=weight)
    numbers = inspection.training_row_numbers(model)
    assert len(numbers) < np.count_nonzero(weight)
    np.testing.assert_allclose(inspection.training_inputs(model), X[numbers - 1], rtol=1e-12)


def test_length_scales_and_noise_are_in_the_units_of_the_data() -> None:
    model = DistributedGPRegressor(n_experts=1, kernel="rbf", random_state=0).fit(X, Y)
    assert inspection.noise_std(model) == pytest.approx(0.1, rel=0.3)
    stretched = DistributedGPRegressor(n_experts=1, kernel="rbf", random_state=0).fit(X * [10, 1], Y)
    ratio = inspection.length_scales(stretched) / inspection.length_scales(model)
    np.testing.assert_allclose(ratio, [10, 1], rtol=1e-3)
    assert [h.name for h in inspection.hyperparameters(model)][1:3] == [
        "length_scale[x0]",
        "length_scale[x1]",
    ]


def test_every_choice_is_a_value_and_a_reason() -> None:
    model = DistributedGPRegressor(random_state=0).fit(X, Y)
    lines = inspection.choices(model)
    assert set(lines) == set(model.choices_)
    for name, choice in model.choices_.items():
        assert lines[name] == f"{choice.value}: {choice.reason}"


def test_selection_counts_ignore_padding() -> None:
    index = np.array([[0, 2], [2, -1]])
    np.testing.assert_array_equal(inspection.selection_counts(index, 4), [1, 0, 2, 0])


def test_principal_axes_are_those_of_the_largest_variance() -> None:
    Z = RNG.standard_normal((500, 4)) * [1, 10, 0.1, 3]
    _, axes = inspection.principal_axes(Z)
    assert abs(axes[1, 0]) > 0.99
    assert abs(axes[3, 1]) > 0.99
    np.testing.assert_allclose(axes.T @ axes, np.eye(2), atol=1e-12)


@pytest.mark.parametrize(
    "function", [inspection.feature_names, inspection.stages, inspection.training_inputs]
)
def test_an_unfitted_model_is_refused(function) -> None:
    with pytest.raises(NotFittedError):
        function(DistributedGPRegressor())

"""Joint predictions with weights, trends and transformed targets, against dense formulas and plain models."""

from __future__ import annotations

import numpy as np
import pytest

from gpexperts import DistributedGPRegressor
from tests.joint.models import NOISE, SETUPS, data, fixed, naive_covariance

X, Y, X_NEW = data(120)
WEIGHT = np.resize([0.5, 1.0, 4.0], len(X))


@pytest.mark.parametrize("setup", SETUPS)
def test_the_covariance_has_the_noise_of_each_row(setup: str) -> None:
    W = fixed(X, np.eye(len(X)), setup, WEIGHT).predict(X_NEW)
    model = fixed(X, Y, setup, WEIGHT)
    expected = naive_covariance(X, X_NEW, W, NOISE / WEIGHT)
    _, cov = model.predict(X_NEW, return_cov=True, latent=True)
    np.testing.assert_allclose(cov, expected, atol=1e-7)
    assert model.predict_sum(X_NEW, latent=True).std == pytest.approx(np.sqrt(expected.sum()), rel=1e-6)
    functions = model.draw_functions(4000, random_state=0)(X_NEW)
    np.testing.assert_allclose(np.cov(functions), expected, atol=0.06)


@pytest.mark.parametrize("setup", SETUPS)
def test_leave_one_out_has_the_noise_of_each_row(setup: str) -> None:
    given = np.resize([0.1, 0.5], len(X))
    model = fixed(X, Y, setup, WEIGHT, given, selection="knn")
    loo = model.loo()
    for row in range(0, len(X), 17):
        never = fixed(X, Y, setup, WEIGHT, given, selection="knn").forget([row])
        mean, std = never.predict(X[[row]], return_std=True)
        assert loo.mean[row] == pytest.approx(mean[0], abs=1e-8)
        assert loo.std[row] == pytest.approx(np.sqrt(std[0] ** 2 + given[row] ** 2), rel=1e-8)


def test_a_trend_is_added_to_what_experts_predict() -> None:
    model = fixed(X, Y + 3.0 * X[:, 0], "both", trend="linear", trend_role="mean")
    fitted = model.model_
    trend = fitted.trend.predict(X_NEW).mean[:, 0]
    residual = fitted.experts.y[np.argsort(fitted.experts.numbers), 0]
    plain = fixed(X, residual, "both", partition=model.labels_)
    for one, other in zip(
        model.predict(X_NEW, return_cov=True), plain.predict(X_NEW, return_cov=True), strict=True
    ):
        np.testing.assert_allclose(one, other + (trend if one.ndim == 1 else 0.0), atol=1e-10)
    total, std = model.predict_sum(X_NEW)
    assert total == pytest.approx(plain.predict_sum(X_NEW).mean + trend.sum())
    assert std == pytest.approx(plain.predict_sum(X_NEW).std)
    np.testing.assert_allclose(
        model.sample_y(X_NEW, 3, random_state=0),
        plain.sample_y(X_NEW, 3, random_state=0) + trend[:, None],
        atol=1e-10,
    )
    slope = fitted.trend.predictors[0].coef
    np.testing.assert_allclose(
        model.predict_gradient(X_NEW), plain.predict_gradient(X_NEW) + slope, atol=1e-9
    )
    np.testing.assert_allclose(model.loo().residual, plain.loo().residual, atol=1e-10)
    np.testing.assert_allclose(model.loo().residual + model.loo().mean, Y + 3.0 * X[:, 0], atol=1e-10)


def test_samples_are_transformed_back_and_densities_are_those_of_the_target() -> None:
    model = fixed(X, np.exp(Y), "both", target_transform="log")
    plain = fixed(X, Y, "both")
    np.testing.assert_allclose(
        model.sample_y(X_NEW, 3, random_state=0), np.exp(plain.sample_y(X_NEW, 3, random_state=0))
    )
    loo, of_log = model.loo(), plain.loo()
    np.testing.assert_allclose(loo.standardized_residual, of_log.standardized_residual, atol=1e-9)
    np.testing.assert_allclose(loo.log_density, of_log.log_density - Y, atol=1e-9)
    np.testing.assert_allclose(loo.mean, np.exp(of_log.mean + of_log.std**2 / 2), rtol=1e-6)
    np.testing.assert_allclose(loo.residual, np.exp(Y) - loo.mean, atol=1e-9)


@pytest.mark.parametrize("retrain", ["never", "now"])
def test_new_rows_with_weights_and_a_transform(retrain: str) -> None:
    first = np.arange(80)
    noise = np.resize([0.1, 0.4], len(X)) * np.exp(Y)
    y, log = np.exp(Y), {"target_transform": "log"}
    model = fixed(X[first], y[first], "own", WEIGHT[first], noise[first], **log)
    model.partial_fit(X[80:], y[80:], WEIGHT[80:], noise[80:], retrain=retrain)
    whole = fixed(X, y, "own", WEIGHT, noise, **log)
    for one, other in zip(
        model.predict(X_NEW, return_std=True), whole.predict(X_NEW, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    with pytest.raises(ValueError, match="target_transform='log' cannot transform"):
        model.partial_fit(X[:2], [1.0, -1.0])


def test_new_rows_without_weights_count_as_rows_of_weight_1() -> None:
    model = fixed(X[:80], Y[:80], "own", WEIGHT[:80]).partial_fit(X[80:], Y[80:], retrain="never")
    whole = fixed(X, Y, "own", np.concatenate([WEIGHT[:80], np.ones(40)]))
    np.testing.assert_allclose(model.predict(X_NEW), whole.predict(X_NEW), atol=1e-10)
    plain = fixed(X[:80], Y[:80], "own").partial_fit(X[80:], Y[80:], WEIGHT[80:], retrain="never")
    whole = fixed(X, Y, "own", np.concatenate([np.ones(80), WEIGHT[80:]]))
    np.testing.assert_allclose(plain.predict(X_NEW), whole.predict(X_NEW), atol=1e-10)


def test_rows_of_weight_0_are_numbered_and_absent() -> None:
    weight = np.where(np.arange(120) % 10 == 3, 0.0, 1.0)
    model = fixed(X, Y, "own", weight).partial_fit(X_NEW[:3], np.zeros(3), [1.0, 0.0, 1.0], retrain="never")
    kept = [*np.flatnonzero(weight), 120, 122]
    np.testing.assert_array_equal(model.loo().row, kept)
    with pytest.raises(ValueError, match="Row 121 has weight 0"):
        model.forget([121])
    plain = fixed(np.concatenate([X, X_NEW[:3]])[kept], np.concatenate([Y, np.zeros(3)])[kept], "own")
    np.testing.assert_allclose(model.predict(X_NEW), plain.predict(X_NEW), atol=1e-10)


def test_a_new_outlier_of_student_noise_has_little_weight() -> None:
    model = fixed(X, Y, "own", noise="student")
    before = model.predict(X_NEW)
    model.partial_fit(X_NEW[:1], before[:1] + 1000.0, retrain="never")
    np.testing.assert_allclose(model.predict(X_NEW[:1]), before[:1], atol=0.1)
    assert model.model_.experts.noise.shape == (121, 4)


def test_forgetting_keeps_the_trend_and_the_targets() -> None:
    model = fixed(X, Y + 3.0 * X[:, 0], "own", trend="linear", trend_role="mean", calibrate="conformal")
    model.forget([0, 7]).partial_fit(X[:1], Y[:1], retrain="never")
    loo = model.loo()
    assert loo.row.tolist() == [i for i in range(121) if i not in (0, 7)]
    expected = np.append(Y + 3.0 * X[:, 0], Y[:1])[loo.row]
    np.testing.assert_allclose(loo.residual + loo.mean, expected, atol=1e-10)


def test_tiny_targets_keep_the_std_of_sums_and_gradients() -> None:
    plain, tiny = (
        DistributedGPRegressor(kernel="rbf", n_experts=1, noise="gaussian", trend=None, random_state=0).fit(
            X, unit * Y
        )
        for unit in (1.0, 1e-200)
    )
    assert tiny.predict_sum(X_NEW).std == pytest.approx(
        1e-200 * plain.predict_sum(X_NEW).std, rel=1e-6, abs=0
    )
    for one, other in zip(
        tiny.predict_gradient(X_NEW, return_std=True),
        plain.predict_gradient(X_NEW, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(one, 1e-200 * other, rtol=1e-5)

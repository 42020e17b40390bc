"""Inputs that share a length scale: values against repeated length scales, gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, RationalQuadratic, WhiteKernel

from gpexperts.engines import ThreadEngine
from gpexperts.kernels.generic import GenericCovariance
from gpexperts.kernels.named import covariance_of
from gpexperts.kernels.raw import RawInputs, candidate_covariances, kernel_in_user_units
from gpexperts.kernels.stationary import StationaryCovariance
from gpexperts.scaling import Standardizer
from gpexperts.training.likelihood import Block, log_marginal_likelihood
from gpexperts.training.predictive import Neighbourhoods, predictive_density

INDEX = np.array([0, 1, 1, 1, 2, 2])
LENGTHS = np.array([0.7, 1.3, 2.0])
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 6))
Y = np.sin(X[:, :1]) + X[:, 1:2] * X[:, 4:5]
SHAPES = {
    "rbf": RBF(LENGTHS),
    "matern12": Matern(LENGTHS, nu=0.5),
    "matern32": Matern(LENGTHS, nu=1.5),
    "matern52": Matern(LENGTHS, nu=2.5),
}
SCALES = Standardizer(np.zeros(6), np.array([3.0, 1.0, 1.0, 1.0, 1.0, 1.0]))


def differences(function, theta: np.ndarray, step: float = 1e-5) -> np.ndarray:
    return np.array(
        [(function(theta + step * e) - function(theta - step * e)) / (2 * step) for e in np.eye(len(theta))]
    )


@pytest.mark.parametrize("name", SHAPES)
def test_values_are_those_of_repeated_length_scales(name: str) -> None:
    shared = covariance_of(2.0 * SHAPES[name] + WhiteKernel(0.1), INDEX)
    repeated = 2.0 * type(SHAPES[name])(**{**SHAPES[name].get_params(), "length_scale": LENGTHS[INDEX]})
    assert isinstance(shared, StationaryCovariance)
    np.testing.assert_allclose(shared(X, X[:7]), repeated(X, X[:7]), rtol=1e-10)
    np.testing.assert_allclose(shared.gram(X), repeated(X), rtol=1e-10)
    np.testing.assert_array_equal(shared.metric(np.ones(6)), LENGTHS[INDEX])
    assert shared.vanishes(X, X) is False
    assert shared.vanishes(X, X + 1e4)
    points = X.reshape(4, 10, 6)
    A = np.zeros((4, 10, 10))
    shared.fill_grams(A, points)
    for b in range(4):
        np.testing.assert_allclose(np.triu(A[b]) * 2.0, np.triu(repeated(points[b])), rtol=1e-10)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("name", [*SHAPES, "rational quadratic"])
def test_likelihood_gradient_by_differences(name: str, raw: bool) -> None:
    shape = SHAPES.get(name, RationalQuadratic(1.3, 0.8))
    kernel = 1.7 * shape + WhiteKernel(0.2)
    covariance = RawInputs(kernel, SCALES, INDEX) if raw else covariance_of(kernel, INDEX)
    block = Block(X, Y)
    gradient = log_marginal_likelihood(covariance, block).gradient
    assert gradient.shape == kernel.theta.shape

    def value(theta: np.ndarray) -> float:
        return float(np.sum(log_marginal_likelihood(covariance.at(theta), block).value))

    np.testing.assert_allclose(gradient, differences(value, kernel.theta), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", SHAPES)
def test_predictive_gradient_by_differences(name: str) -> None:
    kernel = 1.7 * SHAPES[name] + WhiteKernel(0.2)
    covariance = covariance_of(kernel, INDEX)
    rows, engine = Neighbourhoods(X.reshape(4, 10, 6), Y.reshape(4, 10, 1)), ThreadEngine(1)

    def value(theta: np.ndarray) -> float:
        return predictive_density(covariance.at(theta), rows, engine, predicted=3).log_density

    found = predictive_density(covariance, rows, engine, predicted=3).gradient
    np.testing.assert_allclose(found, differences(value, kernel.theta), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "matern52"])
def test_named_kernels_have_one_length_scale_per_index(kernel: str) -> None:
    spread = np.array([1.0, 0.7, 0.7, 0.7, 1.4, 1.4])
    (covariance,) = candidate_covariances(kernel, spread, np.ones(1), SCALES, INDEX).values()
    (scale,) = [v for k, v in covariance.kernel.get_params().items() if k.endswith("length_scale")]
    np.testing.assert_allclose(scale, np.sqrt(3) * np.array([1.0, 0.7, 1.4]))
    user = kernel_in_user_units(covariance, SCALES, Standardizer(np.zeros(1), np.ones(1)))
    again = RawInputs(user, SCALES, INDEX)
    np.testing.assert_allclose(again.gram(X), covariance.gram(X), rtol=1e-10)


def test_number_of_length_scales_is_checked() -> None:
    with pytest.raises(ValueError, match="does not have 3 length scales"):
        covariance_of(RBF(np.ones(6)), INDEX)
    with pytest.raises(ValueError, match="one length scale for all inputs"):
        covariance_of(RBF(LENGTHS) + DotProduct(), INDEX)
    assert isinstance(covariance_of(RBF(2.0) + DotProduct(), INDEX), GenericCovariance)

"""Every kernel against scikit-learn's own values and gradients, and gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from gpexperts.kernels.generic import GenericCovariance
from gpexperts.kernels.named import covariance_of
from gpexperts.kernels.stationary import StationaryCovariance
from gpexperts.training.likelihood import Block, log_marginal_likelihood

ARD = [0.7, 1.9, 0.4]
FIXED = ConstantKernel(2.0, "fixed")
FAST = {
    "rbf": 1.7 * RBF(ARD) + WhiteKernel(0.1),
    "rbf isotropic": 1.7 * RBF(0.8) + WhiteKernel(0.1),
    "rbf without constant": RBF(ARD) + WhiteKernel(0.1),
    "constant on the right": RBF(ARD) * ConstantKernel(0.6) + WhiteKernel(0.1),
    "noise first": WhiteKernel(0.1) + 1.7 * RBF(ARD),
    "two noises": WhiteKernel(0.1) + 1.7 * RBF(ARD) + WhiteKernel(0.03),
    "one noise fixed": WhiteKernel(0.1, "fixed") + 1.7 * RBF(ARD) + WhiteKernel(0.03),
    "noise free": 1.3 * RBF(0.3),
    "matern 1/2": 1.7 * Matern(ARD, nu=0.5) + WhiteKernel(0.1),
    "matern 3/2": 1.7 * Matern(ARD, nu=1.5) + WhiteKernel(0.1),
    "matern 5/2": 1.7 * Matern(ARD, nu=2.5) + WhiteKernel(0.1),
    "matern 5/2 isotropic": 1.7 * Matern(0.9, nu=2.5) + WhiteKernel(0.1),
    "matern infinity": 1.7 * Matern(ARD, nu=np.inf) + WhiteKernel(0.1),
    "rational quadratic": 1.7 * RationalQuadratic(0.9, 0.6) + WhiteKernel(0.1),
    "rational quadratic, alpha fixed": RationalQuadratic(0.9, 0.6, alpha_bounds="fixed") + WhiteKernel(0.1),
    "length scale fixed": 1.7 * RBF(ARD, "fixed") + WhiteKernel(0.1),
    "only noise free": FIXED * RBF(ARD, "fixed") + WhiteKernel(0.1),
    "all fixed": FIXED * RBF(ARD, "fixed") + WhiteKernel(0.1, "fixed"),
}
GENERIC = {
    # Positive definite in one dimension only: in three, it needs much noise.
    "periodic": 1.2 * ExpSineSquared(0.9, 2.0) + WhiteKernel(30.0),
    "linear": DotProduct(0.7) + WhiteKernel(0.1),
    "sum": 1.2 * RBF(ARD) + 0.5 * DotProduct(0.7) + WhiteKernel(0.1),
    "sum, noise inside": 1.2 * RBF(ARD) + WhiteKernel(0.1) + 0.5 * Matern(2.0, nu=1.5),
    "product": RBF(0.9) * DotProduct(0.7) + WhiteKernel(0.1),
    "matern 7/2": 1.2 * Matern(0.9, nu=3.5) + WhiteKernel(0.1),
    "power": RBF(0.9) ** 2 + WhiteKernel(0.1),
    "two constants": ConstantKernel(2.0) * (ConstantKernel(0.5) * RBF(ARD)) + WhiteKernel(0.1),
    "a constant signal": ConstantKernel(0.5) + RBF(ARD) + WhiteKernel(0.1),
}
ALL = FAST | GENERIC


@pytest.fixture
def block() -> Block:
    rng = np.random.default_rng(0)
    return Block(rng.normal(size=(25, 3)), rng.normal(size=(25, 2)))


def test_stationary_kernels_take_the_fast_path() -> None:
    assert {name for name, k in ALL.items() if type(covariance_of(k)) is StationaryCovariance} == set(FAST)
    assert {name for name, k in ALL.items() if type(covariance_of(k)) is GenericCovariance} == set(GENERIC)


@pytest.mark.parametrize("name", ALL)
def test_values_are_scikit_learn_s(name: str, block: Block) -> None:
    kernel, covariance = ALL[name], covariance_of(ALL[name])
    X, Z = block.X, np.random.default_rng(1).normal(size=(7, 3))
    tiny = 0.0 if covariance.noise_variance else 1e-10 * np.trace(kernel(X)) / len(X)
    np.testing.assert_allclose(covariance(X, Z), kernel(X, Z), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(
        covariance.noisy_gram(X), kernel(X) + tiny * np.eye(len(X)), rtol=1e-10, atol=1e-13
    )
    np.testing.assert_allclose(
        covariance.prior_variance(X) + covariance.noise_variance, kernel.diag(X), rtol=1e-12
    )
    gram = covariance.gram(X)
    np.testing.assert_allclose(gram, gram.T, rtol=1e-12)
    C, _ = covariance.noisy_gram_with_gradient(X)
    np.testing.assert_allclose(C, covariance.noisy_gram(X), rtol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_gradient_is_scikit_learn_s(name: str, block: Block) -> None:
    kernel, covariance = ALL[name], covariance_of(ALL[name])
    value, gradient, loo_error, jitter = log_marginal_likelihood(covariance, Block(block.X, block.y[:, :1]))
    alpha = 0.0 if covariance.noise_variance else 1e-10 * kernel.diag(block.X).mean()
    gp = GaussianProcessRegressor(kernel, alpha=alpha or 1e-300, optimizer=None).fit(block.X, block.y[:, 0])
    expected, slope = gp.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    assert jitter == 0.0
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(gradient, slope, rtol=1e-7, atol=1e-7)
    assert loo_error >= 0.0


@pytest.mark.parametrize("name", [name for name, k in ALL.items() if len(k.theta)])
def test_gradient_is_that_of_differences(name: str, block: Block) -> None:
    covariance = covariance_of(ALL[name])

    def value(theta: np.ndarray) -> float:
        return log_marginal_likelihood(covariance.at(theta), block).value

    theta = covariance.kernel.theta
    forth = approx_fprime(theta, value, 1e-6)
    back = -approx_fprime(theta, lambda t: value(2 * theta - t), 1e-6)
    gradient = log_marginal_likelihood(covariance, block).gradient
    np.testing.assert_allclose(gradient, (forth + back) / 2, rtol=1e-5, atol=1e-4)


def test_all_fixed_has_no_gradient(block: Block) -> None:
    assert log_marginal_likelihood(covariance_of(FAST["all fixed"]), block).gradient.shape == (0,)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_repeated_rows_have_a_finite_gradient(nu: float) -> None:
    X = np.repeat(np.random.default_rng(0).normal(size=(5, 2)), 3, axis=0)
    kernel = 1.0 * Matern([1.0, 2.0], nu=nu) + WhiteKernel(0.1)
    gradient = log_marginal_likelihood(covariance_of(kernel), Block(X, X[:, :1])).gradient
    gp = GaussianProcessRegressor(kernel, alpha=1e-300, optimizer=None).fit(X, X[:, 0])
    np.testing.assert_allclose(
        gradient, gp.log_marginal_likelihood(kernel.theta, True)[1], rtol=1e-6, atol=1e-6
    )


def test_far_from_the_origin_distances_keep_their_digits() -> None:
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(9, 2)), rng.normal(size=(4, 2))
    covariance = covariance_of(RBF(0.5))
    np.testing.assert_allclose(covariance(X + 1e6, Z + 1e6), covariance(X, Z), rtol=1e-7)


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("gap", [0.1, 10.0, 25.0, 30.0, 50.0])
def test_vanishes_is_true_only_below_1e_minus_20(name: str, gap: float) -> None:
    rng = np.random.default_rng(0)
    covariance = covariance_of(FAST[name])
    X, Z = (rng.uniform(-1, 1, size=(20, 3)) * covariance.metric(np.ones(3)) for _ in range(2))
    Z[:, 0] += (gap + 4.0) * covariance.metric(np.ones(3))[0]  # the balls have radii of less than 2
    if covariance.vanishes(X, Z):
        assert np.abs(covariance(X, Z)).max() <= 1e-20 * covariance.signal_variance
    # Distant blocks are recognised, except for heavy tails, which never vanish.
    assert covariance.vanishes(X, Z) or gap < 50.0 or "rational" in name


@pytest.mark.parametrize("shape", [RBF(1.0), *(Matern(1.0, nu=nu) for nu in (0.5, 1.5, 2.5))], ids=str)
def test_no_covariance_is_so_small_that_products_of_three_leave_the_normal_range(shape: RBF) -> None:
    distance = np.linspace(0.0, 400.0, 801)[:, None]
    kernel = 1.7 * shape
    k = covariance_of(kernel)(distance, np.zeros((1, 1)))[:, 0]
    expected = kernel(distance, np.zeros((1, 1)))[:, 0]
    assert k.min() ** 3 > np.finfo(float).tiny
    near = expected > 1e-70
    np.testing.assert_allclose(k[near], expected[near], rtol=1e-12)
    assert k[~near].max() < 1e-70
    C, _ = covariance_of(kernel).noisy_gram_with_gradient(distance)
    np.testing.assert_allclose(C[1:, 0], k[1:], rtol=1e-12)


def test_noise_is_the_white_terms_of_the_top_level_sum() -> None:
    assert covariance_of(FAST["two noises"]).noise_variance == pytest.approx(0.13)
    assert covariance_of(FAST["noise free"]).noise_variance == 0.0
    scaled = covariance_of(RBF() + 2.0 * WhiteKernel(0.3))  # a product, hence part of the function
    assert scaled.noise_variance == 0.0
    np.testing.assert_allclose(scaled.prior_variance(np.zeros((1, 1))), 1.6)


@pytest.mark.parametrize("name", FAST)
def test_metric_is_the_length_scales(name: str) -> None:
    scales = covariance_of(FAST[name]).metric(np.array([5.0, 6.0, 7.0]))
    shape = next(v for k, v in FAST[name].get_params().items() if k.endswith("length_scale"))
    np.testing.assert_array_equal(scales, np.broadcast_to(shape, 3))


@pytest.mark.parametrize("name", GENERIC)
def test_metric_of_a_generic_kernel_is_the_spread(name: str) -> None:
    spread = np.array([5.0, 6.0, 7.0])
    scales = covariance_of(GENERIC[name]).metric(spread)
    np.testing.assert_array_equal(scales, spread)
    assert scales is not spread

"""Draws from the prior by random Fourier features have the covariance of the kernel."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    DotProduct,
    Kernel,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from gpexperts.kernels.named import covariance_of
from gpexperts.kernels.raw import RawInputs
from gpexperts.kernels.spectral import draw_prior, has_fourier_features
from gpexperts.scaling import Standardizer

SHAPES = {
    "rbf": RBF([0.5, 1.0]),
    "matern12": Matern([0.5, 1.0], nu=0.5),
    "matern32": Matern([0.5, 1.0], nu=1.5),
    "matern52": Matern([0.5, 1.0], nu=2.5),
    "matern_inf": Matern([0.5, 1.0], nu=np.inf),
    "rational_quadratic": RationalQuadratic(0.5, alpha=0.7),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_features_give_the_kernel(name: str) -> None:
    """Coefficients are replaced by their standard deviations: their products are the covariance."""
    kernel: Kernel = 2.0 * SHAPES[name]
    X = np.random.default_rng(0).uniform(size=(30, 2))
    values = draw_prior(covariance_of(kernel + WhiteKernel(0.1)), 4000, 256, X[0], np.random.default_rng(1))(
        X
    )
    np.testing.assert_allclose(values @ values.T / 4000, kernel(X), atol=0.25)
    amplitude = np.sqrt(np.mean(values**2))
    assert amplitude == pytest.approx(np.sqrt(2.0), rel=0.05)


def test_rare_frequencies_are_represented() -> None:
    """The variance of a small difference of near values, which high frequencies decide."""
    kernel = Matern(1.0, nu=1.5)
    X = np.array([[0.0], [0.01], [0.02]])
    draws = draw_prior(covariance_of(1.0 * kernel), 2000, 1024, X[0], np.random.default_rng(0))
    second = draws(X).T @ np.array([1.0, -2.0, 1.0])
    expected = np.array([1.0, -2.0, 1.0]) @ kernel(X) @ np.array([1.0, -2.0, 1.0])
    assert np.mean(second**2) == pytest.approx(expected, rel=0.15)


def test_units_of_the_user() -> None:
    scale = Standardizer(np.array([5.0, -1.0]), np.array([10.0, 0.1]))
    raw = RawInputs(1.0 * RBF([10.0, 0.2]) + WhiteKernel(0.1), scale)
    one = draw_prior(raw, 3, 64, np.zeros(2), np.random.default_rng(0))
    same = draw_prior(covariance_of(1.0 * RBF([1.0, 2.0])), 3, 64, np.zeros(2), np.random.default_rng(0))
    np.testing.assert_allclose(one.frequencies, same.frequencies)


def test_other_kernels_have_none() -> None:
    assert not has_fourier_features(covariance_of(DotProduct() + WhiteKernel(1.0)))
    assert not has_fourier_features(covariance_of(RBF() * RBF(2.0) + WhiteKernel(1.0)))

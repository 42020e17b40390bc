"""Gradients against differences of `predict`, and their variance against dense formulas."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, RationalQuadratic, WhiteKernel

from gpexperts import DistributedGPRegressor
from gpexperts.experts.taper import taper_with_gradient
from tests.joint.models import NOISE, SETUPS, SMOOTH, data, fixed

X, Y, X_NEW = data()
KERNELS = {
    "rbf": 1.5 * RBF([0.4, 0.7]) + WhiteKernel(NOISE),
    "matern12": 1.5 * Matern([0.4, 0.7], nu=0.5) + WhiteKernel(NOISE),
    "matern32": 1.5 * Matern([0.4, 0.7], nu=1.5) + WhiteKernel(NOISE),
    "matern52": 1.5 * Matern([0.4, 0.7], nu=2.5) + WhiteKernel(NOISE),
    "rational_quadratic": 1.5 * RationalQuadratic(0.4, alpha=2.0) + WhiteKernel(NOISE),
}
H = 1e-6


def differences(function, at: np.ndarray) -> np.ndarray:
    """Central differences with respect to each input, (n, d, …)."""
    steps = H * np.eye(at.shape[1])
    return np.stack([(function(at + h) - function(at - h)) / (2 * H) for h in steps], axis=1)


@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize("name", KERNELS)
def test_gradient_is_that_of_the_mean(name: str, setup: str) -> None:
    model = fixed(X, 10 + 5 * Y, setup, kernel=KERNELS[name], standardize=True)
    expected = differences(model.predict, X_NEW)
    gradient = model.predict_gradient(X_NEW)
    assert gradient.shape == X_NEW.shape
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("setup", SETUPS)
def test_variance_is_that_of_the_error_of_the_derivative(setup: str) -> None:
    """Var(∂f − ∂wᵀy) from dense matrices; ∂w and the derivatives of the kernel by differences."""
    model = fixed(X, Y, setup, kernel=SMOOTH)
    unit = fixed(X, np.eye(len(X)), setup, kernel=SMOOTH)
    J = differences(unit.predict, X_NEW)  # (n, d, rows)
    signal = SMOOTH.k1
    dk = differences(lambda x: signal(x, X), X_NEW)
    C = signal(X) + NOISE * np.eye(len(X))
    var = (
        1.5 / np.array([0.4, 0.7]) ** 2
        - 2 * np.einsum("ndm,ndm->nd", J, dk)
        + np.einsum("ndm,mk,ndk->nd", J, C, J)
    )
    gradient, std = model.predict_gradient(X_NEW, return_std=True)
    np.testing.assert_allclose(std**2, var, rtol=1e-4)
    np.testing.assert_allclose(gradient, J @ Y, atol=1e-4)


def test_units_and_several_outputs() -> None:
    units = np.array([10.0, 0.1])
    model = DistributedGPRegressor(
        n_experts=5, n_neighbors=24, n_selected=0, kernel="matern52", n_jobs=1, random_state=0
    ).fit(X * units, np.column_stack([Y, 100 - 50 * Y]))
    gradient, std = model.predict_gradient(X_NEW * units, return_std=True)
    assert gradient.shape == std.shape == (len(X_NEW), 2, 2)
    steps = 1e-6 * units
    for j in range(2):
        h = steps * (np.arange(2) == j)
        expected = (model.predict(X_NEW * units + h) - model.predict(X_NEW * units - h)) / (2 * steps[j])
        np.testing.assert_allclose(gradient[:, j], expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    np.testing.assert_allclose(gradient[:, :, 1], -50 * gradient[:, :, 0], rtol=1e-6)
    np.testing.assert_allclose(std[:, :, 1], 50 * std[:, :, 0], rtol=1e-6)


def test_far_from_the_data_the_prior_is_left() -> None:
    for setup in SETUPS:
        gradient, std = fixed(X, Y, setup, kernel=SMOOTH).predict_gradient([[50.0, 0.0]], return_std=True)
        np.testing.assert_allclose(gradient, 0.0, atol=1e-12)
        np.testing.assert_allclose(std, [np.sqrt(1.5) / np.array([0.4, 0.7])], rtol=1e-6)


def test_the_taper_and_its_derivative() -> None:
    rng = np.random.default_rng(0)
    x, metric = np.zeros(3), np.array([0.5, 1.0, 2.0])
    rows = rng.normal(size=(21, 3))
    rows = rows[np.argsort((((rows - x) / metric) ** 2).sum(axis=1))]
    W, dW = taper_with_gradient(x, rows, 20, metric)
    assert (W[:14] == 1.0).all()
    assert (np.diff(W[13:]) < 0).all()
    for j, h in enumerate(H * np.eye(3)):
        ahead, behind = (taper_with_gradient(x + s * h, rows, 20, metric)[0] for s in (1, -1))
        np.testing.assert_allclose(dW[:, j], (ahead - behind) / (2 * H), atol=1e-7)
    assert (taper_with_gradient(x, rows, 21, metric)[0] == 1.0).all()


def test_refusals() -> None:
    with pytest.raises(ValueError, match="no derivative"):
        fixed(X, Y, "own", kernel=KERNELS["matern12"]).predict_gradient(X_NEW, return_std=True)
    with pytest.raises(ValueError, match="predict_gradient is not available for the kernel"):
        fixed(X, Y, "exact", kernel=SMOOTH + DotProduct()).predict_gradient(X_NEW)
    with pytest.raises(ValueError, match="not available for aggregation='rbcm'"):
        fixed(X, Y, "experts", aggregation="rbcm").predict_gradient(X_NEW)
    assert fixed(X, Y, "own").predict_gradient(np.empty((0, 2))).shape == (0, 2)

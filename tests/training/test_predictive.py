"""The density of rows given their neighbours: against scikit-learn, and its gradient by differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from gpexperts.engines import ThreadEngine
from gpexperts.kernels.named import covariance_of
from gpexperts.kernels.stationary import StationaryCovariance
from gpexperts.training.compact import compact
from gpexperts.training.predictive import Neighbourhoods, maximise_density, predictive_density

SERIAL = ThreadEngine(1)
SHAPES = {
    "rbf": lambda scale: RBF(scale),
    "matern12": lambda scale: Matern(scale, nu=0.5),
    "matern32": lambda scale: Matern(scale, nu=1.5),
    "matern52": lambda scale: Matern(scale, nu=2.5),
}


def rows_of(seed: int = 0, B: int = 23, m: int = 12, d: int = 3, p: int = 1) -> Neighbourhoods:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((B, m + 1, d)) + 5.0
    y = np.sin(X.sum(axis=2))[:, :, None] + 0.1 * rng.standard_normal((B, m + 1, p))
    return Neighbourhoods(X, y)


def covariance(name: str, isotropic: bool = False) -> StationaryCovariance:
    scale = 1.3 if isotropic else np.array([0.7, 1.5, 3.0])
    found = covariance_of(ConstantKernel(1.7) * SHAPES[name](scale) + WhiteKernel(0.05))
    assert isinstance(found, StationaryCovariance)
    return found


def by_differences(
    c: StationaryCovariance, rows: Neighbourhoods, q: int = 1, h: float = 1e-4, E: float = np.inf
) -> np.ndarray:
    def objective(theta: np.ndarray) -> float:
        here = predictive_density(c.at(theta), rows, SERIAL, predicted=q)
        return here.log_density - 0.5 * here.squared_error / E

    theta, slopes = c.kernel.theta, []
    for step in h * np.eye(len(theta)):
        at = [objective(theta + j * step) for j in (-2, -1, 1, 2)]
        slopes.append((at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h))
    return np.array(slopes)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("q", [1, 4])
def test_the_density_is_that_of_scikit_learn_s_gp(name: str, q: int) -> None:
    rows, c = rows_of(p=2), covariance(name)
    found = predictive_density(c, rows, SERIAL, predicted=q)
    density = error = 0.0
    for X, y in zip(rows.X, rows.y, strict=True):
        for row in range(len(X) - q, len(X)):
            gp = GaussianProcessRegressor(c.kernel, alpha=1e-300, optimizer=None)
            gp.fit(np.delete(X, row, 0), np.delete(y, row, 0))
            mean, std = gp.predict(X[row : row + 1], return_std=True)
            density += norm.logpdf(y[row], mean[0], std[0]).sum()
            error += ((y[row] - mean[0]) ** 2).sum()
    assert found.log_density == pytest.approx(density, rel=1e-8)
    assert found.squared_error == pytest.approx(error, rel=1e-8)
    assert found.n_rows == 23 * q
    assert found.jittered == 0


@pytest.mark.parametrize("p", [1, 2])
def test_errors_are_bounded_where_that_is_wanted(p: int) -> None:
    rows, c = rows_of(p=p), covariance("matern32")
    rows.y[3, -1] += 40.0
    found = predictive_density(c, rows, SERIAL, largest=2.0)
    density = error = 0.0
    for X, y in zip(rows.X, rows.y, strict=True):
        gp = GaussianProcessRegressor(c.kernel, alpha=1e-300, optimizer=None).fit(X[:-1], y[:-1])
        mean, std = gp.predict(X[-1:], return_std=True)
        variance = std.flat[0] ** 2
        square = min(float(np.sum((y[-1] - mean) ** 2)), 2.0**2)
        density -= 0.5 * (p * np.log(2.0 * np.pi * variance) + square / variance)
        error += square
    assert found.log_density == pytest.approx(density, rel=1e-8)
    assert found.squared_error == pytest.approx(error, rel=1e-8)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("isotropic", [False, True])
@pytest.mark.parametrize(("p", "q", "E"), [(1, 1, np.inf), (3, 5, np.inf), (1, 13, 0.3), (3, 5, 0.02)])
def test_gradient(name: str, isotropic: bool, p: int, q: int, E: float) -> None:
    rows, c = rows_of(p=p), covariance(name, isotropic)
    found = predictive_density(c, rows, SERIAL, predicted=q, typical_error=E).gradient
    np.testing.assert_allclose(found, by_differences(c, rows, q, E=E), rtol=1e-7, atol=2e-6 / min(E, 1.0))


@pytest.mark.parametrize("name", SHAPES)
def test_gradient_with_repeated_rows(name: str) -> None:
    rows, c = rows_of(), covariance(name)
    rows.X[:, 3] = rows.X[:, 5]
    rows.X[:, 7] = rows.X[:, -1]
    found = predictive_density(c, rows, SERIAL, predicted=2).gradient
    np.testing.assert_allclose(found, by_differences(c, rows, 2), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "kernel",
    [
        WhiteKernel(0.1) + ConstantKernel(2.0) * RBF([1.0, 2.0, 3.0]),
        RBF([1.0, 2.0, 3.0]) * ConstantKernel(2.0) + WhiteKernel(0.1),
        ConstantKernel(2.0, "fixed") * Matern([1.0, 2.0, 3.0], nu=1.5) + WhiteKernel(0.1),
        Matern(1.0, "fixed", nu=2.5) + WhiteKernel(0.1),
        ConstantKernel(2.0) * RBF(1.0) + WhiteKernel(0.1, "fixed"),
    ],
)
def test_the_gradient_has_the_order_of_theta(kernel) -> None:
    rows, c = rows_of(), covariance_of(kernel)
    found = predictive_density(c, rows, SERIAL).gradient
    assert found.shape == kernel.theta.shape
    np.testing.assert_allclose(found, by_differences(c, rows), rtol=1e-7, atol=1e-7)


def test_threads_and_pieces_change_nothing() -> None:
    rows, c = rows_of(B=150), covariance("matern52")
    together = predictive_density(c, rows, ThreadEngine(2))
    serial = predictive_density(c, rows, SERIAL)
    assert together.log_density == serial.log_density
    np.testing.assert_array_equal(together.gradient, serial.gradient)
    parts = [
        predictive_density(c, Neighbourhoods(rows.X[a : a + 40], rows.y[a : a + 40]), SERIAL)
        for a in range(0, 150, 40)
    ]
    assert sum(part.log_density for part in parts) == pytest.approx(together.log_density, rel=1e-12)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("noise", [0.0, 1e-14, 1e-10])
def test_singular_matrices(name: str, noise: float) -> None:
    rows = rows_of(m=40)
    rows.X[:, 1] = rows.X[:, 0]  # equal inputs, unequal targets, hardly any noise
    rows.X[3] = rows.X[3, :1]  # all rows equal
    kernel = ConstantKernel(1e5) * SHAPES[name](1e4)
    if noise:
        kernel = kernel + WhiteKernel(noise, (1e-20, 1.0))
    found = predictive_density(covariance_of(kernel), rows, SERIAL, predicted=3)
    assert np.isfinite([found.log_density, found.squared_error]).all()
    assert np.isfinite(found.gradient).all()


def test_maximising_increases_the_density_within_the_bounds() -> None:
    rows, start = rows_of(B=60), covariance("matern32")
    end = maximise_density(start, rows, SERIAL, predicted=2, max_steps=20)
    before, after = (predictive_density(c, rows, SERIAL, predicted=2).log_density for c in (start, end))
    assert after > before + 1.0
    low, high = start.kernel.bounds.T
    assert ((end.kernel.theta >= low) & (end.kernel.theta <= high)).all()


def test_rows_with_twins_are_left_out() -> None:
    rows = rows_of(B=4, m=6)
    rows.X[0, 2] = rows.X[0, -1]
    rows.X[1, 2] = rows.X[1, -2]
    rows.X[2, 1] = rows.X[2, 3]
    np.testing.assert_array_equal(rows.without_twins(1).y, rows.y[1:])
    np.testing.assert_array_equal(rows.without_twins(2).X, rows.X[2:])


def test_levels_that_no_row_of_a_system_has_are_left_out() -> None:
    rng = np.random.default_rng(0)
    d, n_levels = 2, 60
    X = np.concatenate([rng.normal(size=(200, d)), np.eye(n_levels)[rng.integers(0, n_levels, 200)]], axis=1)
    at, index = rng.integers(0, 200, (23, 13)), np.array([0, 1, *[2] * n_levels])
    y = rng.normal(size=(23, 13, 1))
    kernel = ConstantKernel(1.7) * Matern([0.7, 1.5, 3.0], nu=0.5) + WhiteKernel(0.05)
    kept, of_kept = compact(X, at, index)
    assert kept.shape[2] <= d + 13
    assert of_kept is not None
    assert of_kept.tolist() == [0, 1] + [2] * (kept.shape[2] - 2)
    covariance = StationaryCovariance(kernel, index)
    whole, small = (
        predictive_density(covariance, rows, SERIAL, predicted=4)
        for rows in (Neighbourhoods(X[at], y), Neighbourhoods(kept, y, None, of_kept))
    )
    np.testing.assert_allclose(small.gradient, whole.gradient, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(small[:2], whole[:2], rtol=1e-10)


@pytest.mark.parametrize("index", [None, np.array([0, 1, *[2] * 60])])
def test_columns_that_are_no_levels_are_kept(index: np.ndarray | None) -> None:
    X = np.random.default_rng(0).normal(size=(30, 62))
    at = np.arange(24).reshape(4, 6)
    kept, of_kept = compact(X, at, index)
    assert of_kept is None
    np.testing.assert_array_equal(kept, X[at])

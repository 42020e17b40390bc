"""Densities after the correction of the variance, against formulas written out row by row."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from gpexperts.engines.threads import ThreadEngine
from gpexperts.kernels.named import covariance_of
from gpexperts.training.corrected import RowPredictions, corrected_evidence, predicted_from_neighbours
from gpexperts.training.likelihood import Block
from gpexperts.training.predictive import Neighbourhoods

KERNELS = [
    ConstantKernel(1.7) * Matern([0.8, 1.3], nu=1.5) + WhiteKernel(0.05),
    ConstantKernel(0.6) * RBF([1.1, 0.7]) + WhiteKernel(0.2),
]


def rows(n: int, p: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    y = np.sin(X[:, :1] * [1.0, 2.0][:p]) + 0.3 * np.abs(X[:, 1:]) * rng.standard_normal((n, p))
    return X, y


def left_out(kernel, X: np.ndarray, y: np.ndarray, i: int) -> tuple[float, float]:
    """Mean and observation variance of row i, from all other rows."""
    others = np.arange(len(X)) != i
    C, k = kernel(X[others]), kernel(X[i : i + 1], X[others])[0]
    mean = k @ np.linalg.solve(C, y[others])
    return float(mean), float(kernel(X[i : i + 1])[0, 0] - k @ np.linalg.solve(C, k))


def naive_ratio(kernel, X: np.ndarray, y: np.ndarray, w: np.ndarray, query: np.ndarray) -> float:
    """Local variance ratio at a query, from the leave-one-out residuals of some rows."""
    z2 = np.array(
        [
            (y[i] - mean) ** 2 / var
            for i, (mean, var) in enumerate(left_out(kernel, X, y, i) for i in range(len(X)))
        ]
    )
    near = w * (kernel(query[None], X)[0] / kernel.k1.k1.constant_value) ** 4
    average = (16.0 + w @ z2) / (16.0 + w.sum())
    return float((16.0 * average + near @ z2) / (16.0 + near.sum()))


@pytest.mark.parametrize("kernel", KERNELS, ids=["matern32", "rbf"])
def test_neighbours_predict_as_written_out(kernel) -> None:
    X, y = rows(7 * 13)
    near = Neighbourhoods(X.reshape(7, 13, 2), y.reshape(7, 13, 1))
    found = predicted_from_neighbours(covariance_of(kernel), near, ThreadEngine(1))
    for b, (points, targets) in enumerate(zip(near.X, near.y[:, :, 0], strict=True)):
        mean, var = left_out(kernel, points, targets, 12)
        np.testing.assert_allclose(found.residual[b], targets[12] - mean, rtol=1e-6)
        np.testing.assert_allclose(found.var[b], var, rtol=1e-6)
        ratio = naive_ratio(kernel, points[:12], targets[:12], np.ones(12), points[12])
        np.testing.assert_allclose(found.ratio[b], ratio, rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=["matern32", "rbf"])
def test_rows_left_out_predict_as_written_out(kernel, monkeypatch) -> None:
    X, y = rows(20)
    seen: list[RowPredictions] = []
    density = RowPredictions.log_density
    monkeypatch.setattr(RowPredictions, "log_density", lambda self: seen.append(self) or density(self))
    evidence = corrected_evidence(covariance_of(kernel), Block(X, y))
    errors = []
    for i in range(20):
        others = np.arange(20) != i
        mean, var = left_out(kernel, X, y[:, 0], i)
        errors.append((y[i, 0] - mean) ** 2)
        np.testing.assert_allclose(seen[0].residual[i, 0], y[i, 0] - mean, rtol=1e-6)
        np.testing.assert_allclose(seen[0].var[i], var, rtol=1e-6)
        ratio = naive_ratio(kernel, X[others], y[others, 0], np.ones(19), X[i])
        np.testing.assert_allclose(seen[0].ratio[i, 0], ratio, rtol=1e-6)
    np.testing.assert_allclose(evidence.loo_error, np.mean(errors), rtol=1e-6)
    np.testing.assert_allclose(evidence.log_likelihood, density(seen[0]).mean(), rtol=1e-12)


def test_a_row_of_weight_two_counts_twice() -> None:
    covariance = covariance_of(KERNELS[0])
    X, y = rows(30, p=2)
    weight = np.ones(30)
    weight[:5] = 2.0
    noise = np.column_stack([weight, np.zeros(30)])
    found = predicted_from_neighbours(
        covariance, Neighbourhoods(X[None], y[None], noise[None]), ThreadEngine(1)
    )
    assert found.weight == [1.0]
    alone = corrected_evidence(covariance, Block(X, y))
    same = corrected_evidence(covariance, Block(X, y, np.column_stack([np.ones(30), np.zeros(30)])))
    np.testing.assert_allclose(same, alone, rtol=1e-12)
    assert corrected_evidence(covariance, Block(X, y, noise)).loo_error != alone.loo_error


def test_the_correction_makes_changing_noise_likelier() -> None:
    rng = np.random.default_rng(1)
    noise = np.repeat([0.1, 2.0], 200)
    residual = (noise * rng.standard_normal(400))[:, None]
    known = RowPredictions(residual, np.ones(400), noise[:, None] ** 2, np.ones(400), np.ones(400))
    unknown = known._replace(ratio=np.ones((400, 1)))
    nowhere = known._replace(explained=np.zeros(400))
    exact = -0.5 * ((residual[:, 0] / noise) ** 2 + np.log(2 * np.pi * noise**2))
    assert abs(known.log_density().mean() - exact.mean()) < 0.01
    assert known.log_density().mean() > unknown.log_density().mean() + 0.3
    uncorrected = -0.5 * (residual[:, 0] ** 2 + np.log(2 * np.pi))
    np.testing.assert_allclose(nowhere.log_density(), uncorrected)


def test_a_gross_error_is_bounded() -> None:
    error = RowPredictions(
        np.array([[0.5], [1e9]]), np.ones(2), np.ones((2, 1)), np.zeros(2), np.ones(2)
    ).evidence()
    assert error.loo_error == 0.5 * (0.5**2 + 12.0**2)
    one = RowPredictions(np.array([[0.0], [1e9]]), np.ones(2), np.ones((2, 1)), np.zeros(2), np.ones(2))
    np.testing.assert_allclose(one.log_density(3.0), -0.5 * np.array([0.0, 9.0]) - 0.5 * np.log(2 * np.pi))

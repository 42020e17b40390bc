"""The quick score of prepared rows, and gains in density and error."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from gpexperts.columns import ColumnEncoder
from gpexperts.engines import ThreadEngine
from gpexperts.kernels.named import covariance_of
from gpexperts.rows.arrays import ArrayRows
from gpexperts.rows.base import Units
from gpexperts.scaling import Standardizer
from gpexperts.training.compare import Scored, quick_score, score_of_trained

RNG = np.random.default_rng(0)


def scored(log_density: np.ndarray, squared_error: np.ndarray, weight: np.ndarray | None = None) -> Scored:
    """Scores of rows (k,) with squared errors (k, p)."""
    weight = np.ones(len(log_density)) if weight is None else weight
    return Scored(log_density, weight, np.zeros_like(squared_error), squared_error)


def test_gain_in_density_is_per_row_and_output() -> None:
    weight = RNG.uniform(0.5, 2.0, 50)
    a, b = RNG.standard_normal((2, 50))
    error = RNG.uniform(size=(50, 2))
    mean, std_error = scored(a, error, weight).gain_over(scored(b, error, weight))
    gain = (a - b) / 2
    assert mean == pytest.approx((gain * weight).sum() / weight.sum())
    spread = (weight * (gain - mean) ** 2).sum() / weight.sum()
    assert std_error == pytest.approx(np.sqrt(spread / 50))


def test_error_counts_as_much_as_density() -> None:
    """½ log of the ratio of errors is the gain in density of a Gaussian whose variance follows its error."""
    density, error = RNG.standard_normal(40), RNG.uniform(1.0, 2.0, (40, 2))
    smaller = scored(density, error * [0.9, 0.7])
    assert smaller.gain_over(scored(density, error))[0] == 0.0
    mean, _ = smaller.gain_over(scored(density, error), by_error=True)
    assert mean == pytest.approx(0.5 * 0.5 * 0.2)  # errors fall by 20 % on average
    denser = scored(density + 0.3, error)
    assert denser.gain_over(scored(density, error), by_error=True)[0] == pytest.approx(0.5 * 0.3 / 2)


def test_the_unit_of_a_target_does_not_change_the_gain() -> None:
    a, b = RNG.standard_normal((2, 30))
    first, second = RNG.uniform(1.0, 2.0, (2, 30, 1))
    expected = scored(a, first).gain_over(scored(b, second), by_error=True)
    other = scored(a - np.log(1e3), 1e6 * first).gain_over(
        scored(b - np.log(1e3), 1e6 * second), by_error=True
    )
    np.testing.assert_allclose(other, expected, rtol=1e-10)


def test_a_row_without_weight_does_not_count() -> None:
    density, error = np.array([0.0, 0.0, 50.0]), np.array([[1.0], [1.0], [900.0]])
    other, weight = np.zeros(3), np.array([1.0, 1.0, 0.0])
    result = scored(density, error, weight).gain_over(scored(other, np.ones((3, 1)), weight), by_error=True)
    np.testing.assert_allclose(result, 0.0)


def test_perfect_predictions_have_a_finite_gain() -> None:
    perfect = scored(np.zeros(3), np.zeros((3, 1)))
    assert perfect.gain_over(perfect, by_error=True) == (0.0, 0.0)


def test_quick_score_is_in_the_units_of_the_targets() -> None:
    X = RNG.uniform(-2, 2, (150, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(150)
    layout, engine = ColumnEncoder.numbers(2).layout(2), ThreadEngine(1)
    one, thousand = (
        quick_score(ArrayRows(X, unit * y[:, None]), "rbf", 0, engine, layout) for unit in (1.0, 1000.0)
    )
    np.testing.assert_allclose(thousand.log_density, one.log_density - np.log(1000), atol=1e-3)
    np.testing.assert_allclose(thousand.squared_error, 1e6 * one.squared_error, rtol=1e-2, atol=1.0)
    assert one.relative_error == pytest.approx(one.squared_error.mean() / y.var(), rel=1e-3)
    assert np.isin(np.round(one.y[:, 0], 8), np.round(y, 8)).all()


def test_relative_error_is_that_of_the_same_rows() -> None:
    y, error, weight = RNG.standard_normal((30, 2)), RNG.uniform(size=(30, 2)), RNG.uniform(0.5, 2.0, 30)
    found = Scored(np.zeros(30), weight, y, error).relative_error
    by_output = [
        np.average(error[:, k], weights=weight) / np.cov(y[:, k], aweights=weight, ddof=0) for k in (0, 1)
    ]
    assert found == pytest.approx(np.mean(by_output))


def test_a_trained_kernel_predicts_rows_from_those_of_other_folds() -> None:
    """By the dense formula, row by row."""
    X = RNG.uniform(-2, 2, (60, 1))
    y, fold = np.sin(3 * X) + 0.1 * RNG.standard_normal((60, 1)), np.arange(60) % 3
    fold[:6] = -1  # no regressor has seen these rows
    layout = ColumnEncoder.numbers(1).layout(1)
    kernel = ConstantKernel(0.8) * RBF(0.7) + WhiteKernel(0.02)
    one = Standardizer(np.zeros(1), np.ones(1))
    found = score_of_trained(
        ArrayRows(X, y),
        covariance_of(kernel),
        Units(one, one),
        np.array([0]),
        0,
        ThreadEngine(1),
        layout,
        fold,
    )
    expected = {}
    for i in range(60):
        others = (np.arange(60) != i) & ((fold != fold[i]) | (fold[i] < 0))
        gram = kernel(X[others]), kernel(X[others], X[[i]])
        near = np.argsort(np.abs(X[others, 0] - X[i, 0]))[:42]  # the fewest that any row has
        q = np.linalg.solve(gram[0][np.ix_(near, near)], gram[1][near])
        expected[y[i, 0]] = float((y[i, 0] - q[:, 0] @ y[others, 0][near]) ** 2)
    np.testing.assert_allclose(
        found.squared_error[:, 0], [expected[value] for value in found.y[:, 0]], rtol=1e-5, atol=1e-12
    )

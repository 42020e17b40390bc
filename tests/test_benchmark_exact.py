"""The exact GP that benchmarks compare with."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import exact
from functions import problem
from gpexperts import DistributedGPRegressor

KERNEL = 0.2 * RBF([0.3, 0.5]) + WhiteKernel(0.01)


def test_means_are_those_of_scikit_learn(monkeypatch) -> None:
    monkeypatch.setattr(exact, "TILE", 64)  # 300 rows are several tiles, the last one smaller
    monkeypatch.setattr(exact, "BLOCK", 128)
    data = problem("field", 300, 50)
    fitted = DistributedGPRegressor(
        kernel=KERNEL, optimizer=None, n_experts=2, n_neighbors=0, n_selected=1, random_state=0
    ).fit(data.X, data.y)
    truth = GaussianProcessRegressor(KERNEL, optimizer=None).fit(data.X, data.y - data.y.mean())
    expected = truth.predict(data.X_test) + data.y.mean()
    dense, iterative = (exact.ExactGP(fitted, data.X, data.y) for _ in range(2))
    dense.solve_dense()
    iterative.solve(lambda: iterative.residual < 1e-10)
    for gp in (dense, iterative):
        np.testing.assert_allclose(gp.mean(data.X_test), expected, atol=1e-7)


def test_settled_needs_two_small_changes_in_succession() -> None:
    numbers = iter([1.0, 1.00001, 2.0, 2.00001, 2.00002])
    settled = exact.Settled(lambda: next(numbers), 1e-4)
    assert [settled() for _ in range(5)] == [False, False, False, False, True]


def test_test_rows_do_not_depend_on_the_training_rows() -> None:
    few, many = problem("arm", 10, 20), problem("arm", 30, 20)
    np.testing.assert_array_equal(few.y_test, many.y_test)
    np.testing.assert_array_equal(few.X, many.X[:10])

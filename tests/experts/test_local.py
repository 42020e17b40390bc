"""Local experts against scikit-learn's GP at the same hyperparameters, and which factors are kept."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, RationalQuadratic, WhiteKernel

from gpexperts.experts.covariances import pair_covariance
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.store import Observations
from gpexperts.kernels.named import covariance_of
from gpexperts.row_noise import plain
from tests.problems import Problem, local_gps

KERNELS = {
    "rbf": 1.7 * RBF([0.7, 1.9]) + WhiteKernel(0.1),
    "matern": 1.7 * Matern([0.7, 1.9], nu=1.5) + WhiteKernel(0.1),
    "rational quadratic": RationalQuadratic(0.9, 0.6) + WhiteKernel(0.1),
    "generic": 1.2 * RBF(0.9) + DotProduct(0.7) + WhiteKernel(0.1),
}


def experts_of(p: Problem, kernel=None, *, shared=None, factor_budget: int = 10**9) -> LocalExperts:
    order = np.argsort(p.labels, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(p.labels))])
    return LocalExperts(
        p.X[order], p.y[order, None], offsets, covariance_of(kernel or p.kernel),
        shared=shared, factor_budget=factor_budget,
    )  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_an_expert_is_scikit_learn_s_gp_on_its_rows(problem: Problem, name: str) -> None:
    kernel = KERNELS[name]
    experts = experts_of(problem, kernel)
    for i in range(problem.n_experts):
        rows = problem.labels == i
        gp = GaussianProcessRegressor(kernel, alpha=1e-300, optimizer=None).fit(
            problem.X[rows], problem.y[rows]
        )
        mean, std = gp.predict(problem.X_new, return_std=True)
        prediction = experts.predict(i, problem.X_new)
        prior = experts.covariance.prior_variance(problem.X_new)
        np.testing.assert_allclose(prediction.mean[:, 0], mean, rtol=1e-8, atol=1e-8)
        var = prior - prediction.explained + experts.covariance.noise_variance
        np.testing.assert_allclose(var, std**2, rtol=1e-8, atol=1e-8)


def test_weights_and_pair_covariances(problem: Problem) -> None:
    experts, naive = experts_of(problem), local_gps(problem)
    predictions = [experts.predict(i, problem.X_new, weights=True) for i in range(problem.n_experts)]
    for prediction, expected in zip(predictions, naive, strict=True):
        np.testing.assert_allclose(prediction.weights, expected.q, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(prediction.mean[:, 0], expected.mean, rtol=1e-8, atol=1e-9)
    cross = problem.signal(problem.X[problem.labels == 0], problem.X[problem.labels == 2])
    expected = np.einsum("ni,ij,nj->n", naive[0].q, cross, naive[2].q)
    actual = pair_covariance(
        experts.covariance,
        experts.rows(0)[0],
        experts.rows(2)[0],
        predictions[0].weights,
        predictions[2].weights,
    )
    np.testing.assert_allclose(actual, expected, rtol=1e-7, atol=1e-9)


def test_local_noise_is_that_of_rows_left_out_one_by_one(problem: Problem) -> None:
    kernel, experts = problem.kernel, experts_of(problem)
    for i in range(problem.n_experts):
        X, y = problem.X[problem.labels == i], problem.y[problem.labels == i]
        z2 = np.empty(len(X))
        for r in range(len(X)):
            gp = GaussianProcessRegressor(kernel, alpha=1e-300, optimizer=None)
            mean, std = gp.fit(np.delete(X, r, 0), np.delete(y, r)).predict(X[r : r + 1], return_std=True)
            z2[r] = ((y[r] - mean[0]) / std[0]) ** 2
        rho = problem.signal(problem.X_new, X) / problem.signal(X[:1], X[:1])
        whole = (16 + z2.sum()) / (16 + len(X))
        expected = (16 * whole + rho**4 @ z2) / (16 + (rho**4).sum(axis=1))
        prediction = experts.predict(i, problem.X_new, local_noise=True)
        np.testing.assert_allclose(prediction.local_noise[:, 0], expected, rtol=1e-6)


def test_the_covariance_of_distant_experts_is_not_computed(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = problem._replace(X=problem.X + 1e4 * problem.labels[:, None])
    experts = experts_of(far)
    q = np.ones((3, experts.size(0))), np.ones((3, experts.size(1)))
    monkeypatch.setattr(type(experts.covariance), "__call__", None)
    covariances = pair_covariance(experts.covariance, experts.rows(0)[0], experts.rows(1)[0], *q)
    np.testing.assert_array_equal(covariances, np.zeros(3))


def test_variances_are_not_computed_unless_requested(problem: Problem) -> None:
    prediction = experts_of(problem).predict(1, problem.X_new, variance=False)
    assert prediction.explained is None
    assert prediction.weights is None
    np.testing.assert_allclose(prediction.mean[:, 0], local_gps(problem)[1].mean, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("budget", [0, 8 * (20 * 20 + 20), 2 * 8 * (20 * 20 + 20)])
def test_dropped_factors_do_not_change_the_predictions(problem: Problem, budget: int) -> None:
    plenty, scarce = experts_of(problem), experts_of(problem, factor_budget=budget)
    for i in [0, 1, 2, 3, 0, 3, 1, 1]:
        for kept, remade in zip(
            plenty.predict(i, problem.X_new), scarce.predict(i, problem.X_new), strict=True
        ):
            np.testing.assert_array_equal(kept, remade)


def test_every_expert_sees_the_shared_rows(problem: Problem) -> None:
    shared = Observations(problem.X_new[:5], np.ones((5, 1)), plain(5))
    experts = experts_of(problem, shared=shared)
    X, y, _ = experts.rows(2)
    np.testing.assert_array_equal(X[:5], shared[0])
    np.testing.assert_array_equal(y[5:, 0], problem.y[problem.labels == 2])
    assert experts.size(2) == len(X) == 25
    assert experts.size(experts.n_experts) == 5
    np.testing.assert_array_equal(experts.rows(experts.n_experts)[0], shared[0])

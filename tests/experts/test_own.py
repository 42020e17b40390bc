"""The query's own expert against dense formulas, alone and as one more expert of NPAE."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, RationalQuadratic, WhiteKernel

from gpexperts.aggregation import NPAE
from gpexperts.engines import ThreadEngine
from gpexperts.exceptions import NotPositiveDefiniteError
from gpexperts.experts import own as module
from gpexperts.experts.covariances import own_covariance
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.moments import Request
from gpexperts.experts.own import Neighbourhood, own_predictions, posterior_variance
from gpexperts.kernels.named import covariance_of

SERIAL = ThreadEngine(1)
KERNELS = {
    "rbf": 1.7 * RBF([0.5, 1.0, 2.0]) + WhiteKernel(0.05),
    "matern12": 0.3 * Matern([0.5, 1.0, 2.0], nu=0.5) + WhiteKernel(0.01),
    "matern32": 1.0 * Matern([0.5, 1.0, 2.0], nu=1.5) + WhiteKernel(0.01),
    "matern52": 2.0 * Matern(0.8, nu=2.5) + WhiteKernel(0.01),
    "rational quadratic": 2.0 * RationalQuadratic(0.8, 1.3) + WhiteKernel(0.01),
    "generic": 1.0 * RBF(0.7) + DotProduct(0.3) + WhiteKernel(0.02),
}


def experts_of(kernel, n: int = 300, d: int = 3, p: int = 2, M: int = 4, seed: int = 0) -> LocalExperts:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X = X[np.argsort(X[:, 0])]
    offsets = np.arange(M + 1) * n // M
    y = np.sin(2 * X[:, :1] + np.arange(p)) + 0.1 * rng.normal(size=(n, p))
    return LocalExperts(X, y, offsets, covariance_of(kernel), numbers=rng.permutation(n), factor_budget=10**9)


def queries_of(n: int = 7, d: int = 3) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(n, d))


def taper_of(near: Neighbourhood, i: int, full: float = module.FULL_SHARE) -> np.ndarray:
    """W of one query: 1 up to the row of rank 0.7 m, then linear in the distance, 0 at the rim."""
    distance, rim = np.sqrt(near.squared_distance[i]), np.sqrt(near.rim[i])
    inner = distance[max(1, round(full * len(distance))) - 1]
    if not np.isfinite(rim):
        return np.ones(len(distance))
    return np.clip((rim - distance) / (rim - inner), 0.0, 1.0)


# ---------------------------------------------------------------------------------- dense formulas


@pytest.mark.parametrize("m", [3, 4, 5, 20, 64])
def test_disagreement_is_that_of_predictions_from_more_and_more_rows(m: int) -> None:
    """Δ_j is the change of an untapered prediction from the nearest 4, 8, 16, … rows to the next number."""
    experts, T = experts_of(KERNELS["matern32"]), queries_of()
    near = experts.neighbourhood(T, m, SERIAL)._replace(rim=np.full(len(T), np.inf))
    own = own_predictions(experts.covariance, near, T, SERIAL, local_noise=True)
    for i in range(len(T)):
        Q, means, explained = np.zeros(2), [], []
        for h in [*module.nested(m), m]:
            C = experts.covariance.gram(near.X[i, :h]) + experts.covariance.noise_variance * np.eye(h)
            k = experts.covariance(near.X[i, :h], T[i : i + 1])[:, 0]
            means.append(k @ np.linalg.solve(C, near.y[i, :h]))
            explained.append(k @ np.linalg.solve(C, k))
        for before in range(len(means) - 1):
            change = means[before + 1] - means[before]
            Q += change**2 / (explained[before + 1] - explained[before])
        np.testing.assert_allclose(own.disagreement[i], Q, rtol=1e-6, atol=1e-12)


def test_disagreement_has_its_degrees_of_freedom_as_mean_where_the_kernel_is_right() -> None:
    rng = np.random.default_rng(0)
    covariance = covariance_of(1.0 * Matern(0.3, nu=1.5) + WhiteKernel(0.05))
    X = rng.uniform(size=(400, 1, 2))
    points = np.concatenate([X + 0.1 * rng.normal(size=(400, 40, 2))], axis=1)
    points = np.take_along_axis(points, np.argsort(((points - X) ** 2).sum(axis=2), axis=1)[:, :, None], 1)
    y = np.stack(
        [np.linalg.cholesky(covariance.gram(P) + 0.05 * np.eye(40)) @ rng.normal(size=40) for P in points]
    )
    sq = ((points - X) ** 2).sum(axis=2) / 0.09
    none = np.zeros_like(sq, int)
    near = Neighbourhood(points, y[:, :, None], np.empty((400, 40, 0)), sq, np.full(400, np.inf), none, none)
    own = own_predictions(covariance, near, X[:, 0], SERIAL, local_noise=True)
    assert np.mean(own.disagreement) == pytest.approx(len(module.nested(40)), rel=0.15)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("m", [1, 5, 64, 130])
def test_moments_are_weighted_means_of_nested_neighbourhoods(name: str, m: int) -> None:
    experts, T = experts_of(KERNELS[name]), queries_of()
    covariance = experts.covariance
    near = experts.neighbourhood(T, m, SERIAL)
    own = own_predictions(covariance, near, T, SERIAL, weights=True)
    for i in range(len(T)):
        W = taper_of(near, i)
        share = W - np.append(W[1:], 0.0)
        C = covariance.gram(near.X[i]) + covariance.noise_variance * np.eye(m)
        k = covariance(near.X[i], T[i : i + 1])[:, 0]
        q = np.zeros(m)
        for size in np.flatnonzero(share) + 1:
            q[:size] += share[size - 1] * np.linalg.solve(C[:size, :size], k[:size])
        np.testing.assert_allclose(own.weights[i], q, atol=1e-9)
        np.testing.assert_allclose(own.mean[i], q @ near.y[i], atol=1e-9)
        np.testing.assert_allclose(own.explained[i], q @ k, rtol=1e-8)
        np.testing.assert_allclose(own.variance_of_mean[i], q @ C @ q, rtol=1e-8)
    prior = covariance.prior_variance(T)
    var = posterior_variance(own, prior)
    np.testing.assert_allclose(var, prior - own.explained**2 / own.variance_of_mean, rtol=1e-8)
    assert own.jittered == 0


@pytest.mark.parametrize("name", KERNELS)
def test_all_rows_as_neighbours_are_the_exact_gp(name: str) -> None:
    experts, T = experts_of(KERNELS[name], n=60), queries_of()
    near = experts.neighbourhood(T, 60, SERIAL)
    assert np.isinf(near.rim).all()
    own = own_predictions(experts.covariance, near, T, SERIAL)
    gp = GaussianProcessRegressor(KERNELS[name], alpha=1e-300, optimizer=None).fit(experts.X, experts.y)
    mean, std = gp.predict(T, return_std=True)
    np.testing.assert_allclose(own.mean, mean, atol=1e-8)
    prior = experts.covariance.prior_variance(T)
    np.testing.assert_allclose(own.explained, own.variance_of_mean, rtol=1e-9)
    expected = std[:, 0] ** 2 - experts.covariance.noise_variance
    np.testing.assert_allclose(posterior_variance(own, prior), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("m", [12, 20])
def test_the_variance_ratio_is_that_of_rows_left_out_one_by_one(m: int) -> None:
    experts, T = experts_of(KERNELS["matern32"], p=1), queries_of(3)
    covariance = experts.covariance
    near = experts.neighbourhood(T, m, SERIAL)
    own = own_predictions(covariance, near, T, SERIAL, local_noise=True)
    for i in range(len(T)):
        z2 = np.empty(m)
        for j in range(m):
            gp = GaussianProcessRegressor(KERNELS["matern32"], alpha=1e-300, optimizer=None)
            gp.fit(np.delete(near.X[i], j, 0), np.delete(near.y[i, :, 0], j))
            mean, std = gp.predict(near.X[i, j : j + 1], return_std=True)
            z2[j] = ((near.y[i, j, 0] - mean[0]) / std[0]) ** 2
        rho = covariance(near.X[i], T[i : i + 1])[:, 0] / covariance.signal_variance
        kept = taper_of(near, i, 0.5)
        average = (16 + kept @ z2) / (16 + kept.sum())
        expected = (16 * average + (rho**4 * kept) @ z2) / (16 + (rho**4 * kept).sum())
        np.testing.assert_allclose(own.local_noise[i, 0], expected, rtol=1e-7)


# ------------------------------------------------------------------------ beside the fixed experts


@pytest.mark.parametrize("name", ["rbf", "matern12", "generic"])
def test_the_noise_of_shared_rows_counts_in_the_covariance(name: str) -> None:
    experts, T = experts_of(KERNELS[name]), queries_of()
    covariance, m = experts.covariance, 40
    near = experts.neighbourhood(T, m, SERIAL)
    q_0 = own_predictions(covariance, near, T, SERIAL, weights=True).weights
    shared = 0
    for e in range(experts.n_experts):
        X_i = experts.rows(e)[0]
        q_i = experts.predict(e, T, weights=True).weights
        position = near.position - experts.offsets[e]
        R = own_covariance(covariance, near.X, near.noise, position, q_0, X_i, q_i)
        for i in range(len(T)):
            same = position[i][:, None] == np.arange(len(X_i))
            shared += same.sum()
            dense = covariance(near.X[i], X_i) + covariance.noise_variance * same
            np.testing.assert_allclose(R[i], q_0[i] @ dense @ q_i[i], rtol=1e-8, atol=1e-11)
    assert shared == len(T) * m  # each neighbour belongs to one expert


@pytest.mark.parametrize("m", [10, 64, 300])
def test_npae_with_the_own_expert_is_the_best_linear_predictor(m: int) -> None:
    """F given μ_0 and the experts' means, from the joint covariance of f and all targets."""
    experts, T = experts_of(KERNELS["matern52"]), queries_of()
    covariance, n = experts.covariance, len(experts.X)
    index = np.tile([2, 0], (len(T), 1))
    request = Request(covariance=True, n_neighbors=m)
    moments = experts.gather(T, index, request, SERIAL)
    prediction = NPAE(nugget=0.0, disagreement=None).combine(moments)
    near = experts.neighbourhood(T, m, SERIAL)
    q_0 = own_predictions(covariance, near, T, SERIAL, weights=True).weights
    C = covariance.gram(experts.X) + covariance.noise_variance * np.eye(n)
    k = covariance(experts.X, T)
    for i in range(len(T)):
        B = np.zeros((n, 3))  # the weight of each row in each of the three means
        B[near.position[i], 0] = q_0[i]
        for column, e in ((1, 2), (2, 0)):
            rows = slice(experts.offsets[e], experts.offsets[e + 1])
            B[rows, column] = np.linalg.solve(C[rows, rows], k[rows, i])
        R, r = B.T @ C @ B, B.T @ k[:, i]
        np.testing.assert_allclose(moments.covariance[i], R, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(moments.explained[i], r, rtol=1e-7, atol=1e-10)
        w = np.linalg.lstsq(R, r, rcond=1e-12)[0]
        np.testing.assert_allclose(prediction.mean[i], (B @ w) @ experts.y, atol=1e-5)
        prior = covariance.prior_variance(T[i : i + 1])[0]
        np.testing.assert_allclose(prediction.var[i], prior - w @ r, rtol=1e-4, atol=1e-7)
    np.testing.assert_array_equal(moments.index[:, 0], experts.n_experts)


# --------------------------------------------------------------------------------------- hard cases


def neighbourhood(X: np.ndarray, y: np.ndarray, T: np.ndarray) -> Neighbourhood:
    """All rows X (m, d) as the neighbours of every query."""
    sq = ((T[:, None] - X) ** 2).sum(axis=2)
    order = np.argsort(sq, axis=1, kind="stable")
    sq = np.take_along_axis(sq, order, axis=1)
    return Neighbourhood(
        X[order], y[order], np.empty((*order.shape, 0)), sq, np.full(len(T), np.inf), order, order
    )


def test_duplicates_with_unequal_targets_are_averaged() -> None:
    covariance = covariance_of(1.0 * Matern(1.0, nu=0.5) + WhiteKernel(1e-6))
    near = neighbourhood(np.zeros((3, 1)), np.array([[0.0], [1.0], [5.0]]), np.zeros((2, 1)))
    own = own_predictions(covariance, near, np.zeros((2, 1)), SERIAL, weights=True, local_noise=True)
    np.testing.assert_allclose(own.mean, 2.0, rtol=1e-5)
    np.testing.assert_allclose(own.weights, 1 / 3, rtol=1e-5)
    assert np.isfinite(own.local_noise).all()


@pytest.mark.parametrize("kernel", [1.0 * RBF(2.0), 1.0 * Matern(2.0, nu=0.5), DotProduct(0.5)])
@pytest.mark.parametrize("m", [5, 160])
def test_without_noise_and_with_repeated_rows(kernel, m: int) -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(20, 2)), 8, axis=0)
    experts = LocalExperts(
        X, np.sin(X[:, :1]), np.array([0, 160]), covariance_of(kernel), factor_budget=10**9
    )
    T = np.vstack([X[:3], rng.normal(size=(5, 2)), np.zeros((1, 2)), np.full((1, 2), 1e3)])
    near = experts.neighbourhood(T, m, SERIAL)
    own = own_predictions(experts.covariance, near, T, SERIAL, weights=True, local_noise=True)
    prior = experts.covariance.prior_variance(T)
    var = posterior_variance(own, prior)
    assert (var > 0).all()
    assert (var <= prior).all()
    for values in (own.mean, own.weights, own.local_noise):
        assert np.isfinite(values).all()


def test_a_singular_matrix_gets_jitter_for_its_query_alone() -> None:
    covariance = covariance_of(1.0 * RBF(50.0) + WhiteKernel(1e-18, (1e-20, 1.0)))
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(130, 3)), rng.normal(size=(6, 3))
    near = neighbourhood(X, X @ np.ones((3, 1)), T)
    own = own_predictions(covariance, near, T, SERIAL, weights=True)
    assert own.jittered > 0
    assert (posterior_variance(own, np.ones(6)) > 0).all()
    np.testing.assert_allclose(own.mean[:, 0], T.sum(axis=1), atol=1e-2)


def test_nan_is_an_error() -> None:
    near = neighbourhood(np.zeros((4, 3)), np.zeros((4, 1)), np.zeros((1, 3)))
    near = near._replace(X=np.full_like(near.X, np.nan))
    with pytest.raises(NotPositiveDefiniteError, match="4 nearest rows contains NaN"):
        own_predictions(covariance_of(KERNELS["rbf"]), near, np.zeros((1, 3)), SERIAL)


def test_far_from_all_rows_the_prior_is_returned() -> None:
    experts = experts_of(KERNELS["rbf"])
    T = queries_of() + 1e6
    moments = experts.gather(
        T, np.empty((7, 0), int), Request(covariance=True, n_neighbors=32, local_noise=True), SERIAL
    )
    prediction = NPAE(disagreement=None).combine(moments)
    np.testing.assert_allclose(prediction.mean, 0.0, atol=1e-30)
    np.testing.assert_allclose(prediction.var, 1.7)
    assert np.isfinite(moments.local_noise).all()


def test_equal_distances_are_not_tapered() -> None:
    np.testing.assert_array_equal(module._taper(np.ones((2, 8)), np.ones(2), 0.7), 1.0)
    np.testing.assert_array_equal(module._taper(np.zeros((2, 8)), np.zeros(2), 0.7), 1.0)


def test_the_mean_is_continuous_where_neighbours_change() -> None:
    experts = experts_of(1.0 * RBF(0.6) + WhiteKernel(0.01), n=400, d=2, p=1)
    T = np.linspace(-1, 1, 4001)[:, None] * np.array([1.0, 0.7])
    near = experts.neighbourhood(T, 32, SERIAL)
    assert (np.diff(near.rim) != 0).any()
    tapered, plain = (
        own_predictions(experts.covariance, n, T, SERIAL).mean[:, 0]
        for n in (near, near._replace(rim=np.full(len(T), np.inf)))
    )
    assert np.abs(np.diff(tapered)).max() < np.abs(np.diff(plain)).max() / 5


@pytest.mark.parametrize("name", ["matern12", "generic"])
@pytest.mark.parametrize("m", [40, 140])
def test_a_prediction_does_not_depend_on_its_batch_or_the_threads(name: str, m: int) -> None:
    experts, T = experts_of(KERNELS[name], n=600), queries_of(300)
    near = experts.neighbourhood(T, m, ThreadEngine(2))
    together = own_predictions(experts.covariance, near, T, ThreadEngine(2), weights=True, local_noise=True)
    for i in (0, 133, 299):
        one = slice(i, i + 1)
        lone_near = experts.neighbourhood(T[one], m, SERIAL)
        np.testing.assert_array_equal(lone_near.number, near.number[one])
        alone = own_predictions(experts.covariance, lone_near, T[one], SERIAL, weights=True, local_noise=True)
        for ours, theirs in zip(alone[:-1], together[:-1], strict=True):
            np.testing.assert_allclose(ours, theirs[one], rtol=1e-9, atol=1e-11)


def test_outputs_are_predicted_one_by_one() -> None:
    experts, T = experts_of(KERNELS["rbf"], p=3), queries_of()
    near = experts.neighbourhood(T, 50, SERIAL)
    joint = own_predictions(experts.covariance, near, T, SERIAL, local_noise=True)
    for k in range(3):
        one = near._replace(y=near.y[:, :, k : k + 1])
        single = own_predictions(experts.covariance, one, T, SERIAL, local_noise=True)
        np.testing.assert_allclose(joint.mean[:, k], single.mean[:, 0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(joint.local_noise[:, k], single.local_noise[:, 0], rtol=1e-9)
        np.testing.assert_allclose(joint.explained, single.explained, rtol=1e-12)


def test_smaller_neighbourhoods_are_the_nearest_rows_of_larger_ones() -> None:
    experts, T = experts_of(KERNELS["rbf"]), queries_of()
    near = experts.neighbourhood(T, 50, SERIAL)
    for ours, theirs in zip(near.nearest(20), experts.neighbourhood(T, 20, SERIAL), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert near.nearest(50) is near


@pytest.mark.parametrize("away", [1e3, 1e7, 1e12])
def test_a_query_far_from_all_rows_gets_the_prior(away: float) -> None:
    experts = experts_of(1.7 * RBF([0.5, 1.0, 2.0]) + WhiteKernel(1e-8))
    T = np.full((2, 3), away)
    own = own_predictions(
        experts.covariance, experts.neighbourhood(T, 64, SERIAL), T, SERIAL, local_noise=True
    )
    np.testing.assert_allclose(own.mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(own.explained, 0.0, atol=1e-12)
    assert own.jittered == 0

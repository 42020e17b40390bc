"""Covariances of predictions against dense formulas, the exact GP and properties of every covariance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import DotProduct, WhiteKernel

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import NPAE
from gpexperts.exceptions import MemoryBudgetError
from gpexperts.joint import covariance as module
from tests.joint.models import KERNEL, NOISE, SETUPS, data, fixed, naive_covariance, naive_weights

X, Y, X_NEW = data()
MODELS = {setup: fixed(X, Y, setup) for setup in SETUPS}


@pytest.mark.parametrize("setup", SETUPS)
def test_covariance_is_that_of_the_errors_of_the_predictor(setup: str) -> None:
    expected = naive_covariance(X, X_NEW, naive_weights(X, X_NEW, setup))
    mean, cov = MODELS[setup].predict(X_NEW, return_cov=True, latent=True)
    np.testing.assert_allclose(mean, MODELS[setup].predict(X_NEW))
    np.testing.assert_allclose(cov, expected, atol=2e-6)  # the diagonal includes NPAE's nugget
    off = ~np.eye(len(X_NEW), dtype=bool)
    np.testing.assert_allclose(cov[off], expected[off], atol=1e-12)
    _, observed = MODELS[setup].predict(X_NEW, return_cov=True)
    np.testing.assert_allclose(observed, cov + NOISE * np.eye(len(X_NEW)), atol=1e-12)


@pytest.mark.parametrize("setup", SETUPS)
def test_without_a_nugget_the_formula_gives_the_variance_of_npae(setup: str) -> None:
    model = fixed(X, Y, setup, aggregation=NPAE(nugget=0.0, disagreement=None))
    W = naive_weights(X, X_NEW, setup, aggregation=NPAE(nugget=0.0, disagreement=None))
    _, std = model.predict(X_NEW, return_std=True, latent=True)
    np.testing.assert_allclose(np.diag(naive_covariance(X, X_NEW, W)), std**2, rtol=1e-8)


@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("setup", SETUPS)
def test_diagonal_is_the_variance_of_predict_with_corrections_and_units(setup: str, latent: bool) -> None:
    model = DistributedGPRegressor(
        **({"n_experts": 5} | SETUPS[setup]), kernel=KERNEL, optimizer=None, n_jobs=1, random_state=0,
        aggregation=NPAE(disagreement=2.0, scale=1.3, local_noise=0.5),
    ).fit(10 * X, np.column_stack([100 + 7 * Y, Y**2]))  # fmt: skip
    mean, std = model.predict(10 * X_NEW, return_std=True, latent=latent)
    joint_mean, cov = model.predict(10 * X_NEW, return_cov=True, latent=latent)
    np.testing.assert_allclose(joint_mean, mean)
    assert cov.shape == (len(X_NEW), len(X_NEW), 2)
    np.testing.assert_allclose(np.sqrt(np.einsum("iip->ip", cov)), std, rtol=1e-9)


def test_one_expert_is_the_exact_gp() -> None:
    gp = GaussianProcessRegressor(KERNEL, alpha=1e-300, optimizer=None).fit(X, Y)
    mean, cov = gp.predict(X_NEW, return_cov=True)
    ours = MODELS["exact"].predict(X_NEW, return_cov=True)
    np.testing.assert_allclose(ours[0], mean, atol=1e-9)
    np.testing.assert_allclose(ours[1], cov, atol=1e-9)


def test_kernels_without_a_fast_form() -> None:
    kernel = KERNEL + DotProduct(0.5)
    model = fixed(X, Y, "exact", kernel=kernel)
    _, cov = (
        GaussianProcessRegressor(kernel, alpha=1e-300, optimizer=None)
        .fit(X, Y)
        .predict(X_NEW, return_cov=True)
    )
    np.testing.assert_allclose(model.predict(X_NEW, return_cov=True)[1], cov, atol=1e-8)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), setup=st.sampled_from(list(SETUPS)), latent=st.booleans())
def test_covariances_are_symmetric_semidefinite_and_do_not_depend_on_order(
    seed: int, setup: str, latent: bool
) -> None:
    rng = np.random.default_rng(seed)
    queries = rng.uniform(-0.3, 1.3, size=(rng.integers(1, 12), 2))
    _, cov = MODELS[setup].predict(queries, return_cov=True, latent=latent)
    np.testing.assert_array_equal(cov, cov.T)
    assert np.linalg.eigvalsh(cov).min() > -1e-12
    order = rng.permutation(len(queries))
    _, other = MODELS[setup].predict(queries[order], return_cov=True, latent=latent)
    np.testing.assert_allclose(other, cov[np.ix_(order, order)], atol=1e-12)


@pytest.mark.parametrize("setup", SETUPS)
def test_blocks_and_threads_do_not_matter(setup: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, expected = MODELS[setup].predict(X_NEW, return_cov=True)
    monkeypatch.setattr(module, "_BLOCK", 7)
    monkeypatch.setattr(module, "_DENSE", 2.0)
    two = fixed(X, Y, setup, n_jobs=2)
    np.testing.assert_allclose(two.predict(X_NEW, return_cov=True)[1], expected, atol=1e-12)


@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("setup", SETUPS)
def test_sums_are_those_of_the_matrix(setup: str, latent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.random.default_rng(1).normal(size=len(X_NEW))
    model = fixed(X, 50 + 3 * Y, setup, standardize=True)
    mean, cov = model.predict(X_NEW, return_cov=True, latent=latent)
    total = model.predict_sum(X_NEW, a, latent=latent)
    assert total.mean == pytest.approx(a @ mean)
    assert total.std == pytest.approx(np.sqrt(a @ cov @ a), rel=1e-5)
    monkeypatch.setattr(module, "most_entries", lambda _: 10**9)  # 16 queries at a time
    assert model.predict_sum(X_NEW[:5]).mean == pytest.approx(mean[:5].sum())
    assert model.predict_sum(np.tile(X_NEW, (4, 1)), np.tile(a, 4), latent=True).std == pytest.approx(
        4 * model.predict_sum(X_NEW, a, latent=True).std, rel=1e-5
    )


def test_sums_of_several_outputs() -> None:
    model = fixed(X, np.column_stack([Y, 5 * Y]), "both", aggregation=NPAE(disagreement=2.0, local_noise=1.0))
    mean, cov = model.predict(X_NEW, return_cov=True)
    total = model.predict_sum(X_NEW)
    np.testing.assert_allclose(total.mean, mean.sum(axis=0))
    np.testing.assert_allclose(total.std, np.sqrt(cov.sum(axis=(0, 1))), rtol=1e-5)


def test_more_queries_than_fit_the_budget_are_refused() -> None:
    model = fixed(X, Y, "own", memory_budget="1MB")
    with pytest.raises(MemoryBudgetError, match=r"at most 1\d\d queries fit.*predict_sum"):
        model.predict(np.zeros((400, 2)), return_cov=True)
    assert model.predict(np.zeros((100, 2)), return_cov=True)[1].shape == (100, 100)
    assert model.predict_sum(np.zeros((400, 2))).std > 0


def test_bad_input() -> None:
    model = MODELS["own"]
    with pytest.raises(RuntimeError, match="return_std and return_cov"):
        model.predict(X_NEW, return_std=True, return_cov=True)
    for weights, message in (([1.0, 2.0], r"9 rows of X, got shape \(2,\)"), ([np.nan] * 9, "finite")):
        with pytest.raises(ValueError, match=message):
            model.predict_sum(X_NEW, weights)
    with pytest.raises(TypeError, match="weights must be numbers, got"):
        model.predict_sum(X_NEW, ["one"] * 9)
    for rule in ("poe", "gpoe", "bcm", "rbcm", "grbcm"):
        other = fixed(X, Y, "experts", aggregation=rule)
        with pytest.raises(ValueError, match=f"return_cov=True is not available for aggregation='{rule}'"):
            other.predict(X_NEW, return_cov=True)
        with pytest.raises(ValueError, match="predict_sum is not available"):
            other.predict_sum(X_NEW)


def test_no_queries() -> None:
    _, cov = MODELS["own"].predict(np.empty((0, 2)), return_cov=True)
    assert cov.shape == (0, 0)
    total = MODELS["own"].predict_sum(np.empty((0, 2)))
    assert type(total.mean) is type(total.std) is float
    assert total == (0.0, 0.0)


def test_far_from_the_data_the_prior_is_left() -> None:
    far = np.array([[1e3, 0.0], [1e3, 0.1], [-1e3, 0.0]])
    for model in MODELS.values():
        _, cov = model.predict(far, return_cov=True, latent=True)
        prior = KERNEL.k1(far)
        np.testing.assert_allclose(cov, prior, atol=1e-9)


def test_identical_noise_free_queries() -> None:
    model = fixed(X, Y, "own", kernel=KERNEL.k1 + WhiteKernel(1e-8))
    _, cov = model.predict(np.repeat(X_NEW[:2], 3, axis=0), return_cov=True, latent=True)
    assert np.linalg.eigvalsh(cov).min() > -1e-12

"""NPAE with a matrix R that is regular, nearly singular, singular, or zero."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.aggregation import NPAE
from gpexperts.experts.moments import ExpertMoments
from tests.contracts import random_moments, rows_of
from tests.problems import Problem, gp


def with_covariance(R: np.ndarray, prior: float, mean: np.ndarray | None = None) -> ExpertMoments:
    """Moments of queries whose experts' means have the covariance R (n, K, K)."""
    n, K = R.shape[:2]
    r = np.einsum("nkk->nk", R)
    mean = np.ones((n, K)) if mean is None else mean
    var = np.maximum(prior - r, 1e-15 * prior)
    return ExpertMoments(np.tile(np.arange(K), (n, 1)), mean[:, :, None], var, np.full(n, prior), R)


@pytest.mark.parametrize("seed", range(5))
def test_against_the_formula(seed: int) -> None:
    m = random_moments(seed)
    p = NPAE(nugget=0.0).combine(m)
    for q in range(len(m.index)):
        r = np.diag(m.covariance[q])
        weight = np.linalg.inv(m.covariance[q]) @ r
        np.testing.assert_allclose(p.weight[q], weight, rtol=1e-6)
        np.testing.assert_allclose(p.mean[q], weight @ m.mean[q], rtol=1e-6)
        np.testing.assert_allclose(p.var[q], m.prior_var[q] - weight @ r, rtol=1e-6)
    assert p.repaired == 0


@pytest.mark.parametrize("nugget", [1e-8, 1e-4])
def test_the_nugget_is_relative_to_the_prior(nugget: float) -> None:
    m = random_moments(1)
    p = NPAE(nugget).combine(m)
    for q in range(len(m.index)):
        system = m.covariance[q] + nugget * m.prior_var[q] * np.eye(4)
        weight = np.linalg.solve(system, np.diag(m.covariance[q]))
        np.testing.assert_allclose(p.weight[q], weight, rtol=1e-8)


@pytest.mark.parametrize("nugget", [0.0, 1e-8])
def test_two_identical_experts_share_the_weight(nugget: float) -> None:
    m = with_covariance(np.full((1, 2, 2), 0.7), 1.0, np.array([[2.0, 2.0]]))
    p = NPAE(nugget).combine(m)
    np.testing.assert_allclose(p.mean[0, 0], 2.0, rtol=1e-6)
    np.testing.assert_allclose(p.var[0], 0.3, rtol=1e-6)
    np.testing.assert_allclose(p.weight[0], [0.5, 0.5], rtol=1e-6)


def test_a_singular_query_does_not_change_other_queries() -> None:
    rng = np.random.default_rng(0)
    B = rng.normal(size=(3, 3, 9))
    R = np.einsum("nij,nkj->nik", B, B)
    R /= 6.0 * np.trace(R, axis1=1, axis2=2)[:, None, None]
    R[1] = 0.25
    m = with_covariance(R, 1.0)
    p = NPAE(nugget=0.0).combine(m)
    assert p.repaired == 1
    for q in (0, 2):
        alone = NPAE(nugget=0.0).combine(rows_of(m, slice(q, q + 1)))
        np.testing.assert_array_equal(p.mean[q], alone.mean[0])
    np.testing.assert_allclose(p.var[1], 0.75, rtol=1e-9)


@given(
    rank=st.integers(1, 4),
    wobble=st.sampled_from([0.0, 1e-16, 1e-14, 1e-12, 1e-9]),
    spread=st.floats(0.0, 12.0),
    full=st.floats(1e-6, 1.0),
    nugget=st.sampled_from([0.0, 1e-8]),
    seed=st.integers(0, 10_000),
)
def test_any_covariance_gives_a_variance_between_zero_and_the_prior(
    rank: int, wobble: float, spread: float, full: float, nugget: float, seed: int
) -> None:
    """R of any rank, with rounding errors, and experts that explain from 1e-12 to all of the prior."""
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(5, 4, rank))
    R = np.einsum("nij,nkj->nik", B, B)
    scale = np.sqrt(np.einsum("nkk->nk", R))
    target = np.sqrt(full * 10.0 ** -rng.uniform(0.0, spread, size=(5, 4)))
    R *= (target / scale)[:, :, None] * (target / scale)[:, None, :]
    noise = wobble * rng.normal(size=R.shape)
    R += noise + noise.transpose(0, 2, 1)
    p = NPAE(nugget).combine(with_covariance(R, 1.0))
    assert (p.var > 0).all()
    assert (p.var <= 1.0).all()
    assert np.isfinite(p.mean).all()
    assert np.isfinite(p.weight).all()


def test_the_best_expert_is_used_if_r_explains_more_than_the_prior() -> None:
    R = np.array([[[0.9, 0.0], [0.0, 0.8]]])  # not a valid covariance: it explains more than s²
    p = NPAE().combine(with_covariance(R, 1.0, np.array([[3.0, 5.0]])))
    np.testing.assert_allclose(p.mean[0, 0], 3.0)
    np.testing.assert_allclose(p.var[0], 0.1)
    assert p.repaired == 1


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e308])
def test_overflow_affects_its_own_query_only(value: float) -> None:
    """A forged model file can contain such values; LAPACK raises `LinAlgError` for them."""
    R = np.tile(0.1 + np.diag([0.4, 0.3, 0.2]), (3, 1, 1))
    alone = NPAE().combine(with_covariance(R, 1.0))
    R[1, 0, 2] = R[1, 2, 0] = value
    with np.errstate(all="ignore"):
        p = NPAE(disagreement=4.0).combine(with_covariance(R, 1.0))
    assert p.repaired == 1
    assert np.isnan([p.mean[1, 0], p.var[1]]).all()
    for q in (0, 2):
        np.testing.assert_array_equal(p.mean[q], alone.mean[q])
        np.testing.assert_array_equal(p.var[q], alone.var[q])


def test_uninformative_experts_are_left_out() -> None:
    R = np.zeros((1, 3, 3))
    R[0, :2, :2] = [[0.5, 0.2], [0.2, 0.4]]
    m = with_covariance(R, 1.0, np.array([[1.0, 2.0, 1e9]]))
    p = NPAE(nugget=0.0).combine(m)
    weight = np.linalg.solve(R[0, :2, :2], [0.5, 0.4])
    np.testing.assert_allclose(p.weight[0], [*weight, 0.0], rtol=1e-12)
    np.testing.assert_allclose(p.mean[0, 0], weight @ [1.0, 2.0], rtol=1e-12)


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("r", [0.0, 1e-310])
def test_without_informative_experts_the_prior_is_returned(K: int, r: float) -> None:
    m = with_covariance(np.tile(r * np.eye(K), (2, 1, 1)), 3.0)
    p = NPAE().combine(m)
    np.testing.assert_array_equal(p.mean, 0.0)
    np.testing.assert_array_equal(p.var, 3.0)
    assert p.repaired == 0


def test_the_nugget_limits_the_weight_of_a_far_expert() -> None:
    """Without a nugget it is a control variate with a huge weight."""
    near, far = 0.5, 1e-14
    R = np.array([[[near, 0.6 * np.sqrt(near * far)], [0.6 * np.sqrt(near * far), far]]])
    m = with_covariance(R, 1.0, np.array([[1.0, 1e-3]]))  # 10^4 of its standard deviations
    p = NPAE().combine(m)
    np.testing.assert_allclose(p.mean[0, 0], 1.0, atol=0.02)
    assert abs(NPAE(nugget=0.0).combine(m).mean[0, 0]) > 100


@pytest.mark.parametrize("nugget", [-1e-9, 1.0, np.nan])
def test_invalid_nugget_is_refused(nugget: float) -> None:
    with pytest.raises(ValueError, match=r"nugget must be a number in \[0, 1\)"):
        NPAE(nugget).combine(random_moments(0))


def test_one_row_per_expert_is_the_exact_gp(problem: Problem) -> None:
    """μ_i = q_i y_i with q_i = k(x_i, x*)/C_ii, and R_ij = q_i C_ij q_j."""
    signal, noise = problem.signal, problem.noise
    C = signal(problem.X) + noise * np.eye(len(problem.X))
    k = signal(problem.X_new, problem.X)
    q = k / np.diag(C)
    prior = signal.diag(problem.X_new)
    moments = ExpertMoments(
        index=np.tile(np.arange(len(C)), (len(k), 1)),
        mean=(q * problem.y)[:, :, None],
        var=prior[:, None] - q * k,
        prior_var=prior,
        covariance=q[:, :, None] * C * q[:, None, :],
    )
    p = NPAE(nugget=0.0).combine(moments)
    exact = gp(problem, np.arange(len(C)))
    np.testing.assert_allclose(p.mean[:, 0], exact.mean, atol=1e-6 * problem.scale)
    np.testing.assert_allclose(p.var, exact.var, atol=1e-6 * problem.scale**2)

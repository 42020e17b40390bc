"""The corrections of NPAE: 1 on average under the model, large where experts contradict each other or have
erred on rows of their own, and none where they know nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpexperts.aggregation import NPAE
from gpexperts.experts.moments import ExpertMoments


def moments_from_the_model(n: int, K: int, seed: int) -> ExpertMoments:
    """Draw the experts' means from their joint Gaussian: f and μ with Cov(μ, f) = r, Cov(μ) = R."""
    rng = np.random.default_rng(seed)
    # Experts as noisy averages of common factors; r_i = R_ii by scaling each to its own regression on f.
    factors = rng.standard_normal((K, 6))
    joint = np.vstack([rng.standard_normal((1, 6)), factors])
    C = joint @ joint.T + 0.3 * np.eye(K + 1)
    scale = C[0, 1:] / np.diagonal(C)[1:]
    R = C[1:, 1:] * scale[:, None] * scale
    prior = C[0, 0]
    mean = rng.multivariate_normal(np.zeros(K), R, size=n)[:, :, None]
    var = np.full((n, K), prior) - np.diagonal(R)
    index = np.tile(np.arange(K), (n, 1))
    return ExpertMoments(index, mean, var, np.full(n, prior), np.tile(R, (n, 1, 1)))


def correction(rule: NPAE, moments: ExpertMoments) -> np.ndarray:
    """What the variance is corrected by before that is raised to the share which the experts explain."""
    prediction = rule.combine(moments)
    assert prediction.widening is not None
    return prediction.widening ** (1.0 / (1.0 - prediction.var / moments.prior_var))[:, None]


def test_the_statistic_is_the_minimum_it_claims_to_be() -> None:
    moments = moments_from_the_model(5, 4, seed=0)
    nu = 3.0
    widening = correction(NPAE(nugget=0.0, widen=nu), moments)
    for q in range(5):
        R, mu = moments.covariance[q], moments.mean[q, :, 0]
        r = np.diagonal(R)
        inverse = np.linalg.inv(R)
        c = (r @ inverse @ mu) / (r @ inverse @ r)
        Q = (mu - c * r) @ inverse @ (mu - c * r)
        assert widening[q, 0] == pytest.approx((nu + Q) / (nu + 3))


def test_it_is_one_on_average_under_the_model() -> None:
    moments = moments_from_the_model(20_000, 5, seed=1)
    widening = correction(NPAE(nugget=0.0, widen=4.0), moments)
    # Q is χ² with 4 degrees of freedom: the mean of (4 + Q)/8 is 1, its standard deviation √8/8.
    assert widening.mean() == pytest.approx(1.0, abs=4 * np.sqrt(8) / 8 / np.sqrt(20_000))
    assert widening.std() == pytest.approx(np.sqrt(8) / 8, rel=0.05)


def test_a_lone_expert_is_never_widened() -> None:
    moments = moments_from_the_model(4, 1, seed=2)
    np.testing.assert_array_equal(NPAE(widen=2.0).combine(moments).widening, 1.0)


def test_contradiction_widens_without_limit() -> None:
    moments = moments_from_the_model(1, 3, seed=3)
    moments.mean[0, 0] += 1e3
    assert NPAE(widen=8.0).combine(moments).widening[0, 0] > 100


def test_a_scale_multiplies_whatever_the_widening() -> None:
    moments = moments_from_the_model(50, 4, seed=3)
    widened = correction(NPAE(widen=2.0), moments)
    np.testing.assert_allclose(correction(NPAE(widen=2.0, scale=1.5), moments), 1.5 * widened)
    np.testing.assert_allclose(correction(NPAE(widen=None, scale=1.5), moments), 1.5)


def test_surprise_is_averaged_by_the_experts_weights() -> None:
    moments = moments_from_the_model(20, 3, seed=4)
    surprise = np.random.default_rng(0).uniform(0.1, 5.0, size=(20, 3, 1))
    moments = replace(moments, surprise=surprise)
    weight = np.abs(NPAE(widen=None).combine(moments).weight)
    expected = (weight * surprise[:, :, 0]).sum(axis=1) / weight.sum(axis=1)
    np.testing.assert_allclose(correction(NPAE(widen=None, surprise=1.0), moments)[:, 0], expected)
    half = correction(NPAE(widen=None, surprise=0.5), moments)[:, 0]
    np.testing.assert_allclose(half, np.sqrt(expected))


def test_no_correction_touches_the_function_itself() -> None:
    moments = replace(moments_from_the_model(20, 3, seed=4), surprise=np.full((20, 3, 1), 3.0))
    plain = NPAE(widen=None).combine(moments)
    corrected = NPAE(widen=2.0, scale=2.0, surprise=1.0).combine(moments)
    np.testing.assert_array_equal(corrected.var, plain.var)
    np.testing.assert_array_equal(corrected.mean, plain.mean)


def test_where_experts_know_nothing_the_prior_speaks() -> None:
    moments = moments_from_the_model(4, 2, seed=5)
    silent = replace(
        moments,
        covariance=1e-14 * moments.covariance,
        mean=1e-7 * moments.mean,
        surprise=np.full((4, 2, 1), 1e-3),
    )
    prediction = NPAE(nugget=0.0, widen=1.0, scale=0.4, surprise=1.0).combine(silent)
    np.testing.assert_allclose(prediction.observation_var(0.1)[:, 0], moments.prior_var + 0.1, rtol=1e-10)


@pytest.mark.parametrize("surprise", [-0.1, 1.5, np.nan])
def test_a_wrong_surprise_is_named(surprise: float) -> None:
    with pytest.raises(ValueError, match="surprise must be a number from 0 to 1"):
        NPAE(surprise=surprise).combine(moments_from_the_model(1, 2, seed=0))


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_a_wrong_scale_is_named(scale: float) -> None:
    with pytest.raises(ValueError, match="scale must be a positive number"):
        NPAE(scale=scale).combine(moments_from_the_model(1, 2, seed=0))


@pytest.mark.parametrize("widen", [0.0, -1.0, "yes"])
def test_a_wrong_setting_is_named(widen) -> None:
    with pytest.raises(ValueError, match=r"widen must be None, 'auto' or a positive number"):
        NPAE(widen=widen).combine(moments_from_the_model(1, 2, seed=0))

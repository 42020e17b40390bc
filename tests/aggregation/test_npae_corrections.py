"""NPAE's corrections of the variance of an observation: disagreement, scale and local noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpexperts.aggregation import NPAE
from gpexperts.experts.moments import ExpertMoments


def moments_from_the_model(n: int, K: int, seed: int) -> ExpertMoments:
    """Draw the experts' means from their joint Gaussian: f and μ with Cov(μ, f) = r, Cov(μ) = R."""
    rng = np.random.default_rng(seed)
    # Experts are noisy averages of common factors, each scaled by its regression on f, so that r_i = R_ii.
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


def correction(aggregator: NPAE, moments: ExpertMoments) -> np.ndarray:
    """The correction before it is raised to the share of the prior variance that the experts explain."""
    prediction = aggregator.combine(moments)
    assert prediction.inflation is not None
    return prediction.inflation ** (1.0 / (1.0 - prediction.var / moments.prior_var))[:, None]


def test_disagreement_follows_the_formula_of_q() -> None:
    moments = moments_from_the_model(5, 4, seed=0)
    nu = 3.0
    factor = correction(NPAE(nugget=0.0, disagreement=nu), moments)
    for q in range(5):
        R, mu = moments.covariance[q], moments.mean[q, :, 0]
        r = np.diagonal(R)
        inverse = np.linalg.inv(R)
        c = (r @ inverse @ mu) / (r @ inverse @ r)
        Q = (mu - c * r) @ inverse @ (mu - c * r)
        assert factor[q, 0] == pytest.approx((nu + Q) / (nu + 3))


def test_disagreement_is_one_on_average_under_the_model() -> None:
    moments = moments_from_the_model(20_000, 5, seed=1)
    factor = correction(NPAE(nugget=0.0, disagreement=4.0), moments)
    # Q is χ² with 4 degrees of freedom: the mean of (4 + Q)/8 is 1, its standard deviation √8/8.
    assert factor.mean() == pytest.approx(1.0, abs=4 * np.sqrt(8) / 8 / np.sqrt(20_000))
    assert factor.std() == pytest.approx(np.sqrt(8) / 8, rel=0.05)


def test_a_single_expert_has_no_disagreement() -> None:
    moments = moments_from_the_model(4, 1, seed=2)
    np.testing.assert_array_equal(NPAE(disagreement=2.0).combine(moments).inflation, 1.0)


def test_large_disagreement_inflates_the_variance() -> None:
    moments = moments_from_the_model(1, 3, seed=3)
    moments.mean[0, 0] += 1e3
    assert NPAE(disagreement=8.0).combine(moments).inflation[0, 0] > 100


def test_scale_multiplies_the_disagreement() -> None:
    moments = moments_from_the_model(50, 4, seed=3)
    disagreement = correction(NPAE(disagreement=2.0), moments)
    np.testing.assert_allclose(correction(NPAE(disagreement=2.0, scale=1.5), moments), 1.5 * disagreement)
    np.testing.assert_allclose(correction(NPAE(disagreement=None, scale=1.5), moments), 1.5)


def test_local_noise_is_averaged_with_the_experts_weights() -> None:
    moments = moments_from_the_model(20, 3, seed=4)
    local_noise = np.random.default_rng(0).uniform(0.1, 5.0, size=(20, 3, 1))
    moments = replace(moments, local_noise=local_noise)
    weight = np.abs(NPAE(disagreement=None).combine(moments).weight)
    expected = (weight * local_noise[:, :, 0]).sum(axis=1) / weight.sum(axis=1)
    np.testing.assert_allclose(correction(NPAE(disagreement=None, local_noise=1.0), moments)[:, 0], expected)
    half = correction(NPAE(disagreement=None, local_noise=0.5), moments)[:, 0]
    np.testing.assert_allclose(half, np.sqrt(expected))


def test_the_latent_prediction_is_not_corrected() -> None:
    moments = replace(moments_from_the_model(20, 3, seed=4), local_noise=np.full((20, 3, 1), 3.0))
    plain = NPAE(disagreement=None).combine(moments)
    corrected = NPAE(disagreement=2.0, scale=2.0, local_noise=1.0).combine(moments)
    np.testing.assert_array_equal(corrected.var, plain.var)
    np.testing.assert_array_equal(corrected.mean, plain.mean)


def test_uninformative_experts_correct_nothing() -> None:
    moments = moments_from_the_model(4, 2, seed=5)
    far = replace(
        moments,
        covariance=1e-14 * moments.covariance,
        mean=1e-7 * moments.mean,
        local_noise=np.full((4, 2, 1), 1e-3),
    )
    prediction = NPAE(nugget=0.0, disagreement=1.0, scale=0.4, local_noise=1.0).combine(far)
    np.testing.assert_allclose(prediction.observation_var(0.1)[:, 0], moments.prior_var + 0.1, rtol=1e-10)


@pytest.mark.parametrize("local_noise", [-0.1, 1.5, np.nan])
def test_invalid_local_noise_is_refused(local_noise: float) -> None:
    with pytest.raises(ValueError, match="local_noise must be a number from 0 to 1"):
        NPAE(local_noise=local_noise).combine(moments_from_the_model(1, 2, seed=0))


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_invalid_scale_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="scale must be a positive number"):
        NPAE(scale=scale).combine(moments_from_the_model(1, 2, seed=0))


@pytest.mark.parametrize("disagreement", [0.0, -1.0, "yes"])
def test_invalid_disagreement_is_refused(disagreement) -> None:
    with pytest.raises(ValueError, match=r"disagreement must be None, 'auto' or a positive number"):
        NPAE(disagreement=disagreement).combine(moments_from_the_model(1, 2, seed=0))

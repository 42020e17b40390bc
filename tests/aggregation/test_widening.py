"""The widening of NPAE: 1 on average under the model, large where experts contradict each other."""

from __future__ import annotations

import numpy as np
import pytest

from gpexperts.aggregation import NPAE
from gpexperts.moments import ExpertMoments


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


def test_the_statistic_is_the_minimum_it_claims_to_be() -> None:
    moments = moments_from_the_model(5, 4, seed=0)
    nu = 3.0
    widening = NPAE(nugget=0.0, widen=nu).combine(moments).widening
    assert widening is not None
    for q in range(5):
        R, mu = moments.covariance[q], moments.mean[q, :, 0]
        r = np.diagonal(R)
        inverse = np.linalg.inv(R)
        c = (r @ inverse @ mu) / (r @ inverse @ r)
        Q = (mu - c * r) @ inverse @ (mu - c * r)
        assert widening[q, 0] == pytest.approx((nu + Q) / (nu + 3))


def test_it_is_one_on_average_under_the_model() -> None:
    moments = moments_from_the_model(20_000, 5, seed=1)
    widening = NPAE(nugget=0.0, widen=4.0).combine(moments).widening
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
    widened = NPAE(widen=2.0).combine(moments)
    both, scaled = NPAE(widen=2.0, scale=1.5).combine(moments), NPAE(widen=None, scale=1.5).combine(moments)
    np.testing.assert_allclose(both.widening, 1.5 * widened.widening)
    np.testing.assert_allclose(scaled.observation_var(0.1), 1.5 * (scaled.var[:, None] + 0.1))
    np.testing.assert_array_equal(both.var, widened.var)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_a_wrong_scale_is_named(scale: float) -> None:
    with pytest.raises(ValueError, match="scale must be a positive number"):
        NPAE(scale=scale).combine(moments_from_the_model(1, 2, seed=0))


@pytest.mark.parametrize("widen", [0.0, -1.0, "yes"])
def test_a_wrong_setting_is_named(widen) -> None:
    with pytest.raises(ValueError, match=r"widen must be None, 'auto' or a positive number"):
        NPAE(widen=widen).combine(moments_from_the_model(1, 2, seed=0))

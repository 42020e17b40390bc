"""PoE, GPoE, BCM and RBCM against naive loops and values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.aggregation import AGGREGATORS, BCM, RBCM, GPoE, PoE
from gpexperts.experts.moments import ExpertMoments
from tests.contracts import random_moments


def one_query(mean, var, prior) -> ExpertMoments:
    """Moments of one query and one output."""
    mean, var = np.array(mean, dtype=float), np.array(var, dtype=float)
    return ExpertMoments(np.arange(len(var))[None], mean[None, :, None], var[None], np.array([prior], float))


@pytest.mark.parametrize(("aggregator", "var"), [(PoE(), 1 / 4), (BCM(), 1 / 3), (GPoE(), 1 / 2)])
def test_two_experts_at_half_the_prior_by_hand(aggregator, var: float) -> None:
    p = aggregator.combine(one_query([1.0, 3.0], [0.5, 0.5], 1.0))
    assert p.var[0] == pytest.approx(var, rel=1e-14)
    total = 2.0 if isinstance(aggregator, GPoE) else 8.0 * var  # v Σ β μ_i / v_i = v · β (2 + 6)
    assert p.mean[0, 0] == pytest.approx(total, rel=1e-14)


def test_rbcm_by_hand() -> None:
    p = RBCM().combine(one_query([1.0, 3.0], [0.5, 0.5], 1.0))
    beta = 0.5 * np.log(2.0)
    assert p.var[0] == pytest.approx(1 / (4 * beta + 1 - 2 * beta), rel=1e-14)
    assert p.mean[0, 0] == pytest.approx(8 * beta / (1 + 2 * beta), rel=1e-14)


@pytest.mark.parametrize("name", ["poe", "gpoe", "bcm", "rbcm"])
@pytest.mark.parametrize("seed", range(5))
def test_against_a_naive_loop(name: str, seed: int) -> None:
    m = random_moments(seed)
    n, K = m.index.shape
    prediction = AGGREGATORS[name]().combine(m)
    for q in range(n):
        s2, precision, total, betas = m.prior_var[q], 0.0, np.zeros(2), 0.0
        for k in range(K):
            beta = {"gpoe": 1 / K, "rbcm": 0.5 * (np.log(s2) - np.log(m.var[q, k]))}.get(name, 1.0)
            precision += beta / m.var[q, k]
            total += beta * m.mean[q, k] / m.var[q, k]
            betas += beta
        if name in ("bcm", "rbcm"):
            precision += (1 - betas) / s2
        np.testing.assert_allclose(prediction.var[q], 1 / precision, rtol=1e-10)
        np.testing.assert_allclose(prediction.mean[q], total / precision, rtol=1e-10)


@given(
    prior=st.floats(1e-6, 1e6),
    shares=st.lists(st.floats(1e-15, 1.0), min_size=1, max_size=8),
    scale=st.floats(-1e3, 1e3),
)
def test_every_variance_is_positive_and_at_most_the_prior(prior: float, shares: list[float], scale: float):
    m = one_query(np.full(len(shares), scale), np.array(shares) * prior, prior)
    for aggregator in (PoE(), GPoE(), BCM(), RBCM()):
        p = aggregator.combine(m)
        assert 0 < p.var[0] <= prior * (1 + 1e-12)
        assert np.isfinite(p.mean).all()

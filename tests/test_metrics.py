"""Scores against scipy.stats and against numerical integration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from gpexperts import metrics

SCORES = [metrics.nlpd, metrics.crps, metrics.coverage]


@pytest.fixture
def predictions():
    rng = np.random.default_rng(0)
    y = rng.normal(2.0, 3.0, size=50)
    return y, y + rng.normal(size=50), rng.uniform(0.3, 2.0, size=50), rng.normal(1.0, 4.0, size=80)


def test_smse(predictions) -> None:
    y, mean, _, _ = predictions
    assert metrics.smse(y, mean) == pytest.approx(np.mean((y - mean) ** 2) / np.var(y), rel=1e-14)
    assert metrics.smse(y, np.full(50, y.mean())) == pytest.approx(1.0)
    assert metrics.smse(y, y) == 0.0


def test_nlpd_and_msll_against_scipy(predictions) -> None:
    y, mean, std, train = predictions
    loss = -stats.norm(mean, std).logpdf(y)
    trivial = -stats.norm(train.mean(), train.std()).logpdf(y)
    assert metrics.nlpd(y, mean, std) == pytest.approx(loss.mean(), rel=1e-12)
    assert metrics.msll(y, mean, std, train) == pytest.approx((loss - trivial).mean(), rel=1e-12)
    assert metrics.msll(y, np.full(50, train.mean()), np.full(50, train.std()), train) == pytest.approx(0.0)


def test_crps_is_the_integral_that_defines_it(predictions) -> None:
    y, mean, std, _ = (a[:6] for a in predictions)
    expected = []
    for t, m, s in zip(y, mean, std, strict=True):
        below = quad(lambda x, m=m, s=s: stats.norm.cdf(x, m, s) ** 2, m - 12 * s, t)[0]
        above = quad(lambda x, m=m, s=s: stats.norm.sf(x, m, s) ** 2, t, m + 12 * s)[0]
        expected.append(below + above)
    assert metrics.crps(y, mean, std) == pytest.approx(np.mean(expected), rel=1e-7)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_coverage_of_calibrated_intervals_is_their_level(level: float) -> None:
    y = np.random.default_rng(0).normal(size=40_000)
    assert metrics.coverage(y, np.zeros_like(y), np.ones_like(y), level) == pytest.approx(level, abs=0.008)
    low, high = stats.norm.interval(level)
    assert metrics.coverage(y, 0 * y, 0 * y + 1, level) == np.mean((y >= low) & (y <= high))


def test_a_calibrated_prediction_has_msll_of_half_the_log_smse() -> None:
    rng = np.random.default_rng(0)
    f, noise = rng.normal(size=100_000), 0.1
    y = f + noise * rng.normal(size=f.shape)
    smse = metrics.smse(y, f)
    assert metrics.msll(y, f, np.full_like(f, noise), y) == pytest.approx(0.5 * np.log(smse), abs=0.01)


def test_outputs_are_standardised_one_by_one(predictions) -> None:
    y, mean, std, train = predictions
    Y, Mean, Std, Train = (np.stack([a, 1000 * a], axis=1) for a in (y, mean, std, train))
    assert metrics.smse(Y, Mean) == pytest.approx(metrics.smse(y, mean))
    assert metrics.msll(Y, Mean, Std, Train) == pytest.approx(metrics.msll(y, mean, std, train))
    assert metrics.coverage(Y, Mean, Std) == metrics.coverage(y, mean, std)


@pytest.mark.parametrize("score", SCORES)
def test_wrong_arrays_are_refused(score, predictions) -> None:
    y, mean, std, _ = predictions
    with pytest.raises(ValueError, match="std must be positive"):
        score(y, mean, 0 * std)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        score(y, mean[:-1], std)
    with pytest.raises(ValueError, match="same shape"):
        score(y, mean[:, None], std)
    with pytest.raises(ValueError, match="mean holds NaN or infinity"):
        score(y, mean + np.nan, std)
    with pytest.raises(ValueError, match="nothing to score"):
        score([], [], [])


def test_undefined_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="smse is not defined"):
        metrics.smse([1.0, 1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="msll is not defined"):
        metrics.msll([1.0, 2.0], [1.0, 2.0], [1.0, 1.0], [3.0, 3.0])
    with pytest.raises(ValueError, match=r"between 0 and 1, got 95\. For 95 %, give 0\.95"):
        metrics.coverage([1.0], [1.0], [1.0], level=95)

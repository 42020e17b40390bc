"""The choice of a trend: by density and error, and only where the gain is clear."""

from __future__ import annotations

import numpy as np
import pytest

from gpexperts.fit_trend import cannot_win
from gpexperts.training.compare import WORTHWHILE, Scored, best_of
from gpexperts.trend import CrossFitted
from gpexperts.trend.fitted import FittedTrend

RNG = np.random.default_rng(0)
BASE = RNG.standard_normal(400)
ERROR = RNG.uniform(0.5, 1.5, (400, 1))


def scored(gain: float, factor: float = 1.0, spread: float = 0.0) -> Scored:
    """Density higher by `gain` (with this spread over rows), squared errors times `factor`."""
    differs = spread * np.resize([-1.0, 1.0], 400)
    return Scored(BASE + gain + differs, np.ones(400), np.zeros((400, 1)), factor * ERROR)


@pytest.mark.parametrize(
    ("gain", "factor", "by_density", "by_both"),
    [
        (0.1, 1.0, "trend", "trend"),
        (-0.02, 0.8, "none", "trend"),  # a little less dense, and much more exact
        (0.02, 1.2, "trend", "none"),  # a little denser, and much less exact
        (WORTHWHILE / 2, 1.0, "none", "none"),
        (-0.1, 1.1, "none", "none"),
    ],
)
def test_a_trend_is_chosen_by_density_and_error(
    gain: float, factor: float, by_density: str, by_both: str
) -> None:
    scores = {"none": scored(0.0), "trend": scored(gain, factor)}
    assert best_of(scores) == by_density
    assert best_of(scores, by_error=True) == by_both


def test_a_gain_within_half_its_standard_error_is_no_gain() -> None:
    """The spread of 1 over 400 rows is a standard error of 0.05."""
    assert best_of({"none": scored(0.0), "trend": scored(0.02, spread=1.0)}) == "none"
    assert best_of({"none": scored(0.0), "trend": scored(0.04, spread=1.0)}) == "trend"


def test_without_none_the_best_is_chosen_however_small_its_gain() -> None:
    scores = {"mean": scored(0.0), "input": scored(0.001), "both": scored(-0.001)}
    assert best_of(scores) == "input"
    scores = {"mean": scored(0.0), "input": scored(0.001, 1.01), "both": scored(-0.001, 0.99)}
    assert best_of(scores, by_error=True) == "both"


@pytest.mark.parametrize(("mean", "given_up"), [(-0.1, True), (0.001, False)])
def test_both_roles_are_scored_only_if_one_of_them_gains(mean: float, given_up: bool) -> None:
    trend = CrossFitted(FittedTrend("mean", "boosting", ()), np.arange(3), np.zeros((3, 1)), 0.5)
    candidates = {role: trend.with_role(role) for role in ("mean", "input", "both")}
    scores = {"none": scored(0.0)}
    assert not any(cannot_win(name, candidates, scores) for name in candidates)  # nothing is known yet
    scores |= {"mean": scored(mean), "input": scored(-0.1)}
    assert cannot_win("both", candidates, scores) == given_up
    assert not cannot_win("input", candidates, scores)
    del scores["none"]
    assert not cannot_win("both", candidates, scores)  # the user wants a trend

"""The choice of a trend: by density and error, and only where the gain is clear."""

from __future__ import annotations

import numpy as np
import pytest

from gpexperts.preprocess import WORTHWHILE, _best
from gpexperts.training.compare import Scored

RNG = np.random.default_rng(0)
BASE = RNG.standard_normal(400)
ERROR = RNG.uniform(0.5, 1.5, (400, 1))


def scored(gain: float, factor: float = 1.0, spread: float = 0.0) -> Scored:
    """Density higher by `gain` (with this spread over rows), squared errors times `factor`."""
    differs = spread * np.resize([-1.0, 1.0], 400)
    return Scored(BASE + gain + differs, np.ones(400), np.zeros((400, 1)), factor * ERROR, 0.5)


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
    assert _best(scores) == by_density
    assert _best(scores, by_error=True) == by_both


def test_a_gain_within_its_standard_error_is_no_gain() -> None:
    """The spread of 1 over 400 rows is a standard error of 0.05."""
    assert _best({"none": scored(0.0), "trend": scored(0.04, spread=1.0)}) == "none"
    assert _best({"none": scored(0.0), "trend": scored(0.07, spread=1.0)}) == "trend"


def test_without_none_the_best_is_chosen_however_small_its_gain() -> None:
    scores = {"mean": scored(0.0), "input": scored(0.001), "both": scored(-0.001)}
    assert _best(scores) == "input"
    scores = {"mean": scored(0.0), "input": scored(0.001, 1.01), "both": scored(-0.001, 0.99)}
    assert _best(scores, by_error=True) == "both"

"""Intervals of draws from the prior have nominal coverage for NPAE and single experts, in every zone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chi2

import calibration_page
from calibration import ALL, FEW, LEVELS, ONE, RULES, ZONES, prior_study, summary

EXACT = [("npae", ALL), ("npae", FEW), ("npae", ONE), ("poe", ONE), ("gpoe", ONE), ("bcm", ONE)]
"""The variance of NPAE is exact for any selected experts; a single expert is a GP."""
BAND = np.array([1e-5, 1 - 1e-5])
"""About 400 numbers are checked: with exact variances, all are inside in 99 of 100 studies."""


def narrow(z: np.ndarray) -> dict[str, int]:
    """1 for intervals that are significantly too narrow, −1 for too wide ones, else 0."""
    found, n = summary(z), len(z)
    verdicts = {}
    for level in LEVELS:
        low, high = binom.ppf(BAND, n, level)
        inside = found["coverage"][f"{level:g}"] * n
        verdicts[f"{level:g}"] = int(inside < low) - int(inside > high)
    low, high = chi2.ppf(BAND, n)
    square = found["squared_z"] * n
    return verdicts | {"squared z": int(square > high) - int(square < low)}


def check_coverage(designs: int, draws: int, seed: int) -> None:
    for key, z in prior_study(designs, draws, EXACT, seed).items():
        found = summary(z)
        assert not any(narrow(z).values()), (key, found)
        expected = len(z) / len(found["pit"])
        unevenness = np.sum((np.array(found["pit"]) - expected) ** 2 / expected)
        assert unevenness < chi2.ppf(BAND[1], len(found["pit"]) - 1), (key, found)


def overconfident(designs: int, draws: int, rules: list[str], seed: int) -> dict[tuple[str, str], int]:
    """(rule, zone) ↦ 1 if the latent std is too small, −1 if it is too large, else 0."""
    found = prior_study(designs, draws, [(rule, ALL) for rule in rules], seed)
    return {
        (rule, zone): narrow(z)["squared z"] for (rule, _, zone, of), z in found.items() if of == "latent"
    }


def test_npae_and_single_experts_are_calibrated_in_every_zone() -> None:
    check_coverage(designs=8, draws=60, seed=1)


def test_other_rules_are_not_calibrated() -> None:
    """The test above can fail."""
    found = overconfident(5, 100, ["poe", "gpoe", "bcm", "rbcm"], seed=1)
    assert found["poe", "outside"] == found["bcm", "random parts"] == found["rbcm", "random parts"] == 1
    assert found["rbcm", "inside"] == 1
    assert found["gpoe", "inside"] == found["gpoe", "border"] == found["gpoe", "random parts"] == -1


def test_page_agrees_with_results() -> None:
    text = calibration_page.PAGE.read_text(encoding="utf-8")
    for lines in calibration_page.tables().values():
        assert lines in text


@pytest.mark.slow
def test_npae_and_single_experts_with_many_draws() -> None:
    check_coverage(designs=150, draws=60, seed=2)


@pytest.mark.slow
def test_other_rules_with_many_draws() -> None:
    found = overconfident(100, 60, [rule for rule in RULES if rule != "npae"], seed=3)
    assert all(found["poe", zone] == 1 for zone in ZONES)
    assert all(found["gpoe", zone] == -1 for zone in ZONES)
    assert found["bcm", "outside"] == found["bcm", "random parts"] == 1
    assert found["rbcm", "inside"] == found["rbcm", "border"] == found["rbcm", "random parts"] == 1
    assert found["grbcm", "border"] == -1
    assert found["grbcm", "inside"] == found["grbcm", "outside"] == 0

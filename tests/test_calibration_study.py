"""Draws from the model's own prior lie where the rules that promise it say: in every zone, at every level."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chi2

import calibration_page
from calibration import ALL, FEW, LEVELS, ONE, RULES, ZONES, prior_study, summary

PROMISED = [("npae", ALL), ("npae", FEW), ("npae", ONE), ("poe", ONE), ("gpoe", ONE), ("bcm", ONE)]
"""NPAE's variance is exact for the experts it asks, whichever they are; a lone expert is a GP."""
BAND = np.array([1e-5, 1 - 1e-5])
"""Some 400 numbers are looked at: all of a right rule are inside in 99 of 100 studies."""


def narrow(z: np.ndarray) -> dict[str, int]:
    """1 for an interval that is too narrow by more than chance, −1 for one that is too wide, else 0."""
    told, n = summary(z), len(z)
    verdicts = {}
    for level in LEVELS:
        low, high = binom.ppf(BAND, n, level)
        inside = told["coverage"][f"{level:g}"] * n
        verdicts[f"{level:g}"] = int(inside < low) - int(inside > high)
    low, high = chi2.ppf(BAND, n)
    square = told["squared_z"] * n
    return verdicts | {"squared z": int(square > high) - int(square < low)}


def check_promises(designs: int, draws: int, seed: int) -> None:
    for key, z in prior_study(designs, draws, PROMISED, seed).items():
        told = summary(z)
        assert not any(narrow(z).values()), (key, told)
        expected = len(z) / len(told["pit"])
        unevenness = np.sum((np.array(told["pit"]) - expected) ** 2 / expected)
        assert unevenness < chi2.ppf(BAND[1], len(told["pit"]) - 1), (key, told)


def too_sure(designs: int, draws: int, rules: list[str], seed: int) -> dict[tuple[str, str], int]:
    """(rule, zone) ↦ 1 where a rule is too sure of the function, −1 where it is not sure enough, else 0."""
    found = prior_study(designs, draws, [(rule, ALL) for rule in rules], seed)
    return {
        (rule, zone): narrow(z)["squared z"] for (rule, _, zone, of), z in found.items() if of == "latent"
    }


def test_the_rules_that_promise_it_are_calibrated_in_every_zone() -> None:
    check_promises(designs=8, draws=60, seed=1)


def test_known_faults_show() -> None:
    """So that the test above could fail."""
    told = too_sure(5, 100, ["poe", "gpoe", "bcm", "rbcm"], seed=1)
    assert told["poe", "outside"] == told["bcm", "random parts"] == told["rbcm", "random parts"] == 1
    assert told["rbcm", "inside"] == 1
    assert told["gpoe", "inside"] == told["gpoe", "border"] == told["gpoe", "random parts"] == -1


def test_the_page_shows_the_results_that_are_kept() -> None:
    text = calibration_page.PAGE.read_text(encoding="utf-8")
    for lines in calibration_page.tables().values():
        assert lines in text


@pytest.mark.slow
def test_the_promises_hold_for_many_draws() -> None:
    check_promises(designs=150, draws=60, seed=2)


@pytest.mark.slow
def test_what_the_page_says_of_the_other_rules() -> None:
    told = too_sure(100, 60, [rule for rule in RULES if rule != "npae"], seed=3)
    assert all(told["poe", zone] == 1 for zone in ZONES)
    assert all(told["gpoe", zone] == -1 for zone in ZONES)
    assert told["bcm", "outside"] == told["bcm", "random parts"] == 1
    assert told["rbcm", "inside"] == told["rbcm", "border"] == told["rbcm", "random parts"] == 1
    assert told["grbcm", "border"] == -1
    assert told["grbcm", "inside"] == told["grbcm", "outside"] == 0

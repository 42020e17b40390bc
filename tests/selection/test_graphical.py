"""The graphical model of the experts' predictions, also for nearly collinear experts."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from gpexperts.exceptions import RepairWarning
from gpexperts.selection import ExpertsView, GGMSelector


def graph_of_bumps(view: ExpertsView, n_experts: int, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Correlation and precision of overlapping bumps, such as neighbouring experts predict."""
    centre = np.linspace(0, 1, n_experts)
    bumps = np.exp(-0.5 * ((np.linspace(0, 1, 300)[:, None] - centre) / width) ** 2) * np.cos(6 * centre)
    experts = replace(view, means_at=lambda Z: bumps)
    return np.corrcoef(bumps, rowvar=False), GGMSelector().fit(experts).precision_


def violation(S: np.ndarray, precision: np.ndarray, penalty: float) -> float:
    """Largest violation of the conditions for a maximum of log |Ω| − tr(SΩ) − λ‖Ω‖₁."""
    gradient = np.linalg.inv(precision) - S
    at_zero = np.maximum(np.abs(gradient) - penalty, 0.0)
    elsewhere = np.abs(gradient - penalty * np.sign(precision))
    return float(np.where(precision == 0, at_zero, elsewhere).max())


def test_collinear_experts_maximise_the_objective(view: ExpertsView) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        S, precision = graph_of_bumps(view, 40, 0.3)
    assert np.linalg.eigvalsh(precision)[0] > 0
    assert violation(S, precision, 0.1) < 2e-3


@pytest.mark.parametrize(("n_experts", "width"), [(60, 1.0), (100, 0.3)])
def test_too_collinear_experts_are_shrunk_with_a_warning(
    view: ExpertsView, n_experts: int, width: float
) -> None:
    with pytest.warns(RepairWarning, match=f"The {n_experts} experts' predictions are so nearly collinear"):
        _, precision = graph_of_bumps(view, n_experts, width)
    assert np.isfinite(precision).all()
    assert np.linalg.eigvalsh(precision)[0] > 0


def test_precision_maximises_the_objective_of_the_paper(view: ExpertsView) -> None:
    """log|Ω| − tr(SΩ) − λ‖Ω‖₁, diagonal included, is stationary: Ω⁻¹ − S = λ·sign where Ω ≠ 0."""
    inputs = np.random.default_rng(3).uniform(0, 20, size=(400, 2))
    selector = GGMSelector(penalty=0.1, inputs=inputs).fit(view)
    S = np.corrcoef(view.means_at(inputs / 2.0), rowvar=False)  # `transform` halves
    slope = np.linalg.inv(selector.precision_) - S
    active = np.abs(selector.precision_) > 1e-6
    np.testing.assert_allclose(slope[active], 0.1 * np.sign(selector.precision_[active]), atol=5e-3)
    assert (np.abs(slope[~active]) <= 0.1 + 5e-3).all()


def test_the_most_important_experts_are_selected_for_every_query(
    view: ExpertsView, queries: np.ndarray
) -> None:
    selector = GGMSelector().fit(view)
    off_diagonal = np.abs(selector.precision_) - np.diag(np.diag(np.abs(selector.precision_)))
    np.testing.assert_allclose(selector.importance_, off_diagonal.sum(axis=1))
    chosen = selector.select(queries, 3)
    assert (chosen == chosen[0]).all()
    np.testing.assert_array_equal(chosen[0], np.argsort(-selector.importance_, kind="stable")[:3])
    assert 4 not in chosen[0]  # its means are unrelated to the others


def test_identical_and_constant_predictions(view: ExpertsView) -> None:
    same = replace(view, means_at=lambda Z: np.repeat(np.sin(Z[:, :1]), 5, axis=1))
    importance = GGMSelector().fit(same).importance_
    assert np.isfinite(importance).all()
    constant = replace(view, means_at=lambda Z: np.zeros((len(Z), 5)))
    np.testing.assert_allclose(GGMSelector().fit(constant).importance_, 0.0, atol=1e-12)

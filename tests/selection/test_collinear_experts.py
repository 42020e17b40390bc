"""The graph of nearly collinear experts, on which a plain graphical lasso fails."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from gpexperts.exceptions import RepairWarning
from gpexperts.selection.graphical import _correlation, _sparse_precision


def bumps(n_experts: int, width: float) -> np.ndarray:
    """Correlations of overlapping bumps, such as neighbouring experts predict."""
    x, centre = np.linspace(0, 1, 300), np.linspace(0, 1, n_experts)
    return _correlation(np.exp(-0.5 * ((x[:, None] - centre) / width) ** 2) * np.cos(6 * centre))


def optimality(S: np.ndarray, precision: np.ndarray, penalty: float) -> float:
    """Largest violation of the conditions for a maximum of log |Ω| − tr(SΩ) − λ‖Ω‖₁."""
    gradient = np.linalg.inv(precision) - S
    at_zero = np.maximum(np.abs(gradient) - penalty, 0.0)
    elsewhere = np.abs(gradient - penalty * np.sign(precision))
    return float(np.where(precision == 0, at_zero, elsewhere).max())


def test_it_maximises_the_papers_objective() -> None:
    S = bumps(40, 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        precision = _sparse_precision(S, 0.1, 200)
    assert np.linalg.eigvalsh(precision)[0] > 0
    assert optimality(S, precision, 0.1) < 2e-3


@pytest.mark.parametrize(("n_experts", "width"), [(60, 1.0), (100, 0.3)])
def test_hopelessly_collinear_experts_get_a_graph_and_a_warning(n_experts: int, width: float) -> None:
    with pytest.warns(RepairWarning, match=f"The {n_experts} experts' predictions are so nearly collinear"):
        precision = _sparse_precision(bumps(n_experts, width), 0.1, 200)
    assert np.isfinite(precision).all()
    assert np.linalg.eigvalsh(precision)[0] > 0

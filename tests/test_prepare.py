"""What a predictor learns from fitted experts."""

from __future__ import annotations

import numpy as np
import pytest

from gpexperts.engines import ThreadEngine
from gpexperts.prepare import evaluation_engine, expert_means, experts_view, tuned
from gpexperts.settings import Settings
from gpexperts.tuning import Tuning
from tests.problems import Problem, fixed_model, local_gps


def test_expert_means_are_those_of_local_gps(problem: Problem) -> None:
    estimator = fixed_model(problem)
    settings = estimator.predictor_.settings
    index = np.tile(np.arange(problem.n_experts), (len(problem.X_new), 1))
    means = expert_means(estimator.model_, settings, problem.X_new, index)[:, :, 0]
    expected = np.stack([expert.mean for expert in local_gps(problem)], axis=1)
    np.testing.assert_allclose(means, expected, rtol=1e-8, atol=1e-10)
    view = experts_view(estimator.model_, settings)
    np.testing.assert_allclose(view.means_at(problem.X_new), expected, rtol=1e-8, atol=1e-10)


def test_the_view_holds_the_training_rows_by_expert(problem: Problem) -> None:
    estimator = fixed_model(problem)
    view = experts_view(estimator.model_, estimator.predictor_.settings)
    order = np.argsort(problem.labels, kind="stable")
    np.testing.assert_array_equal(view.X, problem.X[order])
    np.testing.assert_array_equal(view.labels, problem.labels[order])
    np.testing.assert_allclose(view.length_scale, problem.signal.k2.length_scale)


@pytest.mark.parametrize(("n_selected", "K"), [(2, 2), (0.5, 2), (1.0, 4)])
def test_a_given_number_is_not_tuned(problem: Problem, n_selected: float, K: int) -> None:
    estimator = fixed_model(problem, selection="knn", n_selected=n_selected, n_neighbors=0)
    settings = estimator.predictor_.settings
    assert tuned(estimator.model_, settings, estimator.predictor_.selector) == Tuning(K)


def test_local_experts_are_evaluated_by_threads(problem: Problem) -> None:
    estimator = fixed_model(problem)
    settings = Settings.of(estimator.get_params(deep=False))
    assert isinstance(evaluation_engine(estimator.model_, settings), ThreadEngine)

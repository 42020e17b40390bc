"""The fitted model is frozen and holds what prediction needs."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from gpexperts.predictor import Predictor
from tests.problems import Problem, fixed_model


def test_a_fitted_model_is_frozen(problem: Problem) -> None:
    model = fixed_model(problem).model_
    with pytest.raises(FrozenInstanceError):
        model.one_output = False
    assert replace(model, one_output=False).shaped(np.zeros((3, 1))).shape == (3, 1)
    assert model.shaped(np.zeros((3, 1))).shape == (3,)


def test_a_predictor_needs_only_the_model_and_the_settings(problem: Problem) -> None:
    estimator = fixed_model(problem)
    predictor = Predictor.build(estimator.model_, estimator.predictor_.settings)
    mean, std = predictor.predict(problem.X_new, return_std=True, latent=False)
    np.testing.assert_array_equal((mean[:, 0], std[:, 0]), estimator.predict(problem.X_new, return_std=True))


def test_fields(problem: Problem) -> None:
    model = fixed_model(problem).model_
    np.testing.assert_array_equal(model.labels, problem.labels)
    for i in range(problem.n_experts):
        np.testing.assert_allclose(model.centroids[i], problem.X[problem.labels == i].mean(axis=0))
    assert model.n_outputs == 1
    assert model.held_out is None
    assert model.covariance.kernel == problem.kernel

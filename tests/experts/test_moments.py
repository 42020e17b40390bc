"""Subsets of the moments, and the variance of an observation."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from gpexperts.experts.moments import ExpertMoments, Prediction
from tests.contracts import columns_of, random_moments, rows_of


def assert_equal(a: ExpertMoments, b: ExpertMoments) -> None:
    for field in fields(ExpertMoments):
        np.testing.assert_array_equal(getattr(a, field.name), getattr(b, field.name))


def test_first_keeps_the_leading_experts() -> None:
    moments = random_moments(0)
    assert_equal(moments.first(2), columns_of(moments, np.array([0, 1])))
    assert_equal(moments.first(4), moments)


def test_concatenate_joins_batches() -> None:
    moments = random_moments(0)
    assert_equal(
        ExpertMoments.concatenate([rows_of(moments, slice(2)), rows_of(moments, slice(2, None))]), moments
    )


def test_without_pads_the_dropped_experts() -> None:
    moments = random_moments(0)
    dropped = np.zeros(moments.index.shape, dtype=bool)
    dropped[0, 1] = True
    rest = moments.without(dropped)
    assert rest.selected.tolist() == (~dropped).tolist()
    np.testing.assert_array_equal(rest.mean[0, 1], 0.0)
    assert rest.var[0, 1] == moments.prior_var[0]
    np.testing.assert_array_equal(rest.covariance[0, 1], 0.0)
    np.testing.assert_array_equal(rest.covariance[0, :, 1], 0.0)
    np.testing.assert_array_equal(rest.local_noise[0, 1], 1.0)
    assert_equal(rows_of(rest, slice(1, None)), rows_of(moments, slice(1, None)))


def test_without_weak_compares_with_the_best_expert_of_the_query() -> None:
    moments = random_moments(0)
    for prune in (0.0, 0.3, 1.0):
        rest = moments.without_weak(prune)
        for q in range(len(moments.index)):
            explained = moments.prior_var[q] - moments.var[q]
            np.testing.assert_array_equal(rest.selected[q], explained >= prune * explained.max())


def test_a_correction_is_raised_to_the_explained_share() -> None:
    prediction = Prediction(np.zeros((3, 1)), np.array([0.0, 1.0, 2.0]), np.ones((3, 1)))
    corrected = prediction.corrected(4.0, np.full(3, 2.0)).corrected(9.0, np.full(3, 2.0))
    np.testing.assert_allclose(corrected.inflation[:, 0], [36.0, 6.0, 1.0])
    np.testing.assert_allclose(corrected.observation_var(0.5)[:, 0], [18.0, 9.0, 2.5])
    np.testing.assert_allclose(prediction.observation_var(0.5)[:, 0], [0.5, 1.5, 2.5])

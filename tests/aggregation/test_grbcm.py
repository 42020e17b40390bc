"""GRBCM on given moments. That its experts are fitted with the shared rows is tested in test_limits.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.aggregation import GRBCM
from gpexperts.experts.moments import ExpertMoments
from tests.contracts import random_moments
from tests.problems import fixed_model


@pytest.mark.parametrize("seed", range(5))
def test_against_a_naive_loop(seed: int) -> None:
    m = random_moments(seed)
    p = GRBCM().combine(m)
    for q in range(len(m.index)):
        v_c, v = m.communication_var[q], m.var[q]
        beta = 0.5 * (np.log(v_c) - np.log(v))
        beta[np.argmin(v)] = 1.0
        precision = sum(b / w for b, w in zip(beta, v, strict=True)) - (sum(beta) - 1) / v_c
        total = sum(b * mu / w for b, mu, w in zip(beta, m.mean[q], v, strict=True))
        total = total - (sum(beta) - 1) * m.communication_mean[q] / v_c
        np.testing.assert_allclose(p.var[q], 1 / precision, rtol=1e-10)
        np.testing.assert_allclose(p.mean[q], total / precision, rtol=1e-9)


def test_uninformative_experts_leave_the_communication_expert_s_prediction() -> None:
    m = random_moments(0, K=3)
    v = np.tile(m.communication_var[:, None], (1, 3))
    mean = np.tile(m.communication_mean[:, None, :], (1, 3, 1))
    p = GRBCM().combine(replace(m, var=v, mean=mean))
    np.testing.assert_allclose(p.var, m.communication_var, rtol=1e-12)
    np.testing.assert_allclose(p.mean, m.communication_mean, rtol=1e-12)


@given(
    prior=st.floats(1e-6, 1e6),
    share=st.floats(1e-12, 1.0),
    shares=st.lists(st.floats(1e-15, 1.0 + 1e-9), min_size=1, max_size=8),
)
def test_variance_is_positive_and_at_most_that_of_the_communication_expert(prior, share, shares) -> None:
    v_c = np.array([prior * share])
    v = v_c * np.array([shares])  # rounding may put an enhanced expert above v_c
    m = ExpertMoments(
        np.arange(len(shares))[None], np.ones((1, len(shares), 1)), v, np.array([prior]),
        communication_mean=np.ones((1, 1)), communication_var=v_c,
    )  # fmt: skip
    p = GRBCM().combine(m)
    assert 0 < p.var[0] <= v_c[0] * (1 + 1e-12)
    np.testing.assert_allclose(p.mean, 1.0, rtol=1e-6)  # all means are 1


def test_the_communication_set_is_taken_out_of_the_data(problem) -> None:
    model = fixed_model(problem, partition="random", n_experts=3, aggregation="grbcm")
    shared = model.labels_ == -1
    assert shared.sum() == len(problem.X) // 4
    assert sorted(np.unique(model.labels_[~shared])) == [0, 1, 2]
    model = fixed_model(problem, partition="random", n_experts=3, aggregation=GRBCM(communication_size=11))
    assert (model.labels_ == -1).sum() == 11


@pytest.mark.parametrize("size", [0, -3, 2.5, True, "half"])
def test_invalid_communication_size_is_refused(problem, size) -> None:
    with pytest.raises((TypeError, ValueError), match="communication_size"):
        fixed_model(problem, partition="random", n_experts=3, aggregation=GRBCM(size))


def test_a_communication_set_that_leaves_no_rows_is_refused(problem) -> None:
    with pytest.raises(ValueError, match="communication set of 79 rows"):
        fixed_model(problem, partition="random", n_experts=3, aggregation=GRBCM(79))

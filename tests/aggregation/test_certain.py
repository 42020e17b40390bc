"""Another rule for the most certain experts."""

from __future__ import annotations

import numpy as np
import pytest

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import NPAE, RBCM, GPoE, MostCertain, PoE
from gpexperts.experts.moments import ExpertMoments
from tests.problems import random_problem


def moments(var: np.ndarray, index: np.ndarray | None = None) -> ExpertMoments:
    n, K = var.shape
    index = np.tile(np.arange(K), (n, 1)) if index is None else index
    mean = np.random.default_rng(0).normal(size=(n, K, 1))
    return ExpertMoments(index, mean, np.where(index < 0, 1.0, var), np.ones(n))


@pytest.mark.parametrize("rule", [PoE(), GPoE(), RBCM()])
@pytest.mark.parametrize("k", [1, 2, 9])
def test_the_rule_sees_the_k_smallest_variances(rule, k: int) -> None:
    given = moments(np.random.default_rng(1).uniform(0.1, 0.9, size=(6, 4)))
    found = MostCertain(rule, k).combine(given)
    for q in range(6):
        best = np.sort(np.argsort(given.var[q])[:k])
        alone = ExpertMoments(best[None], given.mean[q : q + 1, best], given.var[q : q + 1, best], np.ones(1))
        expected = rule.combine(alone)
        np.testing.assert_allclose(found.mean[q], expected.mean[0], rtol=1e-12)
        np.testing.assert_allclose(found.var[q], expected.var[0], rtol=1e-12)
        np.testing.assert_allclose(found.weight[q, best], expected.weight[0], rtol=1e-12)


def test_padded_columns_are_never_certain() -> None:
    index = np.array([[0, -1, 2]])
    given = moments(np.array([[0.5, 0.0, 0.7]]), index)
    assert MostCertain(GPoE(), 2).combine(given).weight[0, 1] == 0.0


def test_it_is_an_aggregator_of_the_estimator() -> None:
    """With the number of all experts it is the rule itself."""
    problem = random_problem(0)
    settings = {"partition": problem.labels, "kernel": problem.kernel, "optimizer": None, "selection": "all"}
    plain, certain, one = (
        DistributedGPRegressor(**settings, n_neighbors=0, aggregation=rule).fit(problem.X, problem.y)
        for rule in ("gpoe", MostCertain(GPoE(), 4), MostCertain(GPoE(), 1))
    )
    np.testing.assert_allclose(certain.predict(problem.X_new), plain.predict(problem.X_new), rtol=1e-12)
    shown = one.explain(problem.X_new)
    best = np.argmin(plain.explain(problem.X_new).expert_std, axis=1)
    np.testing.assert_allclose(shown.weight[np.arange(len(best)), best], 1.0)


def test_rules_and_numbers_that_make_no_sense() -> None:
    given = moments(np.full((1, 2), 0.5))
    with pytest.raises(ValueError, match="cannot use NPAE"):
        MostCertain(NPAE(), 1).combine(given)
    with pytest.raises(ValueError, match="n_certain must be at least 1"):
        MostCertain(GPoE(), 0).combine(given)

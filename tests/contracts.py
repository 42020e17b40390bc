"""What every member of a stage promises. A registered member is enrolled by being registered.

`test_contracts.py` runs these over every partitioner, selector, aggregator and engine; a new one is
tested here without a line being written for it.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from gpexperts.aggregation import Aggregator
from gpexperts.engines import Engine
from gpexperts.experts.moments import ExpertMoments
from gpexperts.partition import Partitioner
from gpexperts.selection import ExpertsView, Selector


class PartitionerContract:
    """A label for every row, the same for the same seed, and no row of X touched."""

    @staticmethod
    def every_row_gets_a_label(partitioner: Partitioner, X: np.ndarray, n_parts: int) -> None:
        before = X.copy()
        labels = np.asarray(partitioner.partition(X, n_parts, np.random.RandomState(0)))
        assert labels.shape == (len(X),)
        assert np.issubdtype(labels.dtype, np.integer)
        assert (labels >= 0).all()
        assert len(np.unique(labels)) == n_parts
        np.testing.assert_array_equal(X, before)

    @staticmethod
    def same_seed_same_parts(partitioner: Partitioner, X: np.ndarray, n_parts: int) -> None:
        first, second = (clone(partitioner).partition(X, n_parts, np.random.RandomState(3)) for _ in range(2))
        np.testing.assert_array_equal(first, second)

    @staticmethod
    def one_part_per_row_is_possible(partitioner: Partitioner, X: np.ndarray) -> None:
        labels = partitioner.partition(X[:7], 7, np.random.RandomState(0))
        assert len(np.unique(labels)) == 7


class SelectorContract:
    """K different experts per query, a prefix of the ranking for a larger K, whatever the batch."""

    @staticmethod
    def asks_k_different_experts(selector: Selector, view: ExpertsView, X: np.ndarray) -> None:
        fitted = clone(selector).fit(view)
        for K in _possible(selector, view):
            index = np.asarray(fitted.select(X, K))
            assert index.shape == (len(X), K)
            assert np.issubdtype(index.dtype, np.integer)
            assert ((index >= 0) & (index < view.n_experts)).all()
            assert all(len(set(row)) == K for row in index.tolist())

    @staticmethod
    def a_larger_k_only_adds(selector: Selector, view: ExpertsView, X: np.ndarray) -> None:
        fitted = clone(selector).fit(view)
        rankings = [fitted.select(X, K) for K in _possible(selector, view)]
        for ranking in rankings:
            np.testing.assert_array_equal(ranking, rankings[-1][:, : ranking.shape[1]])

    @staticmethod
    def a_query_stands_for_itself(selector: Selector, view: ExpertsView, X: np.ndarray) -> None:
        fitted = clone(selector).fit(view)
        K = max(_possible(selector, view))
        together = fitted.select(X, K)
        alone = np.concatenate([fitted.select(X[i : i + 1], K) for i in range(len(X))])
        np.testing.assert_array_equal(together, alone)
        assert fitted.select(X[:0], K).shape == (0, K)

    @staticmethod
    def same_seed_same_experts(selector: Selector, view: ExpertsView, X: np.ndarray) -> None:
        K = max(_possible(selector, view))
        rankings = []
        for _ in range(2):
            fitted = clone(selector).fit(_reseeded(view))
            rankings += [fitted.select(X, K), pickle.loads(pickle.dumps(fitted)).select(X, K)]
        for ranking in rankings[1:]:
            np.testing.assert_array_equal(ranking, rankings[0])

    @staticmethod
    def automatic_k_is_possible(selector: Selector) -> None:
        for M in (1, 2, 7, 1000):
            assert 1 <= selector.default_n_selected(M) <= M


def _possible(selector: Selector, view: ExpertsView) -> list[int]:
    """The values of K a selector accepts: selecting all is a selection of its own."""
    M = view.n_experts
    return [M] if selector.default_n_selected(10**6) == 10**6 else list(range(1, M + 1))


def _reseeded(view: ExpertsView) -> ExpertsView:
    return ExpertsView(**(vars(view) | {"random_state": np.random.RandomState(0)}))


class AggregatorContract:
    """A pure function of each query's moments, with honest variances and weights."""

    @staticmethod
    def variance_is_positive_and_below_the_prior(rule: Aggregator, moments: ExpertMoments) -> None:
        var = rule.combine(moments).var
        assert (var > 0).all()
        assert (var <= moments.prior_var * (1 + 1e-12)).all()

    @staticmethod
    def weights_make_the_mean(rule: Aggregator, moments: ExpertMoments) -> None:
        p = rule.combine(moments)
        mean = np.einsum("nk,nkp->np", p.weight, moments.mean)
        if p.communication_weight is not None:
            assert moments.communication_mean is not None
            mean += p.communication_weight[:, None] * moments.communication_mean
        np.testing.assert_allclose(p.mean, mean, rtol=1e-12, atol=1e-12)
        assert (p.weight[~moments.asked] == 0).all()

    @staticmethod
    def padding_changes_nothing(rule: Aggregator, moments: ExpertMoments) -> None:
        plain, wider = rule.combine(moments), rule.combine(padded(moments))
        np.testing.assert_allclose(wider.mean, plain.mean, rtol=1e-12)
        np.testing.assert_allclose(wider.observation_var(0.1), plain.observation_var(0.1), rtol=1e-12)

    @staticmethod
    def a_query_stands_for_itself(rule: Aggregator, moments: ExpertMoments) -> None:
        together = rule.combine(moments)
        for q in range(len(moments.index)):
            alone = rule.combine(rows_of(moments, slice(q, q + 1)))
            np.testing.assert_allclose(alone.mean[0], together.mean[q], rtol=1e-10, atol=1e-13)
            observed = alone.observation_var(0.1)[0], together.observation_var(0.1)[q]
            np.testing.assert_allclose(*observed, rtol=1e-10)

    @staticmethod
    def the_order_of_experts_does_not_matter(rule: Aggregator, moments: ExpertMoments) -> None:
        order = np.random.default_rng(0).permutation(moments.index.shape[1])
        plain, shuffled = rule.combine(moments), rule.combine(columns_of(moments, order))
        np.testing.assert_allclose(shuffled.mean, plain.mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(shuffled.observation_var(0.1), plain.observation_var(0.1), rtol=1e-8)
        np.testing.assert_allclose(shuffled.weight, plain.weight[:, order], rtol=1e-6, atol=1e-8)

    @staticmethod
    def inputs_are_left_alone(rule: Aggregator, moments: ExpertMoments) -> None:
        before = {k: None if v is None else v.copy() for k, v in vars(moments).items()}
        rule.combine(moments)
        for name, array in vars(moments).items():
            np.testing.assert_array_equal(array, before[name])


class EngineContract:
    """An ordered map that hands errors on."""

    @staticmethod
    def results_come_in_the_order_of_items(engine: Engine) -> None:
        items = list(range(23))
        expected = [i * i for i in items]
        assert engine.map(lambda i: i * i, items) == expected
        assert engine.map(lambda i: i * i, items, [float(i % 5) for i in items]) == expected
        assert engine.map(lambda i: i * i, []) == []
        assert engine.map(lambda i: i * i, [3]) == [9]

    @staticmethod
    def errors_reach_the_caller(engine: Engine) -> None:
        def fail(i: int) -> int:
            if i == 5:
                raise RuntimeError("item 5 is bad")
            return i

        for items in (range(9), [5]):
            with pytest.raises(RuntimeError, match="item 5 is bad"):
                engine.map(fail, items)
        assert engine.map(abs, [-1, -2]) == [1, 2]  # and the engine is still of use

    @staticmethod
    def has_workers(engine: Engine) -> None:
        assert engine.n_workers >= 1


# -------------------------------------------------------------------------------------- moments


def random_moments(seed: int, n: int = 6, K: int = 4, p: int = 2) -> ExpertMoments:
    """Moments that experts could really hold: all from one random joint covariance per query."""
    rng = np.random.default_rng(seed)
    prior = rng.uniform(0.1, 10.0, size=n)
    B = rng.normal(size=(n, K + 2, 2 * K + 3))
    joint = np.einsum("nij,nkj->nik", B, B)
    joint *= (prior / joint[:, 0, 0])[:, None, None]
    # Each expert is the best predictor of f (entry 0) from an observable of its own: μ_i = b_i z_i.
    f_z, z_z = joint[:, 0, 2:], joint[:, 2:, 2:]
    b = f_z / np.einsum("nkk->nk", z_z)
    R = b[:, :, None] * z_z * b[:, None, :]
    r = np.einsum("nkk->nk", R)
    c = joint[:, 0, 1] ** 2 / joint[:, 1, 1]
    v_c = prior - c
    var = prior[:, None] - r
    return ExpertMoments(
        index=np.tile(np.arange(K), (n, 1)),
        mean=rng.normal(size=(n, K, p)) * np.sqrt(r)[:, :, None],
        var=var,
        prior_var=prior,
        covariance=R,
        communication_mean=rng.normal(size=(n, p)),
        # What an enhanced expert knows more than the communication expert cannot be made up here:
        # GRBCM's v_c is taken between the experts' variances and the prior.
        communication_var=np.maximum(v_c, var.max(axis=1)),
        surprise=rng.uniform(0.2, 3.0, size=(n, K, p)),
    )


def padded(moments: ExpertMoments) -> ExpertMoments:
    """The same moments with one more column in which nobody was asked."""
    m = moments
    assert m.covariance is not None
    return ExpertMoments(
        np.pad(m.index, ((0, 0), (0, 1)), constant_values=-1),
        np.pad(m.mean, ((0, 0), (0, 1), (0, 0))),
        np.concatenate([m.var, m.prior_var[:, None]], axis=1),
        m.prior_var,
        np.pad(m.covariance, ((0, 0), (0, 1), (0, 1))),
        m.communication_mean,
        m.communication_var,
        np.pad(m.surprise, ((0, 0), (0, 1), (0, 0)), constant_values=1.0),
    )


def rows_of(moments: ExpertMoments, rows: slice) -> ExpertMoments:
    return ExpertMoments(**{k: None if v is None else v[rows] for k, v in vars(moments).items()})


def columns_of(moments: ExpertMoments, order: np.ndarray) -> ExpertMoments:
    m = moments
    assert m.covariance is not None
    return ExpertMoments(
        m.index[:, order],
        m.mean[:, order],
        m.var[:, order],
        m.prior_var,
        m.covariance[:, order][:, :, order],
        m.communication_mean,
        m.communication_var,
        m.surprise[:, order],
    )

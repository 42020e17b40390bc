"""The contracts of the stages, as test suites. `test_contracts.py` runs them for every registered member.

A subclass provides the fixture that yields the members; every test then runs for each of them. The truths
checked here are invariances and limits that follow from the formulas, for any valid member.
"""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
from sklearn.base import clone

from gpexperts.aggregation import Aggregator, PoE
from gpexperts.experts.moments import ExpertMoments, Prediction
from gpexperts.partition import Partitioner
from gpexperts.partition.base import compact
from gpexperts.selection import ExpertsView, Selector
from gpexperts.selection.base import checked_index


def _parts(partitioner: Partitioner, X: np.ndarray, n_parts: int, seed: int = 0) -> np.ndarray:
    return np.asarray(partitioner.partition(X, n_parts, np.random.RandomState(seed)))


class PartitionerContract:
    """One label per row, fixed by the seed; parts are local exactly if `uses_inputs` is True."""

    X = np.random.default_rng(1).normal(size=(120, 3))

    def test_every_row_gets_a_label_and_no_part_is_empty(self, partitioner: Partitioner) -> None:
        before = self.X.copy()
        labels = _parts(partitioner, self.X, 6)
        assert labels.shape == (len(self.X),)
        assert np.issubdtype(labels.dtype, np.integer)
        assert len(np.unique(labels)) == 6
        np.testing.assert_array_equal(self.X, before)

    def test_the_seed_fixes_the_parts(self, partitioner: Partitioner) -> None:
        first, second = (_parts(clone(partitioner), self.X, 6, seed=3) for _ in range(2))
        np.testing.assert_array_equal(first, second)

    def test_one_row_per_part(self, partitioner: Partitioner) -> None:
        assert sorted(compact(_parts(partitioner, self.X[:7], 7))) == list(range(7))

    def test_units_do_not_matter(self, partitioner: Partitioner) -> None:
        # Powers of two, so that rounding is the same.
        np.testing.assert_array_equal(_parts(partitioner, 4.0 * self.X, 6), _parts(partitioner, self.X, 6))

    def test_uses_inputs(self, partitioner: Partitioner) -> None:
        truth = np.random.default_rng(0).permutation(np.arange(len(self.X)) % 2)
        separated = self.X + 100.0 * truth[:, None]
        labels = compact(_parts(partitioner, separated, 2))
        if partitioner.uses_inputs:
            assert len({*zip(truth, labels, strict=True)}) == 2, "two separate clusters were mixed"
        else:
            np.testing.assert_array_equal(labels, compact(_parts(partitioner, self.X, 2)))


class SelectorContract:
    """Different experts per query, ranked; the ranking depends on the query alone.

    The fixture `view` has experts whose parts are far apart, and centroids that are also the most frequent
    values: every sensible selector ranks the expert of a part first at its centroid.
    """

    queries = np.random.default_rng(2).uniform(-5.0, 45.0, size=(9, 2))

    def test_experts_of_a_query_are_different(self, selector: Selector, view: ExpertsView) -> None:
        fitted = clone(selector).fit(view)
        for K in _accepted(selector, view):
            index = checked_index(fitted.select(self.queries, K), len(self.queries), view.n_experts)
            assert index.shape[1] == K
            assert (index >= 0).all()

    def test_smaller_k_is_a_prefix(self, selector: Selector, view: ExpertsView) -> None:
        fitted = clone(selector).fit(view)
        rankings = [fitted.select(self.queries, K) for K in _accepted(selector, view)]
        for ranking in rankings:
            np.testing.assert_array_equal(ranking, rankings[-1][:, : ranking.shape[1]])

    def test_other_queries_do_not_matter(self, selector: Selector, view: ExpertsView) -> None:
        fitted = clone(selector).fit(view)
        M = view.n_experts
        together = fitted.select(self.queries, M)
        one_by_one = [fitted.select(query[None], M) for query in self.queries]
        np.testing.assert_array_equal(together, np.concatenate(one_by_one))
        assert fitted.select(self.queries[:0], M).shape == (0, M)

    def test_seed_and_pickle_reproduce_the_ranking(self, selector: Selector, view: ExpertsView) -> None:
        rankings = []
        for _ in range(2):
            fitted = clone(selector).fit(replace(view, random_state=np.random.RandomState(0)))
            rankings += [model.select(self.queries, view.n_experts) for model in (fitted, _pickled(fitted))]
        for ranking in rankings[1:]:
            np.testing.assert_array_equal(ranking, rankings[0])

    def test_the_numbering_of_experts_does_not_matter(self, selector: Selector, view: ExpertsView) -> None:
        """A query at a centroid gets the expert of that part, whatever its number."""
        number = np.random.default_rng(0).permutation(view.n_experts)  # old number ↦ new number
        fitted = clone(selector).fit(view)
        renumbered = clone(selector).fit(_renumbered(view, number))
        if selector.varies_by_query:
            first = fitted.select(view.centroids, 1)[:, 0]
            np.testing.assert_array_equal(first, np.arange(view.n_experts))
            np.testing.assert_array_equal(renumbered.select(view.centroids, 1)[:, 0], number)
        else:
            K = _accepted(selector, view)[-1] if len(_accepted(selector, view)) == 1 else 3
            before, after = fitted.select(self.queries, K), renumbered.select(self.queries, K)
            assert (before == before[0]).all(), "the ranking depends on the query"
            np.testing.assert_array_equal(np.sort(number[before], axis=1), np.sort(after, axis=1))

    def test_default_k_is_possible(self, selector: Selector) -> None:
        for M in (1, 2, 7, 1000):
            assert 1 <= selector.default_n_selected(M) <= M

    def test_only_selectors_that_use_rows_hold_them(self, selector: Selector, view: ExpertsView) -> None:
        fitted = clone(selector).fit(view)
        assert fitted.repeats(view.X) == selector.uses_rows
        assert not fitted.repeats(view.X + 1.0)


def _accepted(selector: Selector, view: ExpertsView) -> list[int]:
    """The values of K that a selector accepts: only M if it always selects all experts."""
    M = view.n_experts
    return [M] if selector.default_n_selected(10**6) == 10**6 else list(range(1, M + 1))


def _pickled(selector: Selector) -> Selector:
    return pickle.loads(pickle.dumps(selector))


def _renumbered(view: ExpertsView, number: np.ndarray) -> ExpertsView:
    order = np.argsort(number[view.labels], kind="stable")
    old = np.argsort(number)
    return replace(
        view,
        X=view.X[order],
        labels=number[view.labels][order],
        centroids=view.centroids[old],
        means_at=lambda X: view.means_at(X)[:, old],
        random_state=np.random.RandomState(0),
    )


class AggregatorContract:
    """A pure function of the moments of each query; weights that make the mean; 0 < v ≤ s².

    The fixture `moments` holds all fields, for several queries and two outputs.
    """

    def test_variance_is_between_zero_and_the_prior(self, aggregator: Aggregator, moments: ExpertMoments):
        var = aggregator.combine(moments).var
        assert (var > 0).all()
        assert (var <= moments.prior_var * (1 + 1e-12)).all()

    def test_weights_make_the_mean(self, aggregator: Aggregator, moments: ExpertMoments) -> None:
        p = aggregator.combine(moments)
        mean = sum(p.weight[:, [k]] * moments.mean[:, k] for k in range(moments.index.shape[1]))
        if p.communication_weight is not None:
            mean = mean + p.communication_weight[:, None] * moments.communication_mean
        np.testing.assert_allclose(p.mean, mean, rtol=1e-12, atol=1e-12)

    def test_weights_and_variance_do_not_depend_on_the_means(
        self, aggregator: Aggregator, moments: ExpertMoments
    ) -> None:
        p, other = aggregator.combine(moments), aggregator.combine(replace(moments, mean=moments.mean[::-1]))
        np.testing.assert_array_equal(p.weight, other.weight)
        np.testing.assert_array_equal(p.var, other.var)

    def test_dropped_experts_have_no_effect(self, aggregator: Aggregator, moments: ExpertMoments) -> None:
        dropped = np.zeros(moments.index.shape, dtype=bool)
        dropped[:, 1] = True
        p = aggregator.combine(moments.without(dropped))
        _assert_close(p, aggregator.combine(columns_of(moments, np.array([0, 2, 3]))))
        np.testing.assert_array_equal(p.weight[:, 1], 0.0)

    def test_other_queries_do_not_matter(self, aggregator: Aggregator, moments: ExpertMoments) -> None:
        together = aggregator.combine(moments)
        for q in range(len(moments.index)):
            alone = aggregator.combine(rows_of(moments, slice(q, q + 1)))
            _assert_close(alone, together, slice(q, q + 1))

    def test_the_order_of_experts_does_not_matter(
        self, aggregator: Aggregator, moments: ExpertMoments
    ) -> None:
        order = np.random.default_rng(0).permutation(moments.index.shape[1])
        p, permuted = aggregator.combine(moments), aggregator.combine(columns_of(moments, order))
        _assert_close(permuted, p)
        np.testing.assert_allclose(permuted.weight, p.weight[:, order], rtol=1e-6, atol=1e-8)

    def test_outputs_are_combined_separately(self, aggregator: Aggregator, moments: ExpertMoments) -> None:
        both = aggregator.combine(moments)
        second = aggregator.combine(
            replace(
                moments,
                mean=moments.mean[:, :, 1:],
                communication_mean=moments.communication_mean[:, 1:],
                local_noise=moments.local_noise[:, :, 1:],
            )
        )
        np.testing.assert_allclose(second.mean, both.mean[:, 1:], rtol=1e-12)
        np.testing.assert_allclose(second.observation_var(0.1), both.observation_var(0.1)[:, 1:], rtol=1e-10)

    def test_the_unit_of_the_target_does_not_matter(
        self, aggregator: Aggregator, moments: ExpertMoments
    ) -> None:
        a = -3.0
        p = aggregator.combine(moments)
        scaled = aggregator.combine(
            replace(
                moments,
                mean=a * moments.mean,
                var=a**2 * moments.var,
                prior_var=a**2 * moments.prior_var,
                covariance=a**2 * moments.covariance,
                communication_mean=a * moments.communication_mean,
                communication_var=a**2 * moments.communication_var,
            )
        )
        np.testing.assert_allclose(scaled.mean, a * p.mean, rtol=1e-9)
        np.testing.assert_allclose(
            scaled.observation_var(a**2 * 0.1), a**2 * p.observation_var(0.1), rtol=1e-9
        )

    def test_single_expert(self, aggregator: Aggregator, moments: ExpertMoments) -> None:
        """K = 1: with `keeps_single_mean`, and for GRBCM, the result is the expert's own prediction."""
        p = aggregator.combine(moments.first(1))
        if aggregator.keeps_single_mean or aggregator.needs_communication:
            np.testing.assert_allclose(p.mean, moments.mean[:, 0], rtol=1e-12)
            np.testing.assert_allclose(p.var, moments.var[:, 0], rtol=1e-9)

    def test_far_from_the_data_the_prior_is_returned(
        self, aggregator: Aggregator, moments: ExpertMoments
    ) -> None:
        """Experts with r → 0: the mean is 0 and v = s², except for PoE with v = s²/K."""
        K = moments.index.shape[1]
        far = replace(
            moments,
            mean=np.zeros_like(moments.mean),
            var=np.repeat(moments.prior_var[:, None], K, axis=1),
            covariance=np.zeros_like(moments.covariance),
            communication_mean=np.zeros_like(moments.communication_mean),
            communication_var=moments.prior_var,
        )
        p = aggregator.combine(far)
        expected = moments.prior_var / (K if isinstance(aggregator, PoE) else 1)
        np.testing.assert_array_equal(p.mean, 0.0)
        np.testing.assert_allclose(p.var, expected, rtol=1e-12)
        np.testing.assert_allclose(p.observation_var(0.1)[:, 0], expected + 0.1, rtol=1e-12)

    def test_only_declared_moments_are_read(self, aggregator: Aggregator, moments: ExpertMoments) -> None:
        """As `gather` provides them: moments that are not declared are None."""
        fewer = replace(
            moments,
            covariance=moments.covariance if aggregator.needs_covariance else None,
            communication_mean=moments.communication_mean if aggregator.needs_communication else None,
            communication_var=moments.communication_var if aggregator.needs_communication else None,
            local_noise=moments.local_noise if aggregator.needs_local_noise else None,
        )
        _assert_close(aggregator.combine(fewer), aggregator.combine(moments))

    def test_moments_are_not_changed(self, aggregator: Aggregator, moments: ExpertMoments) -> None:
        before = {name: copy.copy(values) for name, values in vars(moments).items()}
        aggregator.combine(moments)
        for name, values in vars(moments).items():
            np.testing.assert_array_equal(values, before[name])


def _assert_close(a: Prediction, b: Prediction, rows: slice = slice(None)) -> None:
    """Both predict the same mean, latent variance and variance of an observation; `rows` of b are meant."""
    np.testing.assert_allclose(a.mean, b.mean[rows], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(a.var, b.var[rows], rtol=1e-8)
    np.testing.assert_allclose(a.observation_var(0.1), b.observation_var(0.1)[rows], rtol=1e-8)


def random_moments(seed: int, n: int = 6, K: int = 4, p: int = 2) -> ExpertMoments:
    """Valid moments: those of every query come from one random joint covariance."""
    rng = np.random.default_rng(seed)
    prior = rng.uniform(0.1, 10.0, size=n)
    B = rng.normal(size=(n, K + 2, 2 * K + 3))
    joint = np.einsum("nij,nkj->nik", B, B)
    joint *= (prior / joint[:, 0, 0])[:, None, None]
    # Each expert is the best predictor of f (entry 0) from one observable: μ_i = b_i z_i.
    f_z, z_z = joint[:, 0, 2:], joint[:, 2:, 2:]
    b = f_z / np.einsum("nkk->nk", z_z)
    R = b[:, :, None] * z_z * b[:, None, :]
    r = np.einsum("nkk->nk", R)
    v_c = prior - joint[:, 0, 1] ** 2 / joint[:, 1, 1]
    var = prior[:, None] - r
    return ExpertMoments(
        index=np.tile(np.arange(K), (n, 1)),
        mean=rng.normal(size=(n, K, p)) * np.sqrt(r)[:, :, None],
        var=var,
        prior_var=prior,
        covariance=R,
        communication_mean=rng.normal(size=(n, p)),
        # GRBCM's experts include the communication set, so v_c must not be below their variances.
        communication_var=np.maximum(v_c, var.max(axis=1)),
        local_noise=rng.uniform(0.2, 3.0, size=(n, K, p)),
    )


def rows_of(moments: ExpertMoments, rows: slice) -> ExpertMoments:
    """The moments of some queries."""
    return ExpertMoments(**{k: None if v is None else v[rows] for k, v in vars(moments).items()})


def columns_of(moments: ExpertMoments, order: np.ndarray) -> ExpertMoments:
    """The moments with the experts of each query in another order, or fewer of them."""
    m = moments
    assert m.covariance is not None
    assert m.local_noise is not None
    return replace(
        m,
        index=m.index[:, order],
        mean=m.mean[:, order],
        var=m.var[:, order],
        covariance=m.covariance[:, order][:, :, order],
        local_noise=m.local_noise[:, order],
    )

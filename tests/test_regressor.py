"""The estimator as a whole: settings, explanations, reproducible predictions, units."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel

from gpexperts import DistributedGPRegressor, settings
from gpexperts.aggregation import AGGREGATORS, NPAE, RBCM
from gpexperts.engines import ThreadEngine
from gpexperts.exceptions import RefitRequiredError
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.moments import ExpertMoments, Prediction
from gpexperts.selection import SELECTORS, ExpertsView, GGMSelector, KNNSelector, Selector
from tests.problems import Problem, fixed_model, random_problem

TRAINED = {"kernel": "rbf", "optimizer": "lbfgs", "training": "full"}
GIVEN = {
    "partition": "kmeans",
    "kernel": 12.0 * RBF(1.2) + WhiteKernel(0.09),
    "optimizer": None,
    "selection": "knn",
    "n_selected": 2,
    "n_neighbors": 0,
    "n_experts": 5,
    "n_jobs": 1,
    "random_state": 0,
}
OWN = {"npae": {"n_neighbors": 16}}
"""Aggregators that can combine the own expert with others."""
PLAIN_AGGREGATORS = [name for name in AGGREGATORS if name != "grbcm"]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(120, 2))
    return X, 40.0 + 5.0 * np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.normal(size=120)


def small(**given) -> DistributedGPRegressor:
    return DistributedGPRegressor(**(GIVEN | given))


# --------------------------------------------------------------------------- comparing with one fit


@pytest.mark.parametrize("name", PLAIN_AGGREGATORS)
def test_changed_aggregation_takes_effect_at_the_next_prediction(data, name: str) -> None:
    X, y = data
    shared = small(aggregation="npae").fit(X, y)
    shared.predict(X)
    changed = shared.set_params(aggregation=name).predict(X, return_std=True)
    np.testing.assert_array_equal(changed, small(aggregation=name).fit(X, y).predict(X, return_std=True))


@pytest.mark.parametrize("name", SELECTORS)
def test_changed_selection_takes_effect_at_the_next_prediction(data, name: str) -> None:
    X, y = data
    given = {"selection": name, "n_selected": "auto" if name == "all" else 3}
    shared = small().fit(X, y)
    shared.predict(X)
    changed = shared.set_params(**given).predict(X)
    np.testing.assert_array_equal(changed, small(**given).fit(X, y).predict(X))


def test_changed_parameters_of_a_stage_take_effect(data) -> None:
    X, y = data
    model = small(selection=KNNSelector("euclidean"), aggregation=NPAE(disagreement=None)).fit(X, y)
    model.set_params(selection__metric="hamming", aggregation__nugget=0.5)
    fresh = small(selection=KNNSelector("hamming"), aggregation=NPAE(0.5, disagreement=None)).fit(X, y)
    np.testing.assert_array_equal(model.select(X), fresh.select(X))
    np.testing.assert_array_equal(model.predict(X), fresh.predict(X))
    before = small(selection=KNNSelector("hamming"), aggregation=NPAE(disagreement=None)).fit(X, y)
    assert np.abs(model.predict(X) - before.predict(X)).max() > 0.1


def test_an_attribute_that_is_set_directly_takes_effect(data) -> None:
    X, y = data
    model = small().fit(X, y)
    model.n_selected = 4
    assert model.select(X).shape == (120, 4)
    model.aggregation = "poe"
    np.testing.assert_array_equal(
        model.predict(X), small(n_selected=4, aggregation="poe").fit(X, y).predict(X)
    )


def test_large_arrays_that_differ_in_the_middle_are_different_settings(data) -> None:
    """An array's repr leaves its middle out."""
    X, y = data
    inputs = np.random.default_rng(1).uniform(-3, 3, size=(1200, 2))
    other = inputs.copy()
    other[100:1100] = 0.01 * other[100:1100]
    model = small(selection=GGMSelector(inputs=inputs)).fit(X, y)
    first = model.predictor_.selector.importance_.tolist()
    model.set_params(selection=GGMSelector(inputs=other)).select(X)
    fresh = small(selection=GGMSelector(inputs=other)).fit(X, y)
    assert model.predictor_.selector.importance_.tolist() == fresh.predictor_.selector.importance_.tolist()
    assert model.predictor_.selector.importance_.tolist() != first


class Shifted(NPAE):
    """A user's aggregator, whose means are larger than NPAE's by 10."""

    keeps_single_mean = False

    def __init__(self, nugget: float = 1e-8) -> None:
        super().__init__(nugget, disagreement="auto")

    def combine(self, moments: ExpertMoments) -> Prediction:
        prediction = super().combine(moments)
        return replace(prediction, mean=prediction.mean + 10)


def test_corrections_keep_the_class_of_a_user_s_aggregator(data) -> None:
    X, y = data
    ours = small(n_selected="auto", aggregation=Shifted()).fit(X, y)
    plain = small(n_selected="auto", aggregation=NPAE()).fit(X, y)
    np.testing.assert_allclose(ours.predict(X) - plain.predict(X), 10.0, atol=1.0)


def test_a_redefined_selector_class_is_another_selector(data) -> None:
    """As in a notebook whose cell is run again."""

    def defined(last: bool) -> type[Selector]:
        class Mine(Selector):
            def fit(self, experts: ExpertsView) -> Mine:
                self.expert_ = len(experts.centroids) - 1 if last else 0
                return self

            def select(self, X: np.ndarray, n_selected: int) -> np.ndarray:
                return np.full((len(X), 1), self.expert_)

        return Mine

    X, y = data
    model = small(selection=defined(last=False)(), n_selected=1).fit(X, y)
    assert (model.select(X) == 0).all()
    assert (model.set_params(selection=defined(last=True)()).select(X) == 4).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"local_noise": -0.5},
        {"local_noise": "x"},
        {"scale": "x"},
        {"scale": None},
        {"nugget": 2.0},
        {"nugget": "x"},
    ],
    ids=str,
)
def test_wrong_parameters_of_npae_are_named_also_where_they_are_tuned(data, wrong) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        small(aggregation=NPAE(disagreement="auto", **wrong), n_selected="auto").fit(*data).predict(data[0])


@pytest.mark.parametrize("name", AGGREGATORS)
@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.RepairWarning")
def test_a_prior_variance_of_zero_is_not_divided_by(name: str) -> None:
    """A linear function through the origin is 0 there, without uncertainty: k(0, 0) = 0."""
    X = np.linspace(-2, 2, 81)[:, None]
    kernel = DotProduct(0.0, "fixed") + WhiteKernel(0.01)
    model = small(kernel=kernel, standardize=False, aggregation=name, optimizer=None).fit(X, 2 * X[:, 0])
    mean, std = model.predict([[0.0], [1.0]], return_std=True)
    np.testing.assert_allclose(mean, [0.0, 2.0], atol=0.05)
    assert np.isfinite(std).all()
    assert std[0] == pytest.approx(0.1, rel=0.01)  # of the noise alone


def test_grbcm_needs_a_refit(data) -> None:
    X, y = data
    model = small(aggregation="npae").fit(X, y).set_params(aggregation="grbcm")
    with pytest.raises(RefitRequiredError, match=r"needs a communication set.*Call fit again"):
        model.predict(X)
    model.fit(X, y)
    assert (model.labels_ == -1).any()
    model.predict(X)
    model.set_params(aggregation="npae")
    with pytest.raises(RefitRequiredError, match=r"cannot use a communication set.*Call fit again"):
        model.predict(X)
    model.fit(X, y).predict(X)
    assert (model.labels_ >= 0).all()


# ------------------------------------------------------------------------------------ explanations


@pytest.mark.parametrize("name", AGGREGATORS)
@pytest.mark.parametrize("n_outputs", [None, 2])
def test_weights_times_expert_means_are_the_mean(data, name: str, n_outputs: int | None) -> None:
    X, y = data
    target = y if n_outputs is None else np.stack([y, -3.0 * y**2], axis=1)
    model = small(aggregation=name, n_selected=3, **OWN.get(name, {})).fit(X, target)
    e = model.explain(X)
    weight = e.weight if n_outputs is None else e.weight[..., None]
    total = (weight * e.expert_mean).sum(axis=1) + np.multiply.outer(e.prior_weight, e.prior_mean)
    if e.own is not None:
        total += (e.own.mean.T * e.own.weight).T
    if name == "grbcm":
        total += (e.communication_mean.T * e.communication_weight).T
    else:
        assert e.communication_mean is None
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(total, mean, rtol=1e-9)
    np.testing.assert_allclose(e.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(e.std, std, rtol=1e-9)
    np.testing.assert_array_equal(e.experts, model.select(X))
    assert (e.expert_std > 0).all()


def test_without_standardising_the_prior_mean_is_zero(problem: Problem) -> None:
    e = fixed_model(problem).explain(problem.X_new)
    assert e.prior_mean == 0.0
    np.testing.assert_allclose((e.weight * e.expert_mean).sum(axis=1), e.mean, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PLAIN_AGGREGATORS)
def test_the_mean_does_not_depend_on_return_std(data, name: str) -> None:
    X, y = data
    for K in (1, 2):  # one expert takes another path
        model = small(aggregation=name, n_selected=K).fit(X, y)
        np.testing.assert_allclose(model.predict(X), model.predict(X, return_std=True)[0], rtol=1e-10)


# ------------------------------------------------------------------------- reproducible predictions


@pytest.mark.parametrize("name", AGGREGATORS)
def test_batches_threads_and_budget_change_nothing(data, name: str, monkeypatch) -> None:
    X, y = data
    given = {"aggregation": name, "n_selected": 3, **OWN.get(name, {})}
    model = small(**given, n_jobs=1).fit(X, y)
    scale = 1e-10 * float(np.std(y))
    expected = model.predict(X, return_std=True)
    variants = []
    variants.append(model.set_params(n_jobs=3).predict(X, return_std=True))
    variants.append(model.set_params(engine=ThreadEngine(2)).predict(X, return_std=True))
    variants.append(model.set_params(memory_budget="1MB").predict(X, return_std=True))
    monkeypatch.setattr(settings, "_WORK_BYTES", 1)  # the smallest batches
    variants.append(model.predict(X, return_std=True))
    for mean, std in variants:
        np.testing.assert_allclose(mean, expected[0], rtol=0, atol=scale)
        np.testing.assert_allclose(std, expected[1], rtol=0, atol=scale)
    assert model.repairs_["queries_repaired"] == 0
    refitted = small(**given, n_jobs=3).fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(refitted, expected, rtol=0, atol=1e3 * scale)


@pytest.mark.parametrize("name", AGGREGATORS)
def test_a_prediction_does_not_depend_on_its_batch(data, name: str) -> None:
    X, y = data
    model = small(aggregation=name, n_selected=3, **OWN.get(name, {})).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    for rows in ([5], [7, 3], range(50, 90)):
        some_mean, some_std = model.predict(X[list(rows)], return_std=True)
        np.testing.assert_allclose(some_mean, mean[list(rows)], rtol=1e-9)
        np.testing.assert_allclose(some_std, std[list(rows)], rtol=1e-9)


def test_predictions_from_several_threads_agree(data) -> None:
    X, y = data
    model = small(n_selected=3).fit(X, y)
    expected = model.predict(X, return_std=True)
    with ThreadPoolExecutor(4) as pool:
        for prediction in pool.map(lambda _: model.predict(X, return_std=True), range(8)):
            np.testing.assert_allclose(prediction, expected, rtol=1e-9)


@pytest.mark.parametrize("selection", SELECTORS)
@pytest.mark.parametrize("partition", ["random", "kmeans", "balanced"])
def test_the_same_seed_gives_the_same_bits(data, selection: str, partition: str) -> None:
    X, y = data
    given = {"selection": selection, "partition": partition, "n_selected": "auto", "random_state": 7}
    if selection == "nearest_rows":
        given |= TRAINED | {"n_neighbors": "auto"}
    first, second = (small(**given).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first.kernel_.theta, second.kernel_.theta)
    np.testing.assert_array_equal(first.predict(X, return_std=True), second.predict(X, return_std=True))


def test_another_seed_gives_another_partition(data) -> None:
    X, y = data
    labels = [small(partition="random", random_state=seed).fit(X, y).labels_ for seed in (1, 2)]
    assert (labels[0] != labels[1]).any()


# ------------------------------------------------------------------------------- units and noise


def test_the_observation_s_variance_is_the_latent_one_plus_the_noise(data) -> None:
    X, y = data
    model = small(**TRAINED).fit(X, y)
    _, std = model.predict(X, return_std=True)
    _, latent = model.predict(X, return_std=True, latent=True)
    noise = model.kernel_.k2.noise_level  # in units of y²
    np.testing.assert_allclose(std**2, latent**2 + noise, rtol=1e-9)
    assert 0.2 < np.sqrt(noise) < 0.45  # of the data: 0.3


def test_standardising_is_only_a_change_of_units(data) -> None:
    X, y = data
    X = X * [1.0, 100.0] + [0.0, 1e4]
    given = {"partition": np.arange(120) % 4, "n_experts": "auto", "selection": "all", "n_selected": "auto"}
    mean, std = small(**given, **TRAINED).fit(X, y).predict(X, return_std=True)
    by_hand = small(**given, **TRAINED, standardize=False)
    Z, t = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    hand_mean, hand_std = by_hand.fit(Z, t).predict(Z, return_std=True)
    np.testing.assert_allclose(mean, hand_mean * y.std() + y.mean(), rtol=1e-6)
    np.testing.assert_allclose(std, hand_std * y.std(), rtol=1e-5)


def test_fitted_attributes(data) -> None:
    X, y = data
    model = small().fit(X, y)
    assert model.n_experts_ == 5
    assert model.labels_.shape == (120,)
    for i in range(5):
        np.testing.assert_allclose(model.centroids_[i], X[model.labels_ == i].mean(axis=0), rtol=1e-9)
    assert model.log_marginal_likelihood_value_ == model.trace_[-1].log_marginal_likelihood
    assert model.n_features_in_ == 2
    assert model.repairs_ == {
        "training_blocks_with_jitter": 0,
        "experts_with_jitter": {},
        "queries_repaired": 0,
    }


def test_stages_by_name_and_as_instances(data) -> None:
    X, y = data
    by_name = small(aggregation="rbcm").fit(X, y).predict(X)
    by_instance = small(aggregation=RBCM(), selection=KNNSelector()).fit(X, y).predict(X)
    np.testing.assert_array_equal(by_name, by_instance)


def test_predictions_of_new_rows_are_accurate_and_calibrated() -> None:
    p = random_problem(4, n=300, n_experts=4, n_new=200)
    model = small(n_experts=4, **TRAINED).fit(p.X[:250], p.y[:250])
    mean, std = model.predict(p.X[250:], return_std=True)
    z = (p.y[250:] - mean) / std
    assert np.mean((p.y[250:] - mean) ** 2) < 0.2 * np.var(p.y[250:])
    assert 0.5 < np.std(z) < 1.6


def test_means_without_variances_are_computed_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(0)
    model = fixed_model(problem, partition=np.zeros(len(problem.X), dtype=int))
    X = np.tile(problem.X_new, (40, 1))
    whole = model.predict(X)
    sizes: list[int] = []
    gather = LocalExperts.gather

    def recorded(self, X, *args):
        sizes.append(len(X))
        return gather(self, X, *args)

    monkeypatch.setattr(LocalExperts, "gather", recorded)
    monkeypatch.setattr(settings, "_WORK_BYTES", 100 * 8 * len(problem.X))
    np.testing.assert_allclose(model.predict(X), whole, rtol=1e-12)
    assert max(sizes) <= 100
    assert sum(sizes) == len(X)

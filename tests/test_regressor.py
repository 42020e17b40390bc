"""The estimator as a whole: settings that take effect, explanations that add up, answers that stay put."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import DotProduct, WhiteKernel

from gpexperts import DistributedGPRegressor, asking, parameters
from gpexperts.aggregation import AGGREGATORS, NPAE, RBCM
from gpexperts.engines import ThreadEngine
from gpexperts.exceptions import RefitRequiredError
from gpexperts.experts.moments import ExpertMoments, Prediction
from gpexperts.selection import SELECTORS, ExpertsView, GGMSelector, KNNSelector, Selector
from gpexperts.settings import bytes_of, number_of_experts, number_selected
from tests.problems import Problem, fixed_model, random_problem

PAPER = {"partition": "kmeans", "kernel": "rbf", "training": "full", "selection": "knn", "n_selected": 2}
PLAIN_RULES = [name for name in AGGREGATORS if name != "grbcm"]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(120, 2))
    return X, 40.0 + 5.0 * np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.normal(size=120)


def paper(**settings) -> DistributedGPRegressor:
    return DistributedGPRegressor(**(PAPER | {"n_experts": 5, "random_state": 0} | settings))


# --------------------------------------------------------------------------- comparing with one fit


@pytest.mark.parametrize("name", PLAIN_RULES)
def test_a_changed_rule_takes_effect_at_the_next_prediction(data, name: str) -> None:
    X, y = data
    shared = paper(aggregation="npae").fit(X, y)
    shared.predict(X)
    changed = shared.set_params(aggregation=name).predict(X, return_std=True)
    np.testing.assert_array_equal(changed, paper(aggregation=name).fit(X, y).predict(X, return_std=True))


@pytest.mark.parametrize("name", SELECTORS)
def test_a_changed_selection_takes_effect_at_the_next_prediction(data, name: str) -> None:
    X, y = data
    settings = {"selection": name, "n_selected": "auto" if name == "all" else 3}
    shared = paper().fit(X, y)
    shared.predict(X)
    changed = shared.set_params(**settings).predict(X)
    np.testing.assert_array_equal(changed, paper(**settings).fit(X, y).predict(X))


def test_a_changed_setting_of_a_selector_takes_effect(data) -> None:
    X, y = data
    model = paper(selection=KNNSelector("euclidean")).fit(X, y)
    model.selection.metric = "hamming"
    fresh = paper(selection=KNNSelector("hamming")).fit(X, y)
    np.testing.assert_array_equal(model.select(X), fresh.select(X))


def test_large_settings_that_differ_in_the_middle_are_told_apart(data) -> None:
    """An array's repr leaves its middle out."""
    X, y = data
    inputs = np.random.default_rng(1).uniform(-3, 3, size=(1200, 2))
    other = inputs.copy()
    other[100:1100] = 0.01 * other[100:1100]
    model = paper(selection=GGMSelector(inputs=inputs)).fit(X, y)
    model.select(X)
    model.set_params(selection=GGMSelector(inputs=other)).select(X)
    fresh = paper(selection=GGMSelector(inputs=other)).fit(X, y)
    assert model._selector().importance_.tolist() == fresh._selector().importance_.tolist()


class Hopeful(NPAE):
    """A user's own rule, which expects ten deviations more than NPAE does."""

    def __init__(self, nugget: float = 1e-8) -> None:
        super().__init__(nugget, widen="auto")

    def combine(self, moments: ExpertMoments) -> Prediction:
        said = super().combine(moments)
        return replace(said, mean=said.mean + 10)


def test_a_rule_of_the_user_s_own_is_the_one_that_is_asked(data) -> None:
    """What held-out rows say was given to a plain NPAE in its place."""
    X, y = data
    settings = {"kernel": "rbf", "n_experts": 5, "random_state": 0}
    ours = DistributedGPRegressor(**settings, aggregation=Hopeful()).fit(X, y)
    plain = DistributedGPRegressor(**settings, aggregation=NPAE()).fit(X, y)
    np.testing.assert_allclose(ours.predict(X) - plain.predict(X), 10 * y.std(), rtol=0.2)


def test_a_class_that_was_written_anew_is_another_class(data) -> None:
    """In a notebook, the selector of the cell as it was before went on answering."""

    def written(last: bool) -> type[Selector]:
        class Mine(Selector):
            def fit(self, experts: ExpertsView) -> Mine:
                self.who_ = len(experts.centroids) - 1 if last else 0
                return self

            def select(self, X: np.ndarray, n_selected: int) -> np.ndarray:
                return np.full((len(X), 1), self.who_)

        return Mine

    X, y = data
    model = paper(selection=written(last=False)(), n_selected=1).fit(X, y)
    assert (model.select(X) == 0).all()
    assert (model.set_params(selection=written(last=True)()).select(X) == 4).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"surprise": -0.5},
        {"surprise": "x"},
        {"scale": "x"},
        {"scale": None},
        {"nugget": 2.0},
        {"nugget": "x"},
    ],
    ids=str,
)
def test_wrong_parameters_of_npae_are_named_whatever_held_out_rows_would_choose(data, wrong) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        paper(aggregation=NPAE(widen="auto", **wrong), n_selected="auto").fit(*data).predict(data[0])


@pytest.mark.parametrize(
    ("training", "units"), [("auto", "kernel's metric"), ("full", "units the kernel sees")]
)
def test_the_metric_of_the_parts_is_told(data, training: str, units: str) -> None:
    model = paper(partition="auto", training=training).fit(*data)
    assert model.choices_["partition"] == f"balanced, in the {units}"


@pytest.mark.parametrize("name", AGGREGATORS)
@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.RepairWarning")
def test_where_the_prior_knows_the_answer_nothing_is_divided_by_its_variance(name: str) -> None:
    """A linear function through the origin is 0 there, for certain: k(0, 0) = 0."""
    X = np.linspace(-2, 2, 81)[:, None]
    kernel = DotProduct(0.0, "fixed") + WhiteKernel(0.01)
    model = paper(kernel=kernel, standardize=False, aggregation=name, optimizer=None).fit(X, 2 * X[:, 0])
    mean, std = model.predict([[0.0], [1.0]], return_std=True)
    np.testing.assert_allclose(mean, [0.0, 2.0], atol=0.05)
    assert np.isfinite(std).all()
    assert std[0] == pytest.approx(0.1, rel=0.01)  # of the noise alone


def test_grbcm_needs_a_refit_and_says_so(data) -> None:
    X, y = data
    model = paper(aggregation="npae").fit(X, y).set_params(aggregation="grbcm")
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
def test_weights_times_words_make_the_mean(data, name: str, n_outputs: int | None) -> None:
    X, y = data
    target = y if n_outputs is None else np.stack([y, -3.0 * y**2], axis=1)
    model = paper(aggregation=name, n_selected=3).fit(X, target)
    e = model.explain(X)
    weight = e.weight if n_outputs is None else e.weight[..., None]
    made = (weight * e.said).sum(axis=1) + np.multiply.outer(e.prior_weight, e.prior_mean)
    if name == "grbcm":
        made += (e.communication_said.T * e.communication_weight).T
    else:
        assert e.communication_said is None
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(made, mean, rtol=1e-9)
    np.testing.assert_allclose(e.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(e.std, std, rtol=1e-9)
    np.testing.assert_array_equal(e.experts, model.select(X))
    assert (e.said_std > 0).all()


def test_without_standardising_the_prior_mean_is_zero(problem: Problem) -> None:
    e = fixed_model(problem).explain(problem.X_new)
    assert e.prior_mean == 0.0
    np.testing.assert_allclose((e.weight * e.said).sum(axis=1), e.mean, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PLAIN_RULES)
def test_the_mean_does_not_depend_on_whether_std_is_wanted(data, name: str) -> None:
    X, y = data
    for K in (1, 2):
        model = paper(aggregation=name, n_selected=K).fit(X, y)
        np.testing.assert_allclose(model.predict(X), model.predict(X, return_std=True)[0], rtol=1e-10)


# ----------------------------------------------------------------------------------- K, M, budget


@given(M=st.integers(1, 500), ratio=st.floats(0.0, 1.0, exclude_min=True))
def test_a_ratio_of_the_experts(M: int, ratio: float) -> None:
    K = number_selected(ratio, M, given=M)
    assert 1 <= K <= M
    assert abs(K - ratio * M) <= 0.5 or K == 1


def test_one_is_one_expert_and_one_point_zero_is_all() -> None:
    assert number_selected(1, 7, given=7) == 1
    assert number_selected(1.0, 7, given=7) == 7
    assert number_selected(0.5, 7, given=7) == 4  # ⌊3.5 + ½⌋
    assert number_selected(9, 7, given=None) == 7
    assert number_selected(9, 7, given=9) == 7
    assert number_selected(np.int64(2), 7, given=7) == 2
    assert number_selected(np.float32(0.5), 8, given=8) == 4


def test_experts_by_number_or_by_size() -> None:
    assert number_of_experts("auto", "auto", 1000, automatic=3) == 3
    assert number_of_experts(7, "auto", 1000, automatic=3) == 7
    assert number_of_experts("auto", 300, 1000, automatic=3) == 4
    assert number_of_experts("auto", 5000, 1000, automatic=3) == 1


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GiB", 4 * 1024**3), ("500 MB", 500_000_000), ("1.5gb", 1_500_000_000), ("2000000", 2_000_000),
     (3_000_000, 3_000_000), (np.int64(3_000_000), 3_000_000), (" 1 MiB ", 1024**2), ("2 tb", 2 * 10**12)],
)  # fmt: skip
def test_memory_budgets(text, size: int) -> None:
    assert bytes_of(text) == size
    assert bytes_of("auto") >= 64 * 1024**2


# ------------------------------------------------------------------------- answers that stay put


@pytest.mark.parametrize("name", AGGREGATORS)
def test_batches_threads_and_budget_change_nothing(data, name: str, monkeypatch) -> None:
    X, y = data
    model = paper(aggregation=name, n_selected=3, n_jobs=1).fit(X, y)
    scale = 1e-10 * float(np.std(y))
    expected = model.predict(X, return_std=True)
    variants = []
    variants.append(model.set_params(n_jobs=3).predict(X, return_std=True))
    variants.append(model.set_params(engine=ThreadEngine(2)).predict(X, return_std=True))
    variants.append(model.set_params(memory_budget="1MB").predict(X, return_std=True))
    monkeypatch.setattr(parameters, "_WORK_BYTES", 1)  # the smallest batches there are
    variants.append(model.predict(X, return_std=True))
    for mean, std in variants:
        np.testing.assert_allclose(mean, expected[0], rtol=0, atol=scale)
        np.testing.assert_allclose(std, expected[1], rtol=0, atol=scale)
    assert model.repairs_["queries_mended"] == 0
    refitted = paper(aggregation=name, n_selected=3, n_jobs=3).fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(refitted, expected, rtol=0, atol=1e3 * scale)


@pytest.mark.parametrize("name", AGGREGATORS)
def test_a_prediction_does_not_depend_on_its_batch(data, name: str) -> None:
    X, y = data
    model = paper(aggregation=name, n_selected=3).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    for rows in ([5], [7, 3], range(50, 90)):
        some_mean, some_std = model.predict(X[list(rows)], return_std=True)
        np.testing.assert_allclose(some_mean, mean[list(rows)], rtol=1e-9)
        np.testing.assert_allclose(some_std, std[list(rows)], rtol=1e-9)


def test_predictions_from_several_threads_agree(data) -> None:
    X, y = data
    model = paper(n_selected=3).fit(X, y)
    expected = model.predict(X, return_std=True)
    with ThreadPoolExecutor(4) as pool:
        for answer in pool.map(lambda _: model.predict(X, return_std=True), range(8)):
            np.testing.assert_allclose(answer, expected, rtol=1e-9)


@pytest.mark.parametrize("selection", SELECTORS)
@pytest.mark.parametrize("partition", ["random", "kmeans", "balanced"])
def test_the_same_seed_gives_the_same_bits(data, selection: str, partition: str) -> None:
    X, y = data
    settings = {"selection": selection, "partition": partition, "n_selected": "auto", "random_state": 7}
    first, second = (paper(**settings).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first.kernel_.theta, second.kernel_.theta)
    np.testing.assert_array_equal(first.predict(X, return_std=True), second.predict(X, return_std=True))


def test_another_seed_gives_another_partition(data) -> None:
    X, y = data
    labels = [paper(partition="random", random_state=seed).fit(X, y).labels_ for seed in (1, 2)]
    assert (labels[0] != labels[1]).any()


# ------------------------------------------------------------------------------- units and noise


def test_the_observation_s_variance_is_the_latent_one_plus_the_noise(data) -> None:
    X, y = data
    model = paper().fit(X, y)
    _, std = model.predict(X, return_std=True)
    _, latent = model.predict(X, return_std=True, latent=True)
    noise = model.kernel_.k2.noise_level * y.var()
    np.testing.assert_allclose(std**2, latent**2 + noise, rtol=1e-9)
    assert 0.2 < np.sqrt(noise) < 0.45  # and it is the noise that was put in


def test_standardising_is_only_a_change_of_units(data) -> None:
    X, y = data
    X = X * [1.0, 100.0] + [0.0, 1e4]
    mean, std = (
        paper(partition=np.arange(120) % 4, n_experts="auto", selection="all", n_selected="auto")
        .fit(X, y)
        .predict(X, return_std=True)
    )
    by_hand = paper(
        partition=np.arange(120) % 4, n_experts="auto", selection="all", n_selected="auto", standardize=False
    )
    Z, t = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    hand_mean, hand_std = by_hand.fit(Z, t).predict(Z, return_std=True)
    np.testing.assert_allclose(mean, hand_mean * y.std() + y.mean(), rtol=1e-6)
    np.testing.assert_allclose(std, hand_std * y.std(), rtol=1e-5)


def test_what_is_known_after_fit(data) -> None:
    X, y = data
    model = paper().fit(X, y)
    assert model.n_experts_ == 5
    assert model.labels_.shape == (120,)
    for i in range(5):
        np.testing.assert_allclose(model.centroids_[i], X[model.labels_ == i].mean(axis=0), rtol=1e-9)
    assert model.log_marginal_likelihood_value_ == model.trace_[-1].log_marginal_likelihood
    assert model.n_features_in_ == 2
    assert isinstance(model.choices_, dict)


def test_progress_is_told_on_request(data, capsys) -> None:
    X, y = data
    paper().fit(X, y)
    assert capsys.readouterr().out == ""
    paper(verbose=1).fit(X, y)
    assert "5 experts" in capsys.readouterr().out


def test_rules_and_selectors_as_instances(data) -> None:
    X, y = data
    by_name = paper(aggregation="rbcm").fit(X, y).predict(X)
    by_instance = paper(aggregation=RBCM(), selection=KNNSelector()).fit(X, y).predict(X)
    np.testing.assert_array_equal(by_name, by_instance)
    assert np.isfinite(paper(aggregation=NPAE(1e-4)).fit(X, y).predict(X)).all()


def test_it_learns_a_function_it_has_not_seen() -> None:
    p = random_problem(4, n=300, n_experts=4, n_new=200)
    model = DistributedGPRegressor(random_state=0, **(PAPER | {"n_experts": 4})).fit(p.X[:250], p.y[:250])
    mean, std = model.predict(p.X[250:], return_std=True)
    z = (p.y[250:] - mean) / std
    assert np.mean((p.y[250:] - mean) ** 2) < 0.2 * np.var(p.y[250:])
    assert 0.5 < np.std(z) < 1.6


def test_means_alone_come_in_batches_too(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(0)
    model = fixed_model(problem, partition=np.zeros(len(problem.X), dtype=int))
    X = np.tile(problem.X_new, (40, 1))
    whole = model.predict(X)
    asked: list[int] = []
    original = asking.gather_moments

    def watched(experts, X, *args, **settings):
        asked.append(len(X))
        return original(experts, X, *args, **settings)

    monkeypatch.setattr(asking, "gather_moments", watched)
    monkeypatch.setattr(parameters, "_WORK_BYTES", 100 * 8 * len(problem.X))
    np.testing.assert_allclose(model.predict(X), whole, rtol=1e-12)
    assert max(asked) <= 100
    assert sum(asked) == len(X)

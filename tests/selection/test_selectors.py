"""Who is asked: distances by hand, a network that learns its parts, and the paper's graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.ensemble import RandomForestClassifier

from gpexperts.selection import (
    AllSelector,
    ClassifierSelector,
    DNNSelector,
    ExpertsView,
    GGMSelector,
    KNNSelector,
)


@pytest.fixture
def view() -> ExpertsView:
    """Five well separated parts of 30 rows; expert 4 says nothing of interest."""
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [6, 0], [0, 6], [6, 6], [3, 12]], dtype=float)
    labels = np.repeat(np.arange(5), 30)
    X = centres[labels] + rng.normal(size=(150, 2))
    centroids = np.stack([X[labels == i].mean(axis=0) for i in range(5)])

    def means_at(Z: np.ndarray) -> np.ndarray:
        wave = np.sin(Z.sum(axis=1))
        noise = np.random.default_rng(len(Z)).normal(size=(len(Z), 5))
        return np.stack([wave, wave, wave, wave, 0 * wave], axis=1) + noise * [0.1, 0.3, 0.6, 0.9, 1.0]

    return ExpertsView(
        X=X, labels=labels, centroids=centroids, length_scale=np.array([0.2, 50.0]), means_at=means_at,
        transform=lambda Z: np.asarray(Z) / 2.0, random_state=np.random.RandomState(0),
    )  # fmt: skip


@pytest.fixture
def queries() -> np.ndarray:
    return np.random.default_rng(1).uniform(-2, 14, size=(40, 2))


@pytest.mark.parametrize(
    ("selector", "metric"),
    [
        (KNNSelector(), {"metric": "euclidean"}),
        (KNNSelector("manhattan"), {"metric": "cityblock"}),
        (KNNSelector("minkowski", p=4), {"metric": "minkowski", "p": 4}),
    ],
)
def test_nearest_centroids(view: ExpertsView, queries: np.ndarray, selector, metric) -> None:
    expected = np.argsort(cdist(queries, view.centroids, **metric), axis=1)[:, :3]
    np.testing.assert_array_equal(selector.fit(view).select(queries, 3), expected)


def test_the_kernel_s_metric_divides_by_length_scales(view: ExpertsView, queries: np.ndarray) -> None:
    distance = cdist(queries / view.length_scale, view.centroids / view.length_scale)
    chosen = KNNSelector("kernel").fit(view).select(queries, 2)
    np.testing.assert_array_equal(chosen, np.argsort(distance, axis=1)[:, :2])
    assert (chosen != KNNSelector().fit(view).select(queries, 2)).any()


def test_hamming_counts_columns_that_differ_from_the_most_frequent_value(view: ExpertsView) -> None:
    X = np.array([[1, 1, 5], [1, 1, 6], [1, 2, 6], [3, 2, 6], [3, 2, 7], [3, 2, 7]], dtype=float)
    coded = replace(view, X=X, labels=np.array([0, 0, 0, 1, 1, 1]), centroids=np.zeros((2, 3)))
    selector = KNNSelector("hamming").fit(coded)
    np.testing.assert_array_equal(selector.places_, [[1, 1, 6], [3, 2, 7]])
    chosen = selector.select(np.array([[1.0, 1.0, 7.0], [3.0, 2.0, 6.0]]), 2)
    np.testing.assert_array_equal(chosen, [[0, 1], [1, 0]])


@pytest.mark.parametrize("output", ["softmax", "sigmoid"])
def test_the_network_learns_its_parts(view: ExpertsView, output: str) -> None:
    selector = DNNSelector(output=output, hidden_units=20, batch_size=32).fit(view)
    first = selector.select(view.X, 2)[:, 0]
    assert np.mean(first == view.labels) > 0.9
    p = selector.probability(view.X)
    assert p.shape == (150, 5)
    assert ((p >= 0) & (p <= 1)).all()
    if output == "softmax":
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
    else:
        assert np.abs(p.sum(axis=1) - 1.0).max() > 1e-3
    assert selector.classifier_.out_activation_ == ("softmax" if output == "softmax" else "logistic")


def test_the_network_s_settings_reach_it(view: ExpertsView) -> None:
    network = (
        DNNSelector(hidden_units=(7, 3), batch_size=10_000, max_iter=3, learning_rate=0.1)
        .fit(view)
        .classifier_
    )
    assert network.hidden_layer_sizes == [7, 3]
    assert network.batch_size == 150  # no more than there are rows
    assert network.n_iter_ == 3
    assert network.learning_rate_init == 0.1
    assert DNNSelector().fit(view).classifier_.hidden_layer_sizes == [50]


def test_a_forest_in_the_network_s_place(view: ExpertsView) -> None:
    forest = RandomForestClassifier(n_estimators=10, max_depth=3)
    selector = ClassifierSelector(forest).fit(view)
    assert np.mean(selector.select(view.X, 1)[:, 0] == view.labels) > 0.9
    assert not hasattr(forest, "estimators_")  # it was cloned
    assert forest.random_state is None


def test_equal_probabilities_are_ranked_by_distance(view: ExpertsView, queries: np.ndarray) -> None:
    constant = ClassifierSelector(RandomForestClassifier(n_estimators=1, max_depth=1, max_features=1))
    selector = constant.fit(view)
    selector.probability = lambda X: np.zeros((len(X), 5))  # type: ignore[method-assign]
    expected = np.argsort(cdist(queries, view.centroids), axis=1)
    np.testing.assert_array_equal(selector.select(queries, 5), expected)


def test_the_graph_maximises_the_paper_s_objective(view: ExpertsView) -> None:
    """log|Ω| − tr(SΩ) − λ‖Ω‖₁, diagonal included, is stationary: Ω⁻¹ − S = λ·sign where Ω ≠ 0."""
    inputs = np.random.default_rng(3).uniform(0, 20, size=(400, 2))
    selector = GGMSelector(penalty=0.1, inputs=inputs).fit(view)
    S = np.corrcoef(view.means_at(inputs / 2.0), rowvar=False)  # `transform` halves
    slope = np.linalg.inv(selector.precision_) - S
    active = np.abs(selector.precision_) > 1e-6
    np.testing.assert_allclose(slope[active], 0.1 * np.sign(selector.precision_[active]), atol=5e-3)
    assert (np.abs(slope[~active]) <= 0.1 + 5e-3).all()


def test_the_graph_asks_the_same_experts_everywhere(view: ExpertsView, queries: np.ndarray) -> None:
    selector = GGMSelector().fit(view)
    off_diagonal = np.abs(selector.precision_) - np.diag(np.diag(np.abs(selector.precision_)))
    np.testing.assert_allclose(selector.importance_, off_diagonal.sum(axis=1))
    chosen = selector.select(queries, 3)
    assert (chosen == chosen[0]).all()
    np.testing.assert_array_equal(chosen[0], np.argsort(-selector.importance_, kind="stable")[:3])
    assert 4 not in chosen[0]  # who agrees with nobody is not asked


def test_experts_that_agree_to_the_digit_do_not_break_the_graph(view: ExpertsView) -> None:
    same = replace(view, means_at=lambda Z: np.repeat(np.sin(Z[:, :1]), 5, axis=1))
    importance = GGMSelector().fit(same).importance_
    assert np.isfinite(importance).all()
    silent = replace(view, means_at=lambda Z: np.zeros((len(Z), 5)))
    np.testing.assert_allclose(GGMSelector().fit(silent).importance_, 0.0, atol=1e-12)


def test_all_means_all(view: ExpertsView, queries: np.ndarray) -> None:
    assert (AllSelector().fit(view).select(queries, 5) == np.arange(5)).all()
    with pytest.raises(ValueError, match="asks all 5 experts, but n_selected resolves to 3"):
        AllSelector().fit(view).select(queries, 3)

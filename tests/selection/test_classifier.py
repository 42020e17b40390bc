"""Selection by a neural network and by other classifiers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier

from gpexperts.selection import ClassifierSelector, DNNSelector, ExpertsView


@pytest.mark.parametrize("output", ["softmax", "sigmoid"])
def test_network_learns_the_parts(view: ExpertsView, output: str) -> None:
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


def test_parameters_are_passed_to_the_network(view: ExpertsView) -> None:
    network = (
        DNNSelector(hidden_units=(7, 3), batch_size=10_000, max_iter=3, learning_rate=0.1)
        .fit(view)
        .classifier_
    )
    assert network.hidden_layer_sizes == [7, 3]
    assert network.batch_size == 150  # at most the number of rows
    assert network.n_iter_ == 3
    assert network.learning_rate_init == 0.1
    assert DNNSelector().fit(view).classifier_.hidden_layer_sizes == [50]


def test_any_classifier_can_be_used(view: ExpertsView) -> None:
    forest = RandomForestClassifier(n_estimators=10, max_depth=3)
    selector = ClassifierSelector(forest).fit(view)
    assert np.mean(selector.select(view.X, 1)[:, 0] == view.labels) > 0.9
    assert not hasattr(forest, "estimators_")  # it was cloned
    assert forest.random_state is None


def test_equal_probabilities_are_ranked_by_distance(view: ExpertsView, queries: np.ndarray) -> None:
    selector = ClassifierSelector(DummyClassifier(strategy="uniform")).fit(view)
    expected = np.argsort(cdist(queries, view.centroids), axis=1)
    np.testing.assert_array_equal(selector.select(queries, 5), expected)


def test_invalid_output_is_refused(view: ExpertsView) -> None:
    with pytest.raises(ValueError, match="Unknown output 'tanh'"):
        DNNSelector(output="tanh").fit(view)

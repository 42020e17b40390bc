"""The perceptron whose gradient is a sum over rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from gpexperts.selection.network import Network, loss_and_gradient, trained_network

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
LABELS = np.digitize(X[:, 0], [-0.6, 0.0, 0.6])
LAYERS = (3, 7, 5, 4)


def network(output: str = "softmax", seed: int = 0) -> Network:
    n_weights = 3 * 7 + 7 + 7 * 5 + 5 + 5 * 4 + 4
    return Network(LAYERS, output, np.random.default_rng(seed).normal(size=n_weights))


@pytest.mark.parametrize("output", ["softmax", "sigmoid"])
def test_the_gradient_is_that_of_the_loss(output) -> None:
    at = network(output)
    _, gradient = loss_and_gradient(X, LABELS, (at, 1))
    h = 1e-6
    for k, direction in enumerate(np.eye(len(at.weights))):
        up, down = (
            loss_and_gradient(X, LABELS, (at._replace(weights=at.weights + sign * h * direction), 1))[0]
            for sign in (1, -1)
        )
        assert (up - down) / (2 * h) == pytest.approx(gradient[k], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("output", ["softmax", "sigmoid"])
def test_the_loss_is_the_cross_entropy_of_the_probabilities(output) -> None:
    at = network(output)
    p, own = at.predict_proba(X), np.eye(4, dtype=bool)[LABELS]
    expected = -np.log(p[own]).sum() - (0 if output == "softmax" else np.log(1 - p[~own]).sum())
    assert loss_and_gradient(X, LABELS, (at, 1))[0] == pytest.approx(expected)


def test_probabilities_are_those_of_scikit_learn() -> None:
    theirs = MLPClassifier((7, 5), max_iter=3, random_state=0)
    with pytest.warns(UserWarning, match="Maximum iterations"):
        theirs.fit(X, LABELS)
    weights = [part.ravel() for pair in zip(theirs.coefs_, theirs.intercepts_, strict=True) for part in pair]
    ours = Network(LAYERS, "softmax", np.concatenate(weights))
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-10)


def test_chunks_and_blocks_change_nothing(monkeypatch) -> None:
    at = network()
    loss, gradient = loss_and_gradient(X, LABELS, (at, 1))
    monkeypatch.setattr("gpexperts.selection.network._CELLS", 24)  # six rows at a time
    halves = [loss_and_gradient(X[rows], LABELS[rows], (at, 1)) for rows in (slice(13), slice(13, None))]
    assert sum(half[0] for half in halves) == pytest.approx(loss)
    np.testing.assert_allclose(sum(half[1] for half in halves), gradient, rtol=1e-9, atol=1e-9)


def test_training_separates_what_can_be_separated_from_a_share_of_the_rows() -> None:
    rows_seen = []

    def summed(function, argument):
        stride = argument if isinstance(argument, int) else argument[1]
        rows_seen.append(len(X[::stride]))
        return list(function(X, LABELS, argument))

    found = trained_network(
        summed, (3, 20, 4), "softmax", max_rows=40, max_iter=200, random_state=np.random.RandomState(0)
    )
    assert np.mean(found.predict_proba(X).argmax(axis=1) == LABELS) > 0.95
    rows_seen.clear()
    trained_network(
        summed, (3, 20, 4), "sigmoid", max_rows=15, max_iter=5, random_state=np.random.RandomState(0)
    )
    assert max(rows_seen[1:]) <= 15

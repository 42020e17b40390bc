"""The weights of the rows are those of the very predictor that `predict` uses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gpexperts.experts.moments import ExpertMoments
from gpexperts.joint.weights import linear_predictions
from tests.joint.models import SETUPS, data, fixed, naive_weights


def dense_weights(model, X_new: np.ndarray) -> np.ndarray:
    """W (n_new, n) in the order of the training rows."""
    predictor = model.predictor_
    linear = linear_predictions(predictor, predictor.model.x_scale.transform(X_new))
    experts = predictor.model.experts
    W = np.zeros((len(X_new), int(experts.offsets[-1])))
    W[:, experts.numbers[linear.positions]] = linear.weights.toarray()
    return W


@pytest.mark.parametrize("setup", SETUPS)
def test_weights_are_the_predictions_of_unit_targets(setup: str) -> None:
    X, y, X_new = data()
    W = dense_weights(fixed(X, y, setup), X_new)
    np.testing.assert_allclose(W, naive_weights(X, X_new, setup), atol=1e-10)
    np.testing.assert_allclose(W @ y, fixed(X, y, setup).predict(X_new), atol=1e-10)


@pytest.mark.parametrize("setup", SETUPS)
def test_batches_do_not_matter(setup: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, X_new = data()
    model = fixed(X, y, setup)
    expected = dense_weights(model, X_new)
    monkeypatch.setattr("gpexperts.predictor.batch_size", lambda *_: 2)
    np.testing.assert_allclose(dense_weights(model, X_new), expected, atol=1e-12)


def test_only_rows_of_selected_experts_and_neighbours_have_weights() -> None:
    X, y, X_new = data()
    model = fixed(X, y, "experts")
    W = dense_weights(model, X_new)
    for query, selected in enumerate(model.select(X_new)):
        assert set(model.labels_[W[query] != 0.0]) <= set(selected)
    assert (np.count_nonzero(dense_weights(fixed(X, y, "own"), X_new), axis=1) <= 24).all()


def test_moments_of_batches_are_joined_with_their_weights() -> None:
    X, y, X_new = data()
    predictor = fixed(X, y, "both").predictor_
    request = dataclasses.replace(predictor.formula.request, row_weights=True)
    index = predictor.formula.select(X_new)
    (whole,) = (moments for _, moments, _ in predictor.batches(X_new, index, request))
    order = np.lexsort(index.T[::-1])
    joined = ExpertMoments.concatenate(
        [
            predictor.model.experts.gather(X_new[some], index[some], request, predictor.settings.engine)
            for some in (order[:4], order[4:])
        ]
    )
    np.testing.assert_allclose(joined.row_weights.toarray(), whole.row_weights.toarray(), atol=1e-12)
    np.testing.assert_allclose(joined.mean, whole.mean, atol=1e-12)

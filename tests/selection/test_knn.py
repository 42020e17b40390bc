"""Nearest centroids, against distances by SciPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from gpexperts.selection import ExpertsView, KNNSelector


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


@pytest.mark.parametrize("selector", [KNNSelector("cosine"), KNNSelector("minkowski", p=0.5)])
def test_invalid_metric_is_refused(view: ExpertsView, selector: KNNSelector) -> None:
    with pytest.raises(ValueError, match="metric"):
        selector.fit(view)

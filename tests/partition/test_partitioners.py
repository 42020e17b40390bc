"""Properties of each partitioner beyond the contract: sizes, caps, compactness, repeated rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.partition import BalancedPartitioner, KMeansPartitioner, RandomPartitioner
from gpexperts.partition.base import centroids_of, compact


def parts(partitioner, X: np.ndarray, n_parts: int, seed: int = 0) -> np.ndarray:
    return partitioner.partition(X, n_parts, np.random.RandomState(seed))


def spread_within(X: np.ndarray, labels: np.ndarray) -> float:
    """Mean over the parts of the summed squared distance to the centroid."""
    return float(np.mean([((X[labels == i] - X[labels == i].mean(axis=0)) ** 2).sum() for i in set(labels)]))


@given(n=st.integers(2, 300), share=st.floats(0.0, 1.0), d=st.integers(1, 4), seed=st.integers(0, 99))
def test_balanced_and_random_parts_are_nearly_equal(n: int, share: float, d: int, seed: int) -> None:
    M = max(1, int(share * n))
    X = np.random.default_rng(seed).normal(size=(n, d))
    random = np.bincount(parts(RandomPartitioner(), X, M, seed), minlength=M)
    assert random.max() - random.min() <= 1
    balanced = np.bincount(parts(BalancedPartitioner(), X, M, seed), minlength=M)
    assert balanced.min() >= 1
    assert balanced.max() - balanced.min() <= 2


@pytest.mark.parametrize("X", [np.ones((50, 2)), np.repeat([[0.0], [1.0]], 25, axis=0), np.zeros((50, 1))])
def test_balanced_parts_of_equal_rows_have_equal_sizes(X: np.ndarray) -> None:
    sizes = np.bincount(parts(BalancedPartitioner(), X, 7), minlength=7)
    assert sizes.min() >= 6
    assert sizes.max() <= 9


def test_balanced_parts_are_compact() -> None:
    X = np.random.default_rng(0).normal(size=(600, 3))
    balanced, kmeans, random = (
        spread_within(X, parts(p(), X, 12))
        for p in (BalancedPartitioner, KMeansPartitioner, RandomPartitioner)
    )
    assert kmeans <= balanced < 1.5 * kmeans
    assert balanced < 0.6 * random


def test_balanced_parts_of_many_inputs_are_compact() -> None:
    rng = np.random.default_rng(0)
    X = np.hstack([3.0 * rng.normal(size=(600, 2)), np.eye(100)[rng.integers(0, 100, 600)]])
    balanced, random = (spread_within(X, parts(p(), X, 12)) for p in (BalancedPartitioner, RandomPartitioner))
    narrow = spread_within(X, parts(BalancedPartitioner(), X[:, :2], 12))
    assert balanced < 1.05 * narrow
    assert balanced < 0.4 * random


def test_kmeans_finds_separate_clusters() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [10, 0], [0, 10], [10, 10]])
    truth = np.repeat(np.arange(4), 30)
    X = centres[truth] + 0.1 * rng.normal(size=(120, 2))
    labels = parts(KMeansPartitioner(n_init=5), X, 4)
    assert len({(a, b) for a, b in zip(truth, labels, strict=True)}) == 4


def test_max_size_splits_kmeans_parts() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([0.01 * rng.normal(size=(200, 2)), 5 + rng.normal(size=(40, 2))])
    labels = parts(KMeansPartitioner(max_size=30), X, 4)
    sizes = np.bincount(labels)
    assert sizes.max() <= 30
    assert sizes.min() >= 1
    uncapped = parts(KMeansPartitioner(), X, 4)
    pairs = {(a, b) for a, b in zip(labels, uncapped, strict=True)}
    assert len(pairs) == len(sizes)  # parts are split and never mixed


def test_max_size_of_one_row() -> None:
    X = np.repeat([[0.0], [1.0]], 6, axis=0)
    assert np.bincount(parts(KMeansPartitioner(max_size=1), X, 2)).tolist() == [1] * 12


def test_fewer_distinct_rows_than_clusters_do_not_warn() -> None:
    X = np.repeat([[0.0], [1.0], [2.0]], 10, axis=0)
    assert len(np.unique(parts(KMeansPartitioner(), X, 6))) == 3


def test_compact_keeps_the_order_of_labels() -> None:
    assert compact(np.array([9, 3, 3, 7])).tolist() == [2, 0, 0, 1]


def test_centroids_are_the_means_of_parts() -> None:
    X = np.arange(10.0).reshape(5, 2)
    expected = [X[:2].mean(axis=0), X[2:].mean(axis=0)]
    np.testing.assert_allclose(centroids_of(X, np.array([0, 2, 5])), expected)


@pytest.mark.parametrize("max_size", [0, -5])
def test_invalid_max_size_is_refused(max_size: int) -> None:
    with pytest.raises(ValueError, match="max_size must be None or at least 1"):
        parts(KMeansPartitioner(max_size=max_size), np.zeros((4, 1)), 2)

"""Shards: many rows are divided by places, and each shard is partitioned by itself."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.partition import BalancedPartitioner, KMeansPartitioner, RandomPartitioner, shards
from gpexperts.partition.shards import _apportioned, _Router, partition_shards
from gpexperts.rows.arrays import ArrayRows

NONE = np.empty(0, dtype=np.int64)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=20).filter(sum), st.floats(0.0, 1.0))
def test_parts_are_divided_by_the_rows_of_shards(sizes: list[int], share: float) -> None:
    rows = np.array(sizes)
    total = max(int((rows > 0).sum()), int(share * rows.sum()))
    counts = _apportioned(total, rows)
    assert counts.sum() == total
    assert (counts <= rows).all()
    assert ((counts >= 1) == (rows > 0)).all()


def test_rows_go_to_the_nearest_place() -> None:
    route = _Router(np.array([1.0, 10.0]), np.array([[0.0, 0.0], [1.0, 1.0]]), None, np.array([2]))
    X = np.array([[0.1, 0.0], [0.9, 9.0], [0.9, 9.0], [0.0, 14.0]])
    assert route(X, np.arange(4)).tolist() == [0, 1, -1, 1]
    assert route(X[1:], np.arange(1, 4)).tolist() == [1, -1, 1]  # whatever rows come together
    assert pickle.loads(pickle.dumps(route))(X, np.arange(4)).tolist() == [0, 1, -1, 1]


def test_rows_are_divided_at_random_by_their_number() -> None:
    route = _Router(np.ones(1), None, np.array([2, 0, 1, 0], dtype=np.int32), np.array([1]))
    assert route(np.zeros((2, 1)), np.array([1, 2])).tolist() == [-1, 1]


@pytest.mark.parametrize(
    "partitioner", [BalancedPartitioner(), KMeansPartitioner(), RandomPartitioner()], ids=str
)
def test_the_same_seed_gives_the_same_parts(monkeypatch, partitioner) -> None:
    monkeypatch.setattr(shards, "SHARD_ROWS", 50)
    rng = np.random.default_rng(0)
    source = ArrayRows(rng.normal(size=(200, 2)), rng.normal(size=(200, 1)))
    sample = source.sample(80, np.random.RandomState(1))

    def cut() -> list:
        rng = np.random.RandomState(0)
        return partition_shards(source, 12, partitioner, np.ones(2), sample, NONE, rng)

    first, second = cut(), cut()
    assert len(first) == 4
    for ours, theirs in zip(first, second, strict=True):
        np.testing.assert_array_equal(ours.rows.number, theirs.rows.number)
        np.testing.assert_array_equal(ours.offsets, theirs.offsets)
    sizes = np.concatenate([part.sizes for part in first])
    assert len(sizes) == 12
    assert sizes.sum() == 200


@pytest.mark.parametrize("n_experts", [1, 2])
def test_there_are_no_more_shards_than_experts(monkeypatch, n_experts: int) -> None:
    monkeypatch.setattr(shards, "SHARD_ROWS", 10)
    source = ArrayRows(np.arange(60.0)[:, None], np.zeros((60, 1)))
    sample = source.sample(30, np.random.RandomState(1))
    arguments = (BalancedPartitioner(), np.ones(1), sample, NONE, np.random.RandomState(0))
    parts = partition_shards(source, n_experts, *arguments)
    assert [len(part.sizes) for part in parts] == [1] * n_experts


def test_a_place_without_rows_gives_no_part(monkeypatch) -> None:
    """All rows of one place are shared, so that its shard is empty."""
    monkeypatch.setattr(shards, "SHARD_ROWS", 20)
    X = np.repeat([[0.0], [100.0]], [40, 40], axis=0) + np.linspace(0, 1, 80)[:, None]
    source = ArrayRows(X, X)
    sample = source.sample(80, np.random.RandomState(1))
    arguments = (BalancedPartitioner(), np.ones(1), sample, np.arange(40, 80), np.random.RandomState(0))
    parts = partition_shards(source, 8, *arguments)
    numbers = np.concatenate([part.rows.number for part in parts])
    assert sorted(numbers) == list(range(40))
    assert all(part.sizes.min() >= 1 for part in parts)

"""Training blocks: one from every region, made of nearest rows, at a cost that does not grow with n."""

from __future__ import annotations

import numpy as np
import pytest

from gpexperts.rows.arrays import ArrayRows
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.likelihood import Block


def sampler_of(X: np.ndarray, y: np.ndarray, sample_rows: int | None = None, outputs=(0,)) -> BlockSampler:
    source = ArrayRows(X, y)
    sample = source.sample(sample_rows or len(X), np.random.RandomState(1))
    return BlockSampler(source, sample, np.array(outputs), np.random.RandomState(0))


def blocks_of(
    n: int, n_blocks: int, block_size: int, metric: np.ndarray | None = None
) -> tuple[np.ndarray, list[Block]]:
    X = np.random.default_rng(0).uniform(size=(n, 2))
    y = np.arange(n, dtype=float)[:, None]
    return X, sampler_of(X, y).draw(np.ones(2) if metric is None else metric, n_blocks, block_size)


def test_few_rows_are_all_used_once() -> None:
    _, blocks = blocks_of(500, n_blocks=30, block_size=100)
    rows = np.concatenate([b.y[:, 0] for b in blocks])
    assert sorted(rows) == list(range(500))
    assert max(len(b.y) for b in blocks) <= 100


def test_many_rows_give_blocks_of_the_requested_size() -> None:
    X, blocks = blocks_of(5000, n_blocks=8, block_size=50)
    assert [len(b.y) for b in blocks] == [50] * 8
    for block in blocks:
        np.testing.assert_array_equal(block.X, X[block.y[:, 0].astype(int)])
        # 50 of 625 rows of a region: neighbours span far less than the region.
        assert np.ptp(block.X, axis=0).max() < 0.25


def test_every_region_has_a_block() -> None:
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(0, 1, size=(900, 1)), rng.normal(50, 1, size=(100, 1))])
    blocks = sampler_of(X, X).draw(np.ones(1), n_blocks=10, block_size=40)
    assert any(b.X.mean() > 40 for b in blocks)


def test_neighbours_are_those_in_the_metric() -> None:
    _, (block,) = blocks_of(5000, n_blocks=1, block_size=50, metric=np.array([1e-3, 1e3]))
    assert np.ptp(block.X[:, 0]) < 0.05
    assert np.ptp(block.X[:, 1]) > 0.8


def test_blocks_are_the_nearest_of_all_rows_also_of_those_outside_the_sample() -> None:
    rng = np.random.default_rng(0)
    X, metric = rng.normal(size=(2000, 2)), np.array([0.2, 5.0])
    y = np.stack([np.ones(2000), X[:, 0] ** 2], axis=1)
    sampler = sampler_of(X, y, 200, outputs=(1,))
    sample = sampler.sample.X
    blocks = sampler.draw(metric, n_blocks=4, block_size=25)
    assert len(blocks) == 4
    for block in blocks:
        np.testing.assert_array_equal(block.y, block.X[:, :1] ** 2)
        own = {tuple(x) for x in block.X}
        sq = (((X[None] - sample[:, None]) / metric) ** 2).sum(axis=2)
        nearest = np.argsort(sq, axis=1)[:, :25]
        assert any(own == {tuple(x) for x in X[numbers]} for numbers in nearest)


def test_spread_and_variance_are_those_of_the_outputs_to_train_on() -> None:
    rng = np.random.default_rng(0)
    X = np.stack([rng.normal(0, 3, 100), np.ones(100)], axis=1)
    y = rng.normal(size=(100, 3)) * [1.0, 5.0, 10.0]
    sampler = sampler_of(X, y, outputs=(0, 2))
    np.testing.assert_allclose(sampler.spread, [X[:, 0].std(), 1.0])
    np.testing.assert_allclose(sampler.y_spread, y[:, [0, 2]].std(axis=0))
    assert sampler.variance == pytest.approx(y[:, [0, 2]].var())


def test_spread_of_inputs_that_share_a_length_scale() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) * [1.0, 3.0, 4.0]
    rows = ArrayRows(X, X[:, :1])
    index = np.array([0, 1, 1])
    for n in (300, 100):
        sample = rows.sample(n, np.random.RandomState(0))
        sampler = BlockSampler(rows, sample, np.array([0]), np.random.RandomState(0), index)
        both = np.sqrt(sample.X[:, 1].var() + sample.X[:, 2].var())
        np.testing.assert_allclose(sampler.spread, [sample.X[:, 0].std(), both, both])
        np.testing.assert_allclose(sampler.of_sample().spread, sampler.spread)

"""Blocks come from every region, are made of neighbours, and cost the same whatever n."""

from __future__ import annotations

import numpy as np

from gpexperts.training.blocks import sample_blocks


def blocks_of(n: int, n_blocks: int, block_size: int, scale: np.ndarray | None = None):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 2))
    y = np.arange(n, dtype=float)[:, None]
    scale = np.ones(2) if scale is None else scale
    random_state = np.random.RandomState(0)
    return X, sample_blocks(X, y, scale, n_blocks=n_blocks, block_size=block_size, random_state=random_state)


def test_few_rows_are_all_used_once() -> None:
    _, blocks = blocks_of(500, n_blocks=30, block_size=100)
    rows = np.concatenate([b.y[:, 0] for b in blocks])
    assert sorted(rows) == list(range(500))
    assert max(len(b.y) for b in blocks) <= 100


def test_many_rows_give_blocks_of_the_size_asked_for() -> None:
    X, blocks = blocks_of(5000, n_blocks=8, block_size=50)
    assert [len(b.y) for b in blocks] == [50] * 8
    for block in blocks:
        np.testing.assert_array_equal(block.X, X[block.y[:, 0].astype(int)])
        # 50 of 625 rows of a part: neighbours span far less than the part does.
        assert np.ptp(block.X, axis=0).max() < 0.25


def test_every_region_has_its_say() -> None:
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(0, 1, size=(900, 1)), rng.normal(50, 1, size=(100, 1))])
    blocks = sample_blocks(
        X, X, np.ones(1), n_blocks=10, block_size=40, random_state=np.random.RandomState(0)
    )
    assert any(b.X.mean() > 40 for b in blocks)


def test_the_metric_decides_who_is_a_neighbour() -> None:
    _, blocks = blocks_of(5000, n_blocks=1, block_size=50, scale=np.array([1e-3, 1e3]))
    (block,) = blocks
    assert np.ptp(block.X[:, 0]) < 0.05
    assert np.ptp(block.X[:, 1]) > 0.8

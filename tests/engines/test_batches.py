"""Batches of about equal cost."""

from __future__ import annotations

import numpy as np

from gpexperts.engines.batches import balanced_batches, in_order


def test_batches_have_about_equal_costs_and_are_undone() -> None:
    costs = np.random.default_rng(0).uniform(1, 10, size=50).tolist()
    batches = balanced_batches(costs, 4)
    loads = [sum(costs[i] for i in batch) for batch in batches]
    assert max(loads) - min(loads) < 10
    assert in_order(batches, batches) == list(range(50))


def test_no_batch_is_empty() -> None:
    assert balanced_batches([1.0], 4) == [[0]]
    assert balanced_batches([0.0, 0.0], 2) == [[0], [1]]
    assert balanced_batches([], 4) == []
    assert in_order([], []) == []

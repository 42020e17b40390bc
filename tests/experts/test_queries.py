"""Queries grouped by selected expert and by pair of selected experts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.experts.queries import queries_by_expert, queries_by_pair


@given(st.integers(0, 12), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_every_expert_and_every_pair_of_a_query_is_found_once(n: int, K: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    index = np.array([rng.permutation(6)[:K] for _ in range(n)], dtype=np.int64).reshape(n, K)
    index[rng.random(index.shape) < 0.3] = -1  # padding
    entries = {
        (g.expert, q, c) for g in queries_by_expert(index) for q, c in zip(g.query, g.column, strict=True)
    }
    assert entries == {(index[q, c], q, c) for q in range(n) for c in range(K) if index[q, c] >= 0}
    pairs = [
        (p.i, p.j, q, a, b)
        for p in queries_by_pair(index)
        for q, a, b in zip(p.query, p.column_i, p.column_j, strict=True)
    ]
    assert sorted(pairs) == sorted(
        (index[q, a], index[q, b], q, a, b)
        for q in range(n)
        for a in range(K)
        for b in range(K)
        if 0 <= index[q, a] < index[q, b]
    )


@pytest.mark.parametrize("shape", [(0, 3), (0, 1), (4, 1)])
def test_no_queries_or_one_expert_per_query_give_no_pairs(shape: tuple[int, int]) -> None:
    assert list(queries_by_pair(np.zeros(shape, dtype=np.int64))) == []

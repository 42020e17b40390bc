"""Exact nearest rows against sorting all of them; ties are broken by row number."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.engines import ThreadEngine
from gpexperts.rows.neighbours import Nearest, RowIndex, _Scan, _Tree, distance_keys, merged

_rng = np.random.default_rng(0)
ROWS = {
    "uniform": _rng.uniform(size=(1500, 3)),
    "many directions": _rng.normal(size=(800, 40)),
    "one-hot": np.eye(12)[_rng.integers(12, size=900)],
    "one-hot and a number": np.hstack([np.eye(8)[_rng.integers(8, size=900)], _rng.normal(size=(900, 1))]),
    "binary": _rng.integers(2, size=(900, 20)).astype(float),
    "grid": np.stack(np.meshgrid(*[np.arange(8.0)] * 3), -1).reshape(-1, 3),
    "all equal": np.ones((300, 4)),
    "d = 500": _rng.normal(size=(300, 500)),
    "d = 1": _rng.normal(size=(400, 1)),
    "d = 1, integers": _rng.integers(-5, 5, size=(400, 1)).astype(float),
    "one row": np.ones((1, 2)),
}


def sorted_rows(X: np.ndarray, t: np.ndarray, metric: np.ndarray, numbers: np.ndarray) -> tuple:
    """All rows by (distance, number), and their squared distances."""
    centre = X.mean(axis=0)
    sq = (((X - centre) / metric - (t - centre) / metric) ** 2).sum(axis=1)
    order = np.lexsort((numbers, distance_keys(sq)))
    return order, sq


@pytest.mark.parametrize("kind", [_Tree, _Scan, None])
@pytest.mark.parametrize("name", ROWS)
def test_nearest_rows_are_those_of_sorting(name: str, kind) -> None:
    X, rng = ROWS[name], np.random.default_rng(1)
    n, d = X.shape
    metric = np.ones(d) if name in ("grid", "one-hot") else rng.uniform(0.5, 2.0, size=d)
    numbers = rng.permutation(n)
    T = np.vstack([X[:6], X[6:12] + 0.1 * rng.normal(size=X[6:12].shape), X[12:15] + 0.5, X[:1] + 1e3])
    index = RowIndex(X, metric, numbers)
    if kind is not None:
        index._search = kind(index._Z, numbers)
    for m in sorted({1, min(10, n), min(129, n), max(1, n - 1), n}):
        rows, sq = index.nearest(T, m, ThreadEngine(2))
        assert rows.shape == sq.shape == (len(T), m)
        for i, t in enumerate(T):
            order, expected = sorted_rows(X, t, metric, numbers)
            np.testing.assert_array_equal(rows[i], order[:m])
            np.testing.assert_allclose(sq[i], expected[order[:m]], rtol=1e-9, atol=1e-12)
        last = slice(len(T) - 2, len(T) - 1)
        np.testing.assert_array_equal(index.nearest(T[last], m)[0], rows[last])


@given(
    n=st.integers(1, 90),
    d=st.integers(1, 4),
    share=st.floats(0.0, 1.0),
    values=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_pieces_merge_to_the_nearest_rows_of_all(
    n: int, d: int, share: float, values: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, values, size=(n, d)).astype(float)
    points, metric, m = X[rng.integers(0, n, 4)], 2.0 ** rng.integers(-3, 4, d), max(1, int(share * n))
    sq = (((X[None] - points[:, None]) / metric) ** 2).sum(axis=2)
    expected = np.lexsort((np.broadcast_to(np.arange(n), sq.shape), sq), axis=1)[:, :m]
    np.testing.assert_array_equal(RowIndex(X, metric).nearest(points, m)[0], expected)
    pieces = []
    for part in np.split(np.arange(n), np.sort(rng.integers(0, n + 1, size=2))):
        if len(part):
            positions, squares = RowIndex(X[part], metric, part).nearest(points, min(m, len(part)))
            pieces.append(Nearest(squares, part[positions]))
    np.testing.assert_array_equal(merged(pieces, m).number, expected)


@given(st.integers(2, 80), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_rows_at_very_different_distances(n: int, d: int, seed: int) -> None:
    """Distances between 1e-6 and 1e6: a matrix product alone would not tell the near rows apart."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-6, 7, size=(n, 1))
    points, m = X[:3], (n + 1) // 2
    found = RowIndex(X, np.ones(d)).nearest(points, m)[0]
    sq = ((X[None] - points[:, None]) ** 2).sum(axis=2)
    # The centre of the rows is subtracted first, which costs digits of distances that are far smaller.
    error = 1e-14 * np.abs(X).max() ** 2
    expected = np.sort(sq, axis=1)[:, :m]
    np.testing.assert_allclose(np.take_along_axis(sq, found, axis=1), expected, rtol=3e-9, atol=error)
    assert all(len(set(row)) == m for row in found.tolist())


def test_the_search_follows_the_number_of_directions() -> None:
    for name, kind in (("uniform", _Tree), ("d = 500", _Scan), ("all equal", _Tree)):
        index = RowIndex(ROWS[name], np.ones(ROWS[name].shape[1]))
        index.nearest(ROWS[name][:1], 1)
        assert isinstance(index._search, kind)


def test_an_index_can_be_pickled_and_asked_without_queries() -> None:
    index = RowIndex(ROWS["uniform"], np.ones(3))
    assert index.nearest(np.empty((0, 3)), 4)[0].shape == (0, 4)
    expected = index.nearest(ROWS["uniform"][:5], 7)
    for ours, theirs in zip(
        pickle.loads(pickle.dumps(index)).nearest(ROWS["uniform"][:5], 7), expected, strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)

"""Points of levels: their distances are what the kernel is to see."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from gpexperts.columns.codes import MOST_LEVELS, level_points, n_columns


@pytest.mark.parametrize("n", [2, 3, 7, 32])
def test_few_levels_are_at_distance_1(n: int) -> None:
    points = level_points(n)
    assert points.shape == (n, n_columns(n)) == (n, n - 1)
    np.testing.assert_allclose(pdist(points), 1.0, rtol=1e-12)


@pytest.mark.parametrize(("n", "columns"), [(33, 31), (400, 31), (1024, 31), (1025, 63), (MOST_LEVELS, 63)])
def test_many_levels_are_nearly_at_distance_1_in_few_columns(n: int, columns: int) -> None:
    points = level_points(n)
    assert points.shape == (n, columns) == (n, n_columns(n))
    some = points[np.random.default_rng(0).permutation(n)[:1100]]
    squares = pdist(some) ** 2
    assert set(np.unique(squares.round(9))) == {0.75, 1.0, 1.25}
    assert abs(squares.mean() - 1.0) < 0.05


def test_one_level_is_one_constant_column() -> None:
    np.testing.assert_array_equal(level_points(1), [[0.0]])

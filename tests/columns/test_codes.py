"""Points of levels: their distances are what the kernel is to see."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from gpexperts.columns.codes import DEGREES, MOST_LEVELS, code_degree, level_points, most_levels, n_columns


@pytest.mark.parametrize(
    ("n", "degree"), [(2, 5), (3, 5), (7, 7), (32, 5), (64, 6), (128, 7), (400, 10), (1024, 10)]
)
def test_few_levels_are_at_distance_1(n: int, degree: int) -> None:
    points = level_points(n, degree)
    assert points.shape == (n, n_columns(n, degree)) == (n, n if n > 2 else 1)
    np.testing.assert_allclose(pdist(points), 1.0, rtol=1e-12)


@pytest.mark.parametrize(("degree", "away"), [(5, 0.25), (6, 0.25), (7, 0.125)])
@pytest.mark.parametrize("all_levels", [False, True])
def test_many_levels_are_nearly_at_distance_1_in_few_columns(
    degree: int, away: float, all_levels: bool
) -> None:
    n = 4**degree if all_levels else 2**degree + 1
    points = level_points(n, degree)
    assert points.shape == (n, 2**degree - 1) == (n, n_columns(n, degree))
    some = points[np.random.default_rng(0).permutation(n)[:800]]
    assert set(np.unique((pdist(some) ** 2).round(9))) <= {1 - away, 1.0, 1 + away}
    np.testing.assert_allclose(pdist(points[: 2**degree]), 1.0, rtol=1e-12)


def test_one_level_is_one_constant_column() -> None:
    np.testing.assert_array_equal(level_points(1, 5), [[0.0]])


@pytest.mark.parametrize(
    ("n", "n_rows", "columns"),
    [(3, 10**7, 3), (100, 10**4, 100), (400, 8 * 10**4, 400), (400, 10**5, 127), (400, 10**6, 31),
     (1024, 10**4, 1024), (1025, 10**4, 127), (1025, 10**6, 63), (MOST_LEVELS, 10**7, 127)],
)  # fmt: skip
def test_columns_depend_on_the_number_of_rows(n: int, n_rows: int, columns: int) -> None:
    degree = code_degree(n, n_rows)
    assert degree in DEGREES
    assert n <= most_levels(degree)
    assert n_columns(n, degree) == columns

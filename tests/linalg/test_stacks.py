"""LAPACK on stacks of matrices, against NumPy on each of them."""

from __future__ import annotations

import numpy as np
import pytest

from gpexperts.linalg.stacks import (
    cholesky_each_in_place,
    solve_transposed_each_in_place,
    solve_triangular_each_in_place,
)

ORDERS = [1, 2, 31, 127, 128, 131, 249, 250, 300]


def stack_of(n: int, size: int = 3) -> np.ndarray:
    B = np.random.default_rng(n).normal(size=(size, n, n))
    return B @ B.transpose(0, 2, 1) + np.eye(n)


@pytest.mark.parametrize("n", ORDERS)
def test_cholesky_of_every_matrix(n: int) -> None:
    C = stack_of(n)
    A = np.triu(C)  # the lower triangle is not read
    np.testing.assert_array_equal(cholesky_each_in_place(A), 0)
    np.testing.assert_allclose(np.triu(A).transpose(0, 2, 1), np.linalg.cholesky(C), atol=1e-9)


@pytest.mark.parametrize("n", ORDERS)
def test_a_failure_is_reported_by_row_and_does_not_change_the_others(n: int) -> None:
    for row in {1, n // 2 + 1, n}:
        C = stack_of(n)
        C[1, row - 1, row - 1] = -1.0
        A = C.copy()
        np.testing.assert_array_equal(cholesky_each_in_place(A), [0, row, 0])
        for i in (0, 2):
            np.testing.assert_allclose(np.triu(A[i]).T, np.linalg.cholesky(C[i]), atol=1e-9)


@pytest.mark.parametrize("n", ORDERS)
@pytest.mark.parametrize("extra", [0, 3])
def test_solves_with_the_leading_triangle(n: int, extra: int) -> None:
    C, rng = stack_of(n + extra), np.random.default_rng(0)
    A = C.copy()
    cholesky_each_in_place(A)
    L = np.linalg.cholesky(C)[:, :n, :n]
    b = rng.normal(size=(3, 4, n))
    expected = np.linalg.solve(L, b.transpose(0, 2, 1)).transpose(0, 2, 1)
    solve_triangular_each_in_place(A, n, b)
    np.testing.assert_allclose(b, expected, rtol=1e-8, atol=1e-10)
    c = rng.normal(size=(3, n))
    expected = np.linalg.solve(L.transpose(0, 2, 1), c[:, :, None])[:, :, 0]
    solve_transposed_each_in_place(A, n, c)
    np.testing.assert_allclose(c, expected, rtol=1e-8, atol=1e-10)


def test_an_empty_stack() -> None:
    assert cholesky_each_in_place(np.empty((0, 5, 5))).shape == (0,)


@pytest.mark.parametrize("a", [np.ones((2, 3, 3), dtype=np.float32), np.ones((4, 3, 3))[::2]])
def test_other_types_and_layouts_are_refused(a: np.ndarray) -> None:
    with pytest.raises(TypeError, match="C-contiguous float64"):
        cholesky_each_in_place(a)

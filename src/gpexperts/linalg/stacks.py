"""LAPACK and BLAS on every matrix of a stack, in place, without holding Python's lock.

LAPACK has no batched routines. One call through :mod:`ctypes` costs two microseconds, while
:func:`numpy.linalg.cholesky` copies every matrix twice and does not report which one failed.

Stacks are C-contiguous, float64. LAPACK reads a matrix by columns: what it calls the lower triangle of
``a[i]`` is the upper one of the array, so that entry ``L[r, c]`` of a factor is found at ``a[i, c, r]``.
"""

from __future__ import annotations

import ctypes

import numpy as np
from scipy.linalg import cython_blas

from gpexperts.linalg.lapack import CHAR, DOUBLE, INT, MATRIX, dpotrf, dtrsm, routine

__all__ = ["cholesky_each_in_place", "solve_transposed_each_in_place", "solve_triangular_each_in_place"]

_dtrsv = routine(cython_blas, "dtrsv", CHAR, CHAR, CHAR, INT, MATRIX, INT, MATRIX, INT)
_dsyrk = routine(
    cython_blas, "dsyrk", CHAR, CHAR, INT, INT, DOUBLE, MATRIX, INT, DOUBLE, MATRIX, INT
)  # fmt: skip
_ONE = ctypes.c_int(1)
_HALVED = range(128, 250)
"""Orders that OpenBLAS factorises faster in two halves: from 128 on it packs blocks that are too small."""


def cholesky_each_in_place(a: np.ndarray) -> np.ndarray:
    """Overwrite the upper triangle of every ``a[i]`` (b, n, n) with Lᵀ, a = L Lᵀ.

    Returns
    -------
    info : ndarray of int32, shape (b,)
        0, or the number of the row (from 1) where the factorisation of that matrix failed.
    """
    _check(a)
    size, n, _ = a.shape
    info, failed = np.zeros(size, dtype=np.int32), ctypes.c_int()
    where, order = ctypes.byref(failed), ctypes.byref(ctypes.c_int(n))
    at, step = a.ctypes.data, 8 * n * n
    if n not in _HALVED:
        for i in range(size):
            dpotrf(b"L", order, at + i * step, order, where)
            if failed.value:
                info[i] = failed.value
        return info
    half = n // 2
    upper, lower = ctypes.byref(ctypes.c_int(half)), ctypes.byref(ctypes.c_int(n - half))
    plus, minus = ctypes.byref(ctypes.c_double(1.0)), ctypes.byref(ctypes.c_double(-1.0))
    below, corner = 8 * half, 8 * half * (n + 1)
    for i in range(size):
        dpotrf(b"L", upper, at, order, where)
        info[i] = failed.value
        if not failed.value:
            dtrsm(b"R", b"L", b"T", b"N", lower, upper, plus, at, order, at + below, order)
            _dsyrk(b"L", b"N", lower, upper, minus, at + below, order, plus, at + corner, order)
            dpotrf(b"L", lower, at + corner, order, where)
            info[i] = half + failed.value if failed.value > 0 else 0
        at += step
    return info


def solve_triangular_each_in_place(a: np.ndarray, n: int, b: np.ndarray) -> None:
    """Overwrite every row of ``b[i]`` (s, k, n) with L⁻¹ times it; L is the leading triangle of ``a[i]``."""
    _check(a, b)
    rows, columns, stride = (ctypes.byref(ctypes.c_int(v)) for v in (n, b.shape[1], a.shape[1]))
    one = ctypes.byref(ctypes.c_double(1.0))
    at_a, step_a, at_b, step_b = a.ctypes.data, 8 * a.shape[1] ** 2, b.ctypes.data, 8 * b.shape[1] * n
    for i in range(len(a)):
        dtrsm(b"L", b"L", b"N", b"N", rows, columns, one, at_a + i * step_a, stride, at_b + i * step_b, rows)


def solve_transposed_each_in_place(a: np.ndarray, n: int, b: np.ndarray) -> None:
    """Overwrite every ``b[i]`` (s, n) with L⁻ᵀ times it; L is the leading n × n triangle of ``a[i]``."""
    _check(a, b)
    rows, stride, one = (
        ctypes.byref(ctypes.c_int(n)),
        ctypes.byref(ctypes.c_int(a.shape[1])),
        ctypes.byref(_ONE),
    )
    at_a, step_a, at_b, step_b = a.ctypes.data, 8 * a.shape[1] ** 2, b.ctypes.data, 8 * n
    for i in range(len(a)):
        _dtrsv(b"L", b"T", b"N", rows, at_a + i * step_a, stride, at_b + i * step_b, one)


def _check(*stacks: np.ndarray) -> None:
    for a in stacks:
        if a.dtype != np.float64 or not a.flags.c_contiguous:
            raise TypeError("expected C-contiguous float64 arrays")

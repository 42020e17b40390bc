"""LAPACK and BLAS routines, called without the interpreter lock.

SciPy's wrappers hold the global interpreter lock during LAPACK calls, so that two threads are no faster
than one (`benchmarks/efficiency.py` measures it). SciPy publishes the same routines as C function pointers
(`scipy.linalg.cython_lapack`, a public interface). Called through :mod:`ctypes`, they release the lock.
Nothing is compiled or copied.

All matrices are double precision and in Fortran order; every routine works in place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

__all__ = [
    "cholesky_in_place",
    "inverse_from_cholesky_in_place",
    "invert_triangular_in_place",
    "multiply_triangular_in_place",
    "solve_triangular_in_place",
]

CHAR, INT, DOUBLE = (
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_int),
    ctypes.POINTER(ctypes.c_double),
)
MATRIX = ctypes.c_void_p

_LEAF = 64
"""Triangles up to this size are inverted by LAPACK directly."""


def routine(module: ModuleType, name: str, *argtypes: Any) -> Callable[..., None]:
    """Return a LAPACK or BLAS routine as a function that releases the interpreter lock."""
    capsule = module.__pyx_capi__[name]
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = get_name(capsule)
    if signature is None or signature.count(b"int *") != argtypes.count(INT):
        # A SciPy built with 64-bit LAPACK integers: calling it with 32-bit ones would corrupt memory.
        raise ImportError(
            f"scipy.linalg's {name} has the unexpected signature {signature!r}; "
            "gpexperts needs a SciPy built with 32-bit LAPACK integers, as the wheels are."
        )
    return ctypes.CFUNCTYPE(None, *argtypes)(get_pointer(capsule, signature))


dpotrf = routine(cython_lapack, "dpotrf", CHAR, INT, MATRIX, INT, INT)
_dtrtri = routine(cython_lapack, "dtrtri", CHAR, CHAR, INT, MATRIX, INT, INT)
_dlauum = routine(cython_lapack, "dlauum", CHAR, INT, MATRIX, INT, INT)
_triangular = (CHAR, CHAR, CHAR, CHAR, INT, INT, DOUBLE, MATRIX, INT, MATRIX, INT)
dtrsm = routine(cython_blas, "dtrsm", *_triangular)
_dtrmm = routine(cython_blas, "dtrmm", *_triangular)


def _by_reference(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


def _check(*matrices: np.ndarray) -> None:
    for a in matrices:
        if a.dtype != np.float64 or a.ndim != 2 or not a.flags.f_contiguous:
            raise TypeError("expected two-dimensional float64 arrays in Fortran order")


def cholesky_in_place(a: np.ndarray) -> int:
    """Overwrite the lower triangle of `a` (n, n) with its Cholesky factor L, a = L Lᵀ.

    Returns
    -------
    info : int
        0 on success; k > 0 if the leading minor of order k is not positive definite.
        The strict upper triangle is unchanged.
    """
    _check(a)
    n, info = len(a), ctypes.c_int()
    dpotrf(b"L", _by_reference(n), a.ctypes.data, _by_reference(max(1, n)), ctypes.byref(info))
    return info.value


def invert_triangular_in_place(factor: np.ndarray) -> None:
    """Overwrite the lower triangle of `factor` = L with L⁻¹.

    Recursive: the inverse of [[A, 0], [B, D]] is [[A⁻¹, 0], [−D⁻¹ B A⁻¹, D⁻¹]]. LAPACK's dtrtri has a third
    of the speed of these matrix products, so that it is used for small triangles only.
    """
    _check(factor)
    stride = _by_reference(max(1, len(factor)))

    def corner(row: int, column: int) -> int:
        return factor.ctypes.data + 8 * (row + column * len(factor))

    def invert(start: int, stop: int) -> None:
        size = stop - start
        if size <= _LEAF:
            info = ctypes.c_int()
            _dtrtri(b"L", b"N", _by_reference(size), corner(start, start), stride, ctypes.byref(info))
            if info.value != 0:
                raise np.linalg.LinAlgError(f"the triangular factor is singular in row {info.value}")
            return
        middle = start + size // 2
        invert(start, middle)
        invert(middle, stop)
        rows, columns = _by_reference(stop - middle), _by_reference(middle - start)
        below = corner(middle, start)
        for side, sign, diagonal in ((b"R", 1.0, start), (b"L", -1.0, middle)):
            _dtrmm(
                side, b"L", b"N", b"N", rows, columns, ctypes.byref(ctypes.c_double(sign)),
                corner(diagonal, diagonal), stride, below, stride,
            )  # fmt: skip

    invert(0, len(factor))


def inverse_from_cholesky_in_place(factor: np.ndarray) -> None:
    """Overwrite the lower triangle of `factor` = L with that of (L Lᵀ)⁻¹ = L⁻ᵀ L⁻¹."""
    invert_triangular_in_place(factor)
    n, info = len(factor), ctypes.c_int()
    _dlauum(b"L", _by_reference(n), factor.ctypes.data, _by_reference(max(1, n)), ctypes.byref(info))


def solve_triangular_in_place(factor: np.ndarray, b: np.ndarray, *, transposed: bool = False) -> None:
    """Overwrite `b` (n, k) with L⁻¹ b, or with L⁻ᵀ b if `transposed`; L is `factor`'s lower triangle."""
    _triangular_in_place(dtrsm, factor, b, transposed)


def multiply_triangular_in_place(factor: np.ndarray, b: np.ndarray, *, transposed: bool = False) -> None:
    """Overwrite `b` (n, k) with L b, or with Lᵀ b if `transposed`; L is `factor`'s lower triangle."""
    _triangular_in_place(_dtrmm, factor, b, transposed)


def _triangular_in_place(
    routine: Callable[..., None], factor: np.ndarray, b: np.ndarray, transposed: bool
) -> None:
    _check(factor, b)
    n, k = b.shape
    routine(
        b"L", b"L", b"T" if transposed else b"N", b"N", _by_reference(n), _by_reference(k),
        ctypes.byref(ctypes.c_double(1.0)), factor.ctypes.data, _by_reference(max(1, n)),
        b.ctypes.data, _by_reference(max(1, n)),
    )  # fmt: skip

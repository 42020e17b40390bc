"""How a worker of a cluster does a piece of work: on one BLAS thread, with memory at hand."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from gpexperts.engines.base import Item, Result
from gpexperts.engines.threads import blas_threads

__all__ = ["map_all", "map_with", "memory_at_hand", "worked"]

NANNYS_TRIM = "65536"
"""MALLOC_TRIM_THRESHOLD_ as Dask's nanny sets it unless told otherwise."""
_TRIM, _MMAP = -1, -3
"""glibc's M_TRIM_THRESHOLD, the free memory that is kept, and M_MMAP_THRESHOLD, the size from which an array
has pages of its own, which are given back with it; both in bytes."""
_KEEPING = {_TRIM: 32 * 1024**2, _MMAP: 8 * 1024**2}
_GIVING_BACK = {_TRIM: int(NANNYS_TRIM), _MMAP: 128 * 1024}


def worked(function: Callable[..., Result], *arguments: Any) -> Result:
    """Return ``function(*arguments)``, as every piece of work is done."""
    with blas_threads(1):
        return function(*arguments)


@contextmanager
def memory_at_hand() -> Iterator[None]:
    """Let this process keep a little of the memory it frees while inside.

    Dask's nanny has glibc give everything beyond 64 kB back at once. A matrix of 250 × 250 is then new
    memory each time, page by page, and covariances take twice the time. What rows take while they are
    shuffled had better be given back. A value that somebody chose is left alone.
    """
    mallopt = _mallopt() if os.environ.get("MALLOC_TRIM_THRESHOLD_") == NANNYS_TRIM else None
    try:
        for option, size in _KEEPING.items():
            if mallopt is not None:
                mallopt(option, size)
        yield
    finally:
        for option, size in _GIVING_BACK.items():
            if mallopt is not None:
                mallopt(option, size)


@cache
def _mallopt() -> Any:
    """Glibc's function; None where the C library has none."""
    return getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None


@memory_at_hand()
def map_all(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    """A batch of items, of which none is needed again."""
    return [function(item) for item in items]


@memory_at_hand()
def map_with(function: Callable[[Item, Any], Result], items: list[Item], argument: Any) -> list[Result]:
    """A batch of items that are held."""
    return [function(item, argument) for item in items]

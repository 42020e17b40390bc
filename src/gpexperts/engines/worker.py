"""How a worker of a cluster runs a task: on one BLAS thread, and keeping some of the memory it frees."""

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

__all__ = ["keep_freed_memory", "map_held", "map_items", "run_task"]

_NANNY_TRIM = "65536"
"""Default of MALLOC_TRIM_THRESHOLD_ in Dask's nanny."""
_TRIM, _MMAP = -1, -3
"""glibc's M_TRIM_THRESHOLD, the free memory that is kept, and M_MMAP_THRESHOLD, the size from which an array
gets pages of its own, which are returned when it is freed; both in bytes."""
_KEEPING = {_TRIM: 32 * 1024**2, _MMAP: 8 * 1024**2}
_RETURNING = {_TRIM: int(_NANNY_TRIM), _MMAP: 128 * 1024}


def run_task(function: Callable[..., Result], *arguments: Any) -> Result:
    """Return ``function(*arguments)``, computed on one BLAS thread."""
    with blas_threads(1):
        return function(*arguments)


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Let this process keep some of the memory that it frees while inside.

    Dask's nanny makes glibc return all free memory beyond 64 kB at once. Every matrix of 250 × 250 then needs
    new pages, and covariances take twice the time. While rows are shuffled, memory should be returned, so
    that the setting holds only inside. If the user has set the threshold, it is not changed.
    """
    mallopt = _mallopt() if os.environ.get("MALLOC_TRIM_THRESHOLD_") == _NANNY_TRIM else None
    try:
        for option, size in _KEEPING.items():
            if mallopt is not None:
                mallopt(option, size)
        yield
    finally:
        for option, size in _RETURNING.items():
            if mallopt is not None:
                mallopt(option, size)


@cache
def _mallopt() -> Any:
    """Return glibc's function, or None if the C library has none."""
    return getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None


@keep_freed_memory()
def map_items(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    """Apply a function to a batch of items."""
    return [function(item) for item in items]


@keep_freed_memory()
def map_held(function: Callable[[Item, Any], Result], items: list[Item], argument: Any) -> list[Result]:
    """Apply a function and its argument to a batch of held items."""
    return [function(item, argument) for item in items]

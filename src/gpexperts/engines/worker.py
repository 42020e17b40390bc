"""How a worker of a cluster does a piece of work: on one BLAS thread, with memory at hand."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from gpexperts.engines.base import Item, Result
from gpexperts.engines.threads import blas_threads

__all__ = ["map_all", "map_with", "worked"]

NANNYS_TRIM = "65536"
"""MALLOC_TRIM_THRESHOLD_ as Dask's nanny sets it unless told otherwise."""
TRIM, MMAP = 32 * 1024**2, 8 * 1024**2
"""Free memory that a worker may keep, and the size from which an array gets pages of its own, in bytes."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def worked(function: Callable[..., Result], *arguments: Any) -> Result:
    """Return ``function(*arguments)``, as every piece of work is done."""
    _keep_memory_at_hand()
    with blas_threads(1):
        return function(*arguments)


def map_all(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    """A batch of items, of which none is needed again."""
    return [function(item) for item in items]


def map_with(function: Callable[[Item, Any], Result], items: list[Item], argument: Any) -> list[Result]:
    """A batch of items that are held."""
    return [function(item, argument) for item in items]


@cache
def _keep_memory_at_hand() -> None:
    """Let this process keep a little of the memory it frees.

    Dask's nanny has glibc give everything beyond 64 kB back at once. A matrix of 250 × 250 is then new
    memory each time, page by page, and covariances take twice the time. A value that somebody chose is
    left alone.
    """
    if sys.platform == "linux" and os.environ.get("MALLOC_TRIM_THRESHOLD_") == NANNYS_TRIM:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
        if mallopt is not None:
            mallopt(_M_TRIM_THRESHOLD, TRIM)
            mallopt(_M_MMAP_THRESHOLD, MMAP)

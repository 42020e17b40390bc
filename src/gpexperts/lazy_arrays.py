"""Dask arrays whose `compute` waits for a cluster only as long as the engine allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np

from gpexperts.engines.dask import DaskEngine

__all__ = ["LimitedArray", "computed", "limited"]


class LimitedArray(da.Array):
    """A dask array with limited waits; arrays that are made from it are ordinary ones."""

    engine: DaskEngine

    def compute(self, **kwargs: Any) -> np.ndarray:
        """Return the array; arguments, such as a scheduler, are passed to Dask, whose wait has no limit."""
        if kwargs:
            return np.asarray(super().compute(**kwargs))
        return computed([self])[0]


def limited(array: da.Array, engine: DaskEngine) -> LimitedArray:
    """Return the same array with limited waits."""
    made = LimitedArray(array.dask, array.name, array.chunks, dtype=array.dtype)
    made.engine = engine
    return made


def computed(arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """Return the values of limited arrays, computed together by the engine of the first."""
    if not all(isinstance(array, LimitedArray) for array in arrays):
        raise TypeError("compute takes lazy predictions as `predict` returns them; compute others with Dask.")
    pieces = [list(array.to_delayed(optimize_graph=False).reshape(-1)) for array in arrays]
    values = iter(arrays[0].engine.compute([piece for some in pieces for piece in some]) if arrays else [])
    return tuple(np.concatenate([next(values) for _ in some]) for some in pieces)

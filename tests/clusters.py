"""Dask clusters for tests, and the same rows in collections of many forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd

LIMIT = 60
"""Seconds that a wait may take on a busy machine."""


@contextmanager
def in_process_client(n_workers: int = 2) -> Iterator[distributed.Client]:
    """A cluster whose workers are threads of this process: it starts quickly."""
    settings = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(processes=False, **settings) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def cut(n: int, shares: tuple[float, ...]) -> tuple[int, ...]:
    """Lengths of partitions of n rows; the last takes what is left."""
    lengths = [int(share * n) for share in shares]
    return (*lengths, n - sum(lengths))


def even_arrays(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Two partitions of equal length."""
    lengths = cut(len(X), (0.5,))
    return da.from_array(X, chunks=(lengths, X.shape[1])), _targets(y, lengths)


def uneven_arrays(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Partitions of unequal length, some of them empty; the columns of X and the rows of y are cut apart."""
    lengths = (0, *cut(len(X), (0.1, 0.0, 0.45, 0.04)), 0)
    return da.from_array(X, chunks=(lengths, 1)), _targets(y, cut(len(X), (0.3, 0.3)))


def unknown_arrays(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Arrays whose lengths are unknown before they are computed, one partition of them empty."""
    frame, targets = frames(X, y)
    return frame.to_dask_array(), targets.to_dask_array()


def frames(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Columns of one data frame of three partitions, the second of which has lost its rows to a filter."""
    half = len(X) // 2
    gap = max(half, len(X) - half)
    order = np.concatenate([np.arange(half), np.full(gap, 0), np.arange(half, len(X))])
    table = pd.DataFrame(X[order], columns=names_of(X))
    outputs = y.reshape(len(y), -1)[order]
    targets = [f"y{k}" for k in range(outputs.shape[1])]
    table = pd.concat([table, pd.DataFrame(outputs, columns=targets)], axis=1)
    table["kept"] = True
    table.loc[half : half + gap - 1, "kept"] = False
    divided = dd.from_pandas(table, chunksize=1, sort=False) if len(table) < 3 else _divided(table, half, gap)
    divided = divided[divided["kept"]]
    return divided[names_of(X)], divided["y0"] if y.ndim == 1 else divided[targets]


def _divided(table: pd.DataFrame, half: int, gap: int) -> Any:
    pieces = [table.iloc[:half], table.iloc[half : half + gap], table.iloc[half + gap :]]
    return dd.concat([dd.from_pandas(piece, npartitions=1) for piece in pieces])


def names_of(X: np.ndarray) -> list[str]:
    """Column names of a data frame with the inputs X."""
    return [f"x{k}" for k in range(X.shape[1])]


def _targets(y: np.ndarray, lengths: tuple[int, ...]) -> Any:
    return da.from_array(y, chunks=(lengths,) if y.ndim == 1 else (lengths, y.shape[1]))


COLLECTIONS: dict[str, Callable[[np.ndarray, np.ndarray], tuple[Any, Any]]] = {
    "even arrays": even_arrays,
    "uneven arrays": uneven_arrays,
    "arrays of unknown length": unknown_arrays,
    "frames": frames,
}
"""(X, y) ↦ the same rows as Dask collections."""

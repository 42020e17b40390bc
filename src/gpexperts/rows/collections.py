"""Dask arrays and data frames as a list of blocks of rows, one per partition, none of them loaded."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from gpexperts.columns import ColumnEncoder
from gpexperts.engines.dask_types import is_collection

__all__ = [
    "Partitions",
    "checked_inputs",
    "checked_rows",
    "has_only_numbers",
    "lazy_partitions",
    "paired_partitions",
]


class Partitions(NamedTuple):
    """The partitions of a collection."""

    blocks: list[Any]
    """Delayed arrays or frames."""
    lengths: tuple[int, ...] | None
    """Rows of each, where they are known."""
    names: list[str] | None
    """Columns, where the collection is a data frame."""


def paired_partitions(X: Any, y: Any) -> tuple[list[tuple[Any, Any]], list[str] | None, bool]:
    """Return Delayed pairs of X and y, the columns of X if it is a frame, and whether y has one dimension."""
    if _is_frame(X) and _is_frame(y):
        return _paired_frames(X, y)
    inputs = lazy_partitions(X, "X")
    if not is_collection(y):
        y = _as_collection(np.asarray(y), inputs.lengths)
    if inputs.lengths is not None and hasattr(y, "rechunk"):
        n = sum(inputs.lengths)
        if y.shape[0] != n:
            raise ValueError(f"X has {n} rows and y has {y.shape[0]}; they must have the same number.")
        y = y.rechunk({0: inputs.lengths})
    targets = lazy_partitions(y, "y")
    if len(inputs.blocks) != len(targets.blocks):
        raise ValueError(
            f"X has {len(inputs.blocks)} partitions and y has {len(targets.blocks)}; they must match. Take "
            "both from one frame, or rechunk y."
        )
    return list(zip(inputs.blocks, targets.blocks, strict=True)), inputs.names, y.ndim == 1


def _is_frame(A: Any) -> bool:
    return is_collection(A) and hasattr(A, "npartitions") and not hasattr(A, "rechunk")


def _paired_frames(X: Any, y: Any) -> tuple[list[tuple[Any, Any]], list[str], bool]:
    """Pair two frames. Dask may partition columns of one table differently unless it sees them together."""
    from dask.delayed import delayed

    names = [str(name) for name in X.columns]
    targets = [y] if y.ndim == 1 else [y[name] for name in y.columns]
    try:
        both = X.assign(**{f"target {k} of gpexperts": target for k, target in enumerate(targets)})
    except ValueError as error:  # Dask cannot align two tables without an index
        raise ValueError(
            "The partitions of X and y may not match. Take both from one frame, "
            "table[inputs] and table[target]."
        ) from error
    take, d = delayed(_columns, pure=True), len(names)
    return [(take(b, 0, d), take(b, d, None)) for b in both.to_delayed()], names, y.ndim == 1


def _columns(frame: Any, start: int, stop: int | None) -> Any:
    return frame.iloc[:, start:stop]


def lazy_partitions(A: Any, what: str) -> Partitions:
    """Return the partitions of a collection; `what` is its name in error messages."""
    if hasattr(A, "rechunk"):
        if A.ndim > 2 or (what == "X" and A.ndim != 2):
            raise ValueError(f"{what} must have two dimensions, got shape {A.shape}.")
        if A.ndim == 2:
            A = A.rechunk({1: -1})
        known = not np.isnan(A.chunks[0]).any()
        return Partitions(
            A.to_delayed().ravel().tolist(), tuple(map(int, A.chunks[0])) if known else None, None
        )
    if _is_frame(A):
        names = [str(name) for name in A.columns] if A.ndim == 2 else None
        return Partitions(A.to_delayed(), None, names)
    raise TypeError(f"{what} must be an array, a dask array or a dask frame, got {type(A).__name__}.")


def _as_collection(y: np.ndarray, lengths: tuple[int, ...] | None) -> Any:
    import dask.array as da

    if lengths is None:
        raise ValueError(
            "y is an array of this process, but the partitions of X have unknown lengths; call "
            "X.compute_chunk_sizes() first, or take y from the same frame."
        )
    return da.from_array(y)


def has_only_numbers(X: Any) -> bool:
    """Whether all columns of a collection or a frame are numbers by their type."""
    if not hasattr(X, "dtypes"):  # an array
        return True
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    return all(is_numeric_dtype(dtype) and not is_bool_dtype(dtype) for dtype in X.dtypes)


def checked_inputs(number: int, X: Any) -> Any:
    """Return an array as doubles, NaN allowed, and a frame of other columns as it is."""
    if not has_only_numbers(X):
        return X
    return check_array(
        X,
        dtype=np.float64,
        order="C",
        ensure_min_samples=0,
        ensure_all_finite="allow-nan",
        input_name=f"X (partition {number})",
    )


def checked_rows(
    number: int, X: Any, y: Any, encoder: ColumnEncoder | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets as doubles, or raise an error that names the partition.

    Without an encoder, the inputs are numbers and may be NaN.
    """
    X = checked_inputs(number, X)
    if encoder is not None:
        X, _ = encoder.encoded(X)
    y = check_array(
        y, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, input_name=f"y (partition {number})"
    )
    if len(y) != len(X):
        raise ValueError(
            f"Partition {number} of X has {len(X)} rows, that of y {len(y)}; they must have the same number."
        )
    return X, np.ascontiguousarray(y[:, None] if y.ndim == 1 else y)

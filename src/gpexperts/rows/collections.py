"""Dask arrays and data frames as a list of blocks of rows, one per partition, none of them loaded."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from gpexperts.columns import ColumnEncoder
from gpexperts.columns.frames import rows_of
from gpexperts.engines.dask_types import is_collection
from gpexperts.rows.noise import checked_noise

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


def paired_partitions(
    X: Any, y: Any, weight: Any = None, given_std: Any = None
) -> tuple[list[tuple[Any, Any, Any, Any]], list[str] | None, bool]:
    """Return the partitions of X with those of y and of what is known of the noise.

    Parameters
    ----------
    X, y : dask array or frame; y may be an array
    weight, given_std : array-like, dask array or series of shape (n,), or None

    Returns
    -------
    partitions : list of tuple
        Delayed X and y, and Delayed weight and given_std or None.
    names : list of str or None
        The columns of X if it is a frame.
    one_output : bool
        Whether y has one dimension.
    """
    noise = {"sample_weight": weight, "noise_std": given_std}
    if _is_frame(X) and all(_is_frame(column) for column in (y, *noise.values()) if column is not None):
        return _paired_frames(X, y, noise)
    inputs = lazy_partitions(X, "X")
    columns = [_paired(inputs, column, name) for name, column in {"y": y, **noise}.items()]
    one_output = (y if is_collection(y) else np.asarray(y)).ndim == 1
    return list(zip(inputs.blocks, *columns, strict=True)), inputs.names, one_output


def _paired(inputs: Partitions, column: Any, name: str) -> list[Any]:
    """The partitions of a column, or None for each partition of X."""
    if column is None:
        return [None] * len(inputs.blocks)
    if not is_collection(column):
        column = _as_collection(np.asarray(column), inputs.lengths, name)
    if inputs.lengths is not None and hasattr(column, "rechunk"):
        n = sum(inputs.lengths)
        if column.shape[0] != n:
            raise ValueError(
                f"X has {n} rows and {name} has {column.shape[0]}; they must have the same number."
            )
        column = column.rechunk({0: inputs.lengths})
    found = lazy_partitions(column, name)
    if len(inputs.blocks) != len(found.blocks):
        raise ValueError(
            f"X has {len(inputs.blocks)} partitions and {name} has {len(found.blocks)}; they must match. "
            f"Take both from one frame, or rechunk {name}."
        )
    return found.blocks


def _is_frame(A: Any) -> bool:
    return is_collection(A) and hasattr(A, "npartitions") and not hasattr(A, "rechunk")


def _paired_frames(
    X: Any, y: Any, noise: dict[str, Any]
) -> tuple[list[tuple[Any, Any, Any, Any]], list[str], bool]:
    """Pair frames. Dask may partition columns of one table differently unless it sees them together."""
    from dask.delayed import delayed

    names = [str(name) for name in X.columns]
    targets = [y] if y.ndim == 1 else [y[name] for name in y.columns]
    try:
        both = X.assign(
            **{f"target {k} of gpexperts": target for k, target in enumerate(targets)},
            **{f"{name} of gpexperts": column for name, column in noise.items() if column is not None},
        )
    except ValueError as error:  # Dask cannot align two tables without an index
        raise ValueError(
            "The partitions of X and y may not match. Take both from one frame, "
            "table[inputs] and table[target]."
        ) from error
    inputs, take, d = delayed(_columns, pure=True), delayed(_values, pure=True), len(names)
    end = d + len(targets)
    given = [column is not None for column in noise.values()]
    places = [end + sum(given[:k]) if there else None for k, there in enumerate(given)]
    partitions = []
    for b in both.to_delayed():
        weight, given_std = (None if at is None else take(b, at, at + 1) for at in places)
        partitions.append((inputs(b, 0, d), take(b, d, end), weight, given_std))
    return partitions, names, y.ndim == 1


def _columns(frame: Any, start: int, stop: int) -> Any:
    return frame.iloc[:, start:stop]


def _values(frame: Any, start: int, stop: int) -> np.ndarray:
    return frame.iloc[:, start:stop].to_numpy()


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


def _as_collection(column: np.ndarray, lengths: tuple[int, ...] | None, name: str) -> Any:
    import dask.array as da

    if lengths is None:
        raise ValueError(
            f"{name} is an array of this process, but the partitions of X have unknown lengths; call "
            f"X.compute_chunk_sizes() first, or take {name} from the same frame."
        )
    return da.from_array(column)


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
    number: int,
    X: Any,
    y: Any,
    weight: Any = None,
    given_std: Any = None,
    encoder: ColumnEncoder | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of positive weight as doubles, or raise an error that names the partition.

    Without an encoder, the inputs are numbers and may be NaN.
    """
    X = checked_inputs(number, X)
    y = check_array(
        y, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, input_name=f"y (partition {number})"
    )
    if len(y) != len(X):
        raise ValueError(
            f"Partition {number} of X has {len(X)} rows, that of y {len(y)}; they must have the same number."
        )
    y = np.ascontiguousarray(y[:, None] if y.ndim == 1 else y)
    noise, kept = checked_noise(weight, given_std, len(y), y.shape[1], f" (partition {number})")
    if kept is not None:
        X, y = rows_of(X, kept), y[kept]
    return (X if encoder is None else encoder.encoded(X)[0]), y, noise

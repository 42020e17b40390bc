"""dask.array and dask.dataframe as blocks of rows, read where they are needed and never all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from gpexperts.engines.clients import is_collection
from gpexperts.engines.dask import DaskEngine
from gpexperts.scaling import Standardizer, is_rounding

__all__ = [
    "Block",
    "ColumnSummary",
    "Sealed",
    "Table",
    "checked_block",
    "checked_rows",
    "combined",
    "is_frame",
    "lazy_blocks",
    "paired_blocks",
    "shares",
    "stratified_sample",
]

Block = tuple[np.ndarray, np.ndarray]
"""Inputs (n_b, d) and targets (n_b, p)."""


class Table(NamedTuple):
    """A collection as blocks of rows."""

    blocks: list[Any]
    """Delayed blocks (X, y)."""
    names: list[str] | None
    """Columns of X, where it is a frame."""
    one_output: bool
    """Whether y has one dimension."""

    @classmethod
    def of(cls, engine: DaskEngine, X: Any, y: Any) -> Table:
        """Read a collection and its targets."""
        names, one_output, pairs = paired_blocks(X, y)
        blocks = [engine.task(f"block {b}", checked_rows, b, *pair) for b, pair in enumerate(pairs)]
        return cls(blocks, names, one_output)


class Sealed:
    """Blocks not yet loaded, hidden from Dask, so that whoever gets them loads them itself."""

    def __init__(self, *delayed: Any) -> None:
        self.delayed = delayed

    def load(self) -> tuple[Any, ...]:
        """Load them, in this thread."""
        from dask.base import compute

        return tuple(compute(*self.delayed, scheduler="synchronous"))


def paired_blocks(X: Any, y: Any) -> tuple[list[str] | None, bool, list[tuple[Any, Any]]]:
    """Columns of X where it is a frame, whether y has one dimension, and Delayed blocks of both."""
    if is_frame(X) and is_frame(y):
        return _paired_frames(X, y)
    names, lengths, X_blocks = lazy_blocks(X, "X")
    if not is_collection(y):
        y = _like(np.asarray(y), lengths)
    if lengths is not None and hasattr(y, "rechunk"):
        if y.shape[0] != sum(lengths):
            raise ValueError(f"X has {sum(lengths)} rows and y has {y.shape[0]}; they must be as many.")
        y = y.rechunk({0: lengths})
    _, _, y_blocks = lazy_blocks(y, "y")
    if len(X_blocks) != len(y_blocks):
        raise ValueError(
            f"X has {len(X_blocks)} blocks and y has {len(y_blocks)}; their rows must be cut alike. Take "
            "both from one frame, or rechunk y."
        )
    return names, y.ndim == 1, list(zip(X_blocks, y_blocks, strict=True))


def is_frame(A: Any) -> bool:
    """Whether A is a dask frame or series."""
    return is_collection(A) and hasattr(A, "npartitions") and not hasattr(A, "rechunk")


def _paired_frames(X: Any, y: Any) -> tuple[list[str], bool, list[tuple[Any, Any]]]:
    """As `paired_blocks`. Dask may cut the columns of one table differently, unless it sees them as one."""
    from dask.delayed import delayed

    names = [str(name) for name in X.columns]
    targets = [y] if y.ndim == 1 else [y[name] for name in y.columns]
    try:
        both = X.assign(**{f"target {k} of gpexperts": target for k, target in enumerate(targets)})
    except ValueError as error:  # Dask does not know how to align two tables without an index
        raise ValueError(
            "The rows of X and y are not known to be cut alike. Take both from one frame, "
            "table[inputs] and table[target]."
        ) from error
    take, d = delayed(_columns, pure=True), len(names)
    return names, y.ndim == 1, [(take(b, 0, d), take(b, d, None)) for b in both.to_delayed()]


def _columns(frame: Any, start: int, stop: int | None) -> np.ndarray:
    return frame.iloc[:, start:stop].to_numpy()


def lazy_blocks(A: Any, what: str) -> tuple[list[str] | None, tuple[int, ...] | None, list[Any]]:
    """Columns and lengths, where known, and the Delayed blocks of rows of a collection."""
    if hasattr(A, "rechunk"):
        if A.ndim > 2 or (what == "X" and A.ndim != 2):
            raise ValueError(f"{what} must have two dimensions, got shape {A.shape}.")
        if A.ndim == 2:
            A = A.rechunk({1: -1})
        known = not np.isnan(A.chunks[0]).any()
        return None, tuple(map(int, A.chunks[0])) if known else None, A.to_delayed().ravel().tolist()
    if is_frame(A):
        names = [str(name) for name in A.columns] if A.ndim == 2 else None
        return names, None, A.to_delayed()
    raise TypeError(f"{what} must be an array, a dask array or a dask frame, got {type(A).__name__}.")


def _like(y: np.ndarray, lengths: tuple[int, ...] | None) -> Any:
    import dask.array as da

    if lengths is None:
        raise ValueError(
            "y is an array of this process, but the blocks of X have unknown lengths; call "
            "X.compute_chunk_sizes() first, or take y from the same frame."
        )
    return da.from_array(y)


def checked_block(number: int, X: Any) -> np.ndarray:
    """Inputs as finite doubles, or an error that names the block."""
    return check_array(X, dtype=np.float64, order="C", ensure_min_samples=0, input_name=f"X (block {number})")


def checked_rows(number: int, X: Any, y: Any) -> Block:
    """Inputs and targets as finite doubles, or an error that names the block."""
    X = checked_block(number, X)
    y = check_array(
        y, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, input_name=f"y (block {number})"
    )
    if len(y) != len(X):
        raise ValueError(f"Block {number} of X has {len(X)} rows, that of y {len(y)}; they must be as many.")
    return X, np.ascontiguousarray(y.reshape(len(y), -1))


# ------------------------------------------------------------------------------------- summaries


class ColumnSummary(NamedTuple):
    """Means and standard deviations of the columns of some rows."""

    n: int
    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def of(cls, A: np.ndarray) -> ColumnSummary:
        """Summarise A (n, k)."""
        if len(A) == 0:
            return cls(0, np.zeros(A.shape[1]), np.zeros(A.shape[1]))
        scale = Standardizer.fit(A)
        relative = A / np.maximum(np.abs(A).max(axis=0), np.finfo(float).tiny)
        constant = is_rounding(relative.std(axis=0), len(A))
        return cls(len(A), scale.shift, np.where(constant, 0.0, scale.scale))


def summary(block: Block) -> tuple[ColumnSummary, ColumnSummary]:
    """What is known of a block's inputs and targets without seeing a row."""
    return ColumnSummary.of(block[0]), ColumnSummary.of(block[1])


def combined(parts: Sequence[ColumnSummary]) -> tuple[Standardizer, np.ndarray]:
    """The standardizer of all rows, and which columns are constant, (k,)."""
    parts = [part for part in parts if part.n]
    share = np.array([part.n for part in parts]) / sum(part.n for part in parts)
    means, stds = np.stack([p.mean for p in parts]), np.stack([p.std for p in parts])
    size = np.maximum((np.abs(means) + stds).max(axis=0), np.finfo(float).tiny)
    mean = share @ (means / size)
    variance = share @ ((stds / size) ** 2 + (means / size - mean) ** 2)
    constant = is_rounding(np.sqrt(variance), sum(part.n for part in parts))
    scale = np.where(constant, 1.0, np.sqrt(variance) * size)
    return Standardizer(np.where(constant, means[0], mean * size), scale), constant


# --------------------------------------------------------------------------------------- samples


def shares(wanted: int, lengths: np.ndarray) -> np.ndarray:
    """How many of `wanted` fall to each block, in proportion to its rows."""
    ends = np.floor(np.cumsum(lengths) * (wanted / lengths.sum()) + 1e-9).astype(np.int64)
    return np.minimum(np.diff(ends, prepend=0), lengths)


def chosen_rows(n: int, k: int, seed: int) -> np.ndarray:
    """K of n rows, ascending."""
    return np.sort(np.random.RandomState(seed).choice(n, k, replace=False))


def _sampled(block: Block, k: int, seed: int) -> Block:
    rows = chosen_rows(len(block[0]), k, seed)
    return block[0][rows], block[1][rows]


def stratified_sample(
    engine: DaskEngine, blocks: Sequence[Any], counts: np.ndarray, seeds: np.ndarray
) -> Block:
    """Bring ``counts[b]`` random rows of every block here."""
    work = [
        engine.task(f"sample of block {b}", _sampled, block, int(k), int(seed))
        for b, (block, k, seed) in enumerate(zip(blocks, counts, seeds, strict=True))
        if k
    ]
    X, y = zip(*engine.compute(work), strict=True)
    return np.concatenate(X), np.concatenate(y)

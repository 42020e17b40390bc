"""Encode converted columns as numbers: gaps are filled, categories and dates become several inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from gpexperts.exceptions import TableError
from gpexperts.schema import Column
from gpexperts.tables.arrow import pa, pc

__all__ = ["columns_of", "encode", "encode_training", "to_frame"]

_MAX_LEVELS = 32
"""Up to this many levels have one input each; more are one number, the mean target of a level."""
_DAY = 86_400.0
_CYCLES = {"hour": 1.0, "weekday": 7.0, "season": 365.2425}
"""Days of each cycle; the training rows must span two of them."""


def columns_of(model: Any) -> list[Column]:
    """Return the input columns of a fitted model, from the table or the data frame it was fitted on."""
    table = getattr(model, "table_", None)
    if table is not None:
        return list(table.columns)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise TableError(
            "The model was fitted on an array without column names, so the columns of a table cannot be "
            "matched. Fit it with `gpexperts fit`, or in Python on a data frame."
        )
    return [Column(str(name), "number", feature_names=[str(name)]) for name in names]


def to_frame(X: np.ndarray, names: Sequence[str]) -> pa.Table:
    """Return encoded rows (n, d) as a table with the names of the inputs, which scikit-learn checks."""
    return pa.Table.from_arrays([pa.array(column) for column in X.T], names=list(names))


def encode_training(
    table: pa.Table, columns: Sequence[Column], y: np.ndarray
) -> tuple[list[Column], np.ndarray]:
    """Choose the encoding of each column and encode the training rows.

    Parameters
    ----------
    table : Table
        Converted rows (n).
    columns : sequence of Column
    y : ndarray of shape (n,) or (n, p)
        The targets. Categories of many levels are encoded by the mean of the first; a training row by
        the mean of other rows (five folds).

    Returns
    -------
    columns : list of Column
        With their encodings.
    X : ndarray of shape (n, d)
    """
    target = y if y.ndim == 1 else y[:, 0]
    fitted, blocks = [], []
    for column in columns:
        one, block = _fitted(table.column(column.name), column, target)
        fitted.append(one)
        blocks.append(block)
    names = Counter(name for column in fitted for name in column.feature_names)
    if repeated := [name for name, count in names.items() if count > 1]:
        raise TableError(f"The encoding makes an input {repeated[0]!r}, which is also a column. Rename it.")
    return fitted, np.column_stack(blocks)


def encode(table: pa.Table, columns: Sequence[Column]) -> np.ndarray:
    """Return converted rows as numbers, (n, d)."""
    blocks = [_block(table.column(column.name), column) for column in columns]
    return np.column_stack(blocks) if blocks else np.empty((table.num_rows, 0))


def _fitted(values: pa.ChunkedArray, column: Column, y: np.ndarray) -> tuple[Column, np.ndarray]:
    gaps = values.null_count > 0
    if column.kind == "category":
        levels = sorted(pc.unique(values.drop_null()).to_pylist())
        if len(levels) <= _MAX_LEVELS:
            names = [f"{column.name}={level}" for level in levels]
            column = replace(column, levels=levels, gaps=gaps, feature_names=_names(column, names, gaps))
            return column, _block(values, column)
        index = _positions(values, levels)
        column = replace(
            column, levels=levels, gaps=gaps, codes=_level_means(index, y, len(levels)).tolist(),
            fill=[float(y.mean())], feature_names=_names(column, [column.name], gaps),
        )  # fmt: skip
        block = _block(values, column)
        for others, fold in KFold(min(5, len(y)), shuffle=True, random_state=0).split(y):
            means = _level_means(index[others], y[others], len(levels))
            block[fold, 0] = np.append(means, column.fill)[index[fold]]
        return column, block
    numbers = _floats(values)
    low, high = (float(f(numbers)) for f in (np.nanmin, np.nanmax))
    cycles = _cycles_of(numbers) if column.kind == "date" else []
    names = [column.name, *(f"{column.name} ({cycle}, {f})" for cycle in cycles for f in ("sin", "cos"))]
    column = replace(
        column, low=low, high=high, gaps=gaps, cycles=cycles, feature_names=_names(column, names, gaps)
    )
    plain = _plain(numbers, column)
    column = replace(column, fill=np.nanmean(plain, axis=0).tolist())
    return column, _block(values, column)


def _names(column: Column, names: list[str], gaps: bool) -> list[str]:
    return [*names, f"{column.name} (missing)"] if gaps else names


def _block(values: pa.ChunkedArray, column: Column) -> np.ndarray:
    """The inputs of one column, (n, width)."""
    missing = values.is_null().to_numpy()
    if column.kind == "category":
        index = _positions(values, column.levels)
        if column.codes:
            plain = np.append(column.codes, column.fill)[index][:, None]
        else:
            plain = (index[:, None] == np.arange(len(column.levels))).astype(float)
    else:
        plain = _plain(_floats(values), column)
        if column.fill:
            plain[missing] = column.fill
    return np.column_stack([plain, missing]) if column.gaps else plain


def _positions(values: pa.ChunkedArray, levels: list[str]) -> np.ndarray:
    """Positions (n,) in `levels`; −1 for missing and for other values."""
    found = pc.index_in(values, value_set=pa.array(levels, pa.string()))
    return np.asarray(pc.fill_null(found, -1).to_numpy())


def _level_means(index: np.ndarray, y: np.ndarray, n_levels: int) -> np.ndarray:
    """Mean target of each level (n_levels,), shrunken towards the mean of all rows.

    The mean of n_j rows has the variance w/n_j around the level's effect, and effects vary by b: the shrunken
    mean is the weighted mean of the two, with weights b and w/n_j. Both are estimated by moments.
    """
    y, index = y[index >= 0], index[index >= 0]
    count = np.bincount(index, minlength=n_levels)
    known = count > 0
    centre = float(y.mean()) if len(y) else 0.0
    means = np.full(n_levels, centre)
    means[known] = np.bincount(index, weights=y, minlength=n_levels)[known] / count[known]
    within = float(np.sum((y - means[index]) ** 2)) / max(1, len(y) - int(known.sum()))
    noise = within / np.maximum(count, 1)
    between = max(0.0, float(np.mean((means[known] - centre) ** 2 - noise[known]))) if known.any() else 0.0
    share = between / np.maximum(between + noise, np.finfo(float).tiny)
    return np.asarray(centre + share * (means - centre))


def _plain(numbers: np.ndarray, column: Column) -> np.ndarray:
    """Numbers; of dates the days since 1970, then sine and cosine of each cycle. NaN where missing."""
    if column.kind != "date":
        return np.array(numbers)[:, None]
    days = numbers / _DAY
    angles = [2 * np.pi * days / _CYCLES[cycle] for cycle in column.cycles]
    return np.column_stack([days, *(f(angle) for angle in angles for f in (np.sin, np.cos))])


def _cycles_of(seconds: np.ndarray) -> list[str]:
    """The cycles that dates span twice."""
    seconds = seconds[np.isfinite(seconds)]
    days = np.ptp(seconds) / _DAY
    times = bool(np.any(seconds % _DAY != seconds[0] % _DAY))
    return [name for name, period in _CYCLES.items() if days >= 2 * period and (name != "hour" or times)]


def _floats(values: pa.ChunkedArray) -> np.ndarray:
    """Numbers, with NaN for null; dates in seconds since 1970."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    scale = 1.0
    if pa.types.is_timestamp(values.type):
        values, scale = values.cast(pa.int64()), 1e-6
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy()) * scale

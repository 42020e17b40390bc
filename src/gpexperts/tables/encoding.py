"""Encode converted columns as numbers: gaps are filled, categories and dates become several inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.preprocessing import TargetEncoder

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
        encoder = TargetEncoder(target_type="continuous", random_state=0)
        texts = np.array(pc.fill_null(values, "").to_pylist(), dtype=object)[:, None]
        X = encoder.fit_transform(texts, y)
        code = dict(zip(encoder.categories_[0], encoder.encodings_[0], strict=True))
        column = replace(
            column, levels=levels, gaps=gaps, codes=[float(code[level]) for level in levels],
            fill=[float(y.mean())], feature_names=_names(column, [column.name], gaps),
        )  # fmt: skip
        block = _block(values, column)
        block[:, :1] = X
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
        index = pc.fill_null(
            pc.index_in(values, value_set=pa.array(column.levels, pa.string())), -1
        ).to_numpy()
        if column.codes:
            plain = np.append(column.codes, column.fill)[index][:, None]
        else:
            plain = (index[:, None] == np.arange(len(column.levels))).astype(float)
    else:
        plain = _plain(_floats(values), column)
        if column.fill:
            plain[missing] = column.fill
    return np.column_stack([plain, missing]) if column.gaps else plain


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

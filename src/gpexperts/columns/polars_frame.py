"""Columns of a polars DataFrame."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from gpexperts.columns.frames import Frame, Levels, Times, merged_levels

__all__ = ["PolarsFrame"]


class PolarsFrame(Frame):
    """A polars DataFrame."""

    def __init__(self, X: pl.DataFrame) -> None:
        self._X, self.n_rows, self.names = X, X.height, list(X.columns)

    def kind(self, k: int) -> str:
        dtype = self._X.to_series(k).dtype
        if dtype in (pl.Categorical, pl.Enum, pl.String):
            return "category"
        if dtype == pl.Boolean:
            return "boolean"
        if dtype in (pl.Date, pl.Datetime):
            return "date"
        if dtype.is_numeric() or dtype in (pl.Duration, pl.Null):
            return "number"
        raise self._unsupported(k, dtype)

    def numbers(self, k: int) -> np.ndarray:
        series = self._X.to_series(k)
        if series.dtype == pl.Duration:
            return np.asarray(series.dt.total_microseconds().cast(pl.Float64).to_numpy() / 1e6)
        if series.dtype in (pl.Date, pl.Datetime):
            raise self._not_numeric(k)
        try:
            return np.array(series.cast(pl.Float64).to_numpy(), dtype=np.float64)
        except pl.exceptions.PolarsError as error:
            raise self._not_numeric(k) from error

    def levels(self, k: int) -> Levels:
        series = self._X.to_series(k)
        if series.dtype.is_nested() or series.dtype == pl.Object:
            raise self._unsupported(k, series.dtype)
        if series.dtype.is_float():
            series = series.fill_nan(None)
        elif series.dtype in (pl.Categorical, pl.Enum):
            series = series.cast(pl.String)
        distinct = series.drop_nulls().unique(maintain_order=True)
        codes = series.replace_strict(
            distinct, pl.Series(range(len(distinct)), dtype=pl.Int64), default=-1, return_dtype=pl.Int64
        )
        found = np.asarray(codes.fill_null(-1).to_numpy(), dtype=np.int64)
        return merged_levels(found, distinct.to_list(), self.names[k])

    def times(self, k: int, zone: str | None) -> Times:
        series: Any = self._X.to_series(k)
        if series.dtype not in (pl.Date, pl.Datetime, pl.Null):
            raise self._not_dates(k, series.dtype)
        own = getattr(series.dtype, "time_zone", None)
        self._in_one_zone(k, zone, own)
        if own is None:
            times = _microseconds(series)
            return Times(times, times, None)
        utc = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        local = series.dt.convert_time_zone(zone or own).dt.replace_time_zone(None)
        return Times(_microseconds(utc), _microseconds(local), zone or own)


def _microseconds(series: pl.Series) -> np.ndarray:
    return np.asarray(series.cast(pl.Datetime("us")).to_numpy(), dtype="datetime64[us]")

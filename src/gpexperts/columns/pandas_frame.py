"""Columns of a pandas DataFrame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gpexperts.columns.frames import Frame, Levels, Times, merged_levels

__all__ = ["PandasFrame"]

_OBJECTS = {
    "string": "category", "mixed": "category", "mixed-integer": "category",
    "boolean": "boolean",
    "empty": "number", "integer": "number", "floating": "number", "mixed-integer-float": "number",
    "decimal": "number",
    "datetime": "date", "datetime64": "date", "date": "date",
}  # fmt: skip
"""What a column of Python objects is, by the name that pandas infers."""


class PandasFrame(Frame):
    """A pandas DataFrame."""

    def __init__(self, X: pd.DataFrame) -> None:
        self._X, self.n_rows = X, len(X)
        self.names = [str(name) for name in X.columns]

    def kind(self, k: int) -> str:
        series = self._X.iloc[:, k]
        dtype, types = series.dtype, pd.api.types
        if isinstance(dtype, pd.CategoricalDtype):
            return "category"
        if types.is_bool_dtype(dtype):
            return "boolean"
        if types.is_datetime64_any_dtype(dtype):
            return "date"
        if types.is_timedelta64_dtype(dtype):
            return "number"
        if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
            return "number"
        inferred = types.infer_dtype(series, skipna=True)
        if isinstance(dtype, pd.StringDtype):
            return "category"
        if inferred not in _OBJECTS:
            raise self._unsupported(k, f"{dtype} ({inferred})")
        return _OBJECTS[inferred]

    def numbers(self, k: int) -> np.ndarray:
        series = self._X.iloc[:, k]
        if pd.api.types.is_timedelta64_dtype(series.dtype):
            series = series.dt.total_seconds()
        try:
            if isinstance(series.dtype, pd.CategoricalDtype):
                return np.asarray(series.astype(float), dtype=np.float64)
            if pd.api.types.is_complex_dtype(series.dtype) or pd.api.types.is_datetime64_any_dtype(
                series.dtype
            ):
                raise self._not_numeric(k)
            return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError) as error:
            raise self._not_numeric(k) from error

    def levels(self, k: int) -> Levels:
        series = self._X.iloc[:, k]
        if isinstance(series.dtype, pd.CategoricalDtype):
            codes, values = series.cat.codes.to_numpy(dtype=np.int64), series.cat.categories.tolist()
        else:
            try:
                codes, distinct = pd.factorize(series)
            except TypeError as error:  # lists and other values without a hash
                types = sorted({type(value).__name__ for value in series})
                raise self._unsupported(k, f"values of type {', '.join(types)}") from error
            values = distinct.tolist()
        return merged_levels(np.asarray(codes, dtype=np.int64), values, self.names[k])

    def times(self, k: int, zone: str | None) -> Times:
        series: Any = self._X.iloc[:, k]
        if not pd.api.types.is_datetime64_any_dtype(series.dtype):
            series = self._parsed(k, series)
        own = series.dt.tz
        self._in_one_zone(k, zone, None if own is None else str(own))
        if own is None:
            times = series.to_numpy(dtype="datetime64[us]")
            return Times(times, times, None)
        utc = series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
        local = series.dt.tz_convert(zone or own).dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
        return Times(utc, local, zone or str(own))

    def _parsed(self, k: int, series: Any) -> Any:
        """Convert a column of datetime or date objects."""
        if pd.api.types.infer_dtype(series, skipna=True) not in ("datetime", "datetime64", "date", "empty"):
            raise self._not_dates(k, series.dtype)
        try:
            return pd.to_datetime(series)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The dates in column {self.names[k]!r} cannot be compared: {error}. If their time zones are "
                "mixed, convert them with pandas.to_datetime(…, utc=True)."
            ) from error

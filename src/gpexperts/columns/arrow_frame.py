"""Columns of an Arrow table, as the command line reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpexperts.columns.frames import Frame, Levels, Times, merged_levels

__all__ = ["ArrowFrame"]


class ArrowFrame(Frame):
    """A pyarrow Table."""

    def __init__(self, X: pa.Table) -> None:
        self._X, self.n_rows, self.names = X, X.num_rows, list(X.column_names)

    def kind(self, k: int) -> str:
        type_, types = self._X.schema.field(k).type, pa.types
        if types.is_dictionary(type_) or _is_text(type_):
            return "category"
        if types.is_boolean(type_):
            return "boolean"
        if types.is_timestamp(type_) or types.is_date(type_):
            return "date"
        if (
            types.is_integer(type_)
            or types.is_floating(type_)
            or types.is_decimal(type_)
            or types.is_duration(type_)
            or types.is_null(type_)
        ):
            return "number"
        raise self._unsupported(k, type_)

    def numbers(self, k: int) -> np.ndarray:
        column = self._X.column(k)
        try:
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            if pa.types.is_duration(column.type):
                seconds = column.cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(pa.float64())
                return np.array(seconds.to_numpy()) / 1e6
            if pa.types.is_boolean(column.type):
                column = column.cast(pa.int8())
            if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
                raise self._not_numeric(k)
            return np.array(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
        except pa.ArrowException as error:
            raise self._not_numeric(k) from error

    def levels(self, k: int) -> Levels:
        column = self._X.column(k)
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)
        if not pa.types.is_dictionary(column.type):
            try:
                column = column.dictionary_encode()
            except pa.ArrowException as error:
                raise self._unsupported(k, column.type) from error
        column = column.unify_dictionaries().combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # without any chunk
            return Levels(np.full(self.n_rows, -1), [])
        values = column.dictionary.to_pylist()
        codes = np.array(pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False), dtype=np.int64)
        return merged_levels(codes, values, self.names[k])

    def times(self, k: int, zone: str | None) -> Times:
        column = self._X.column(k)
        if not (
            pa.types.is_timestamp(column.type)
            or pa.types.is_date(column.type)
            or pa.types.is_null(column.type)
        ):
            raise self._not_dates(k, column.type)
        own = getattr(column.type, "tz", None)
        self._in_one_zone(k, zone, own)
        utc = _microseconds(column.cast(pa.timestamp("us", own), safe=False).cast(pa.timestamp("us")))
        if own is None:
            return Times(utc, utc, None)
        local = pc.local_timestamp(column.cast(pa.timestamp("us", zone or own), safe=False))
        return Times(utc, _microseconds(local), zone or own)


def _is_text(type_: Any) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)


def _microseconds(column: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(column.to_numpy(), dtype="datetime64[us]")

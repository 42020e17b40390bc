"""Convert the columns of a batch to numbers, booleans, categories and dates, as training understood them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpexperts.exceptions import TableError
from gpexperts.schema import TableColumn
from gpexperts.tables.arrow import pa, pc
from gpexperts.tables.dates import ISO, parse_dates, shown_value, stored_dates
from gpexperts.tables.dialect import NA_TEXTS, Dialect, TableOptions
from gpexperts.tables.numbers import PLAIN, NumberFormat, number_format, parse_numbers

__all__ = ["Converted", "Converter", "is_text", "type_kind"]

TIME = "time"
"""The format of a number that is a time of day, in hours."""


class Converted(NamedTuple):
    """A batch with the types of its columns: float64, boolean, string and timestamp[us]."""

    table: pa.Table
    """Missing and unreadable values are null."""
    unreadable: np.ndarray
    """(n,) whether a row holds a value that cannot be read, such as a word among numbers, or infinity."""
    examples: dict[str, tuple[int, str]]
    """For each column with unreadable values the position and the text of the first."""
    counts: dict[str, int]
    """Number of unreadable values in these columns."""


class Converter:
    """Converts batch after batch of one table.

    Parameters
    ----------
    columns : sequence of TableColumn
    source : str
        Name of the table in messages.
    options : TableOptions
    dialect : Dialect or None
        Of a CSV. If its head shows another decimal mark than the training table had, the formats of
        numbers are guessed again, from the first batch.
    """

    def __init__(
        self,
        columns: Sequence[TableColumn],
        source: str,
        options: TableOptions,
        dialect: Dialect | None = None,
    ) -> None:
        self._columns, self._source = list(columns), source
        self._options, self._dialect = options, dialect
        self._missing = pa.array([*NA_TEXTS, *options.na_values], pa.string())
        self._numbers_missing = _finite(options.na_values)
        self._formats: dict[str, NumberFormat] = {}

    def convert(self, table: pa.Table) -> Converted:
        """Return the columns of one batch, in the order of `columns`."""
        unreadable = np.zeros(table.num_rows, dtype=bool)
        examples: dict[str, tuple[int, str]] = {}
        counts: dict[str, int] = {}
        converted = {}
        for column in self._columns:
            raw = self._without_missing(table.column(column.name))
            values = self._values(raw, column)
            converted[column.name] = values
            if values.null_count > raw.null_count:
                bad = pc.and_(values.is_null(), raw.is_valid()).to_numpy()
                unreadable |= bad
                counts[column.name] = int(bad.sum())
                first = int(np.flatnonzero(bad)[0])
                examples[column.name] = (first, shown_value(raw[first]))
        return Converted(pa.table(converted), unreadable, examples, counts)

    def _without_missing(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Make every value null that stands for a missing one."""
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if is_text(values.type):
            values = values.cast(pa.string())
            return pc.if_else(pc.is_in(values, value_set=self._missing), pa.scalar(None, pa.string()), values)
        none = pa.scalar(None, values.type)
        if pa.types.is_floating(values.type) and values.null_count < len(values):
            values = pc.if_else(pc.is_nan(values), none, values)
        if self._numbers_missing and type_kind(values.type) == "number" and not pa.types.is_null(values.type):
            stands = pc.is_in(
                values.cast(pa.float64(), safe=False), value_set=pa.array(self._numbers_missing)
            )
            values = pc.if_else(stands, none, values)
        return values

    def _values(self, values: pa.ChunkedArray, column: TableColumn) -> pa.ChunkedArray:
        try:
            if pa.types.is_null(values.type):
                return values.cast(_TYPES[column.kind])
            if column.kind == "number":
                return self._numbers(values, column)
            if column.kind == "boolean":
                return _booleans(values)
            if column.kind == "date":
                if is_text(values.type):
                    values = parse_dates(values, column.format or ISO)
                if not pa.types.is_temporal(values.type):
                    raise pa.ArrowInvalid("not a date")
                return stored_dates(values)
            if type_kind(values.type) == "unsupported":
                raise pa.ArrowInvalid("not a category")
            return values.cast(pa.string())
        except pa.ArrowException as error:
            what = _PLURALS[column.kind]
            raise TableError(
                f"Column {column.name} of {self._source} should hold {what}, as it did in training; it holds "
                f"{values.type}."
            ) from error

    def _numbers(self, values: pa.ChunkedArray, column: TableColumn) -> pa.ChunkedArray:
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.int8())
        if pa.types.is_time(values.type):
            values = pc.divide(values.cast(pa.time64("us")).cast(pa.int64()), 3.6e9)
        if is_text(values.type):
            if column.format == TIME:
                values = _hours(values)
            else:
                values = parse_numbers(values, self._format(values, column))
        values = values.cast(pa.float64(), safe=False)
        if self._numbers_missing:
            stands = pc.is_in(values, value_set=pa.array(self._numbers_missing))
            values = pc.if_else(stands, pa.scalar(None, pa.float64()), values)
        return pc.if_else(pc.is_finite(values), values, pa.scalar(None, pa.float64()))

    def _format(self, texts: pa.ChunkedArray, column: TableColumn) -> NumberFormat:
        if column.name in self._formats:
            return self._formats[column.name]
        trained = NumberFormat(*column.format) if column.format else PLAIN
        preferred = self._options.formats()
        if not preferred and self._dialect is not None and self._dialect.shows_decimal:
            preferred = self._options.formats(self._dialect.decimal)
            if self._dialect.decimal == trained.decimal:
                preferred = [trained]
        form, share = number_format(texts, [*preferred, trained])
        if share > 0:
            self._formats[column.name] = form
        return form


def is_text(type_: Any) -> bool:
    """Whether a type of Arrow is text."""
    return bool(
        pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)
    )


def type_kind(type_: Any) -> str:
    """Return "number", "boolean", "text", "date", or "unsupported" otherwise."""
    if pa.types.is_dictionary(type_):
        return type_kind(type_.value_type)
    if pa.types.is_boolean(type_):
        return "boolean"
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return "date"
    if is_text(type_):
        return "text"
    return "number" if pa.types.is_null(type_) or pa.types.is_time(type_) else "unsupported"


_TYPES = {
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "category": pa.string(),
    "date": pa.timestamp("us"),
}
_PLURALS = {"number": "numbers", "boolean": "true or false", "category": "text", "date": "dates"}


def _booleans(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if is_text(values.type):
        lower = pc.utf8_lower(pc.utf8_trim_whitespace(values))
        true, false = (
            pc.is_in(lower, value_set=pa.array(texts)) for texts in (["true", "1"], ["false", "0"])
        )
        return pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))
    if pa.types.is_boolean(values.type):
        return values
    numbers = values.cast(pa.float64())
    known = pc.is_in(numbers, value_set=pa.array([0.0, 1.0]))
    return pc.if_else(known, pc.equal(numbers, 1.0), pa.scalar(None, pa.bool_()))


def _hours(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Hours of times such as 12:34 and 12:34:56."""
    full = pc.if_else(
        pc.match_substring_regex(texts, r"^\d\d?:\d\d$"), pc.binary_join_element_wise(texts, "00", ":"), texts
    )
    moments = pc.strptime(full, format="%H:%M:%S", unit="us", error_is_null=True)
    day = 24 * 3_600_000_000
    numbers = moments.cast(pa.int64())
    midnight = pc.multiply(pc.floor(pc.divide(numbers.cast(pa.float64()), float(day))), float(day))
    return pc.divide(pc.subtract(numbers.cast(pa.float64()), midnight), 3.6e9)


def _finite(texts: Sequence[str]) -> list[float]:
    """The numbers among some texts: --na-values -999 also means the number −999."""
    numbers = []
    for text in texts:
        try:
            numbers.append(float(text.replace(",", ".")))
        except ValueError:
            continue
    return numbers

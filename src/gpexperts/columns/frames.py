"""Read single columns of a table, whatever library made it.

A column is read in one of three forms: numbers with NaN for gaps, levels of a category, or times. Which form
fits its type is `kind`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "KINDS",
    "ArrayFrame",
    "Frame",
    "Levels",
    "Times",
    "frame_of",
    "is_frame",
    "level_texts",
    "rows_of",
]

KINDS = ("number", "category", "boolean", "date", "empty")
"""What a column may be; an empty one has no value at all."""


class Levels(NamedTuple):
    """The values of a category."""

    codes: np.ndarray
    """(n,) positions in `levels`; −1 for a gap."""
    levels: list[str]
    """Distinct, as text."""


class Times(NamedTuple):
    """The values of a date column; NaT for a gap."""

    utc: np.ndarray
    """(n,) datetime64[us]; as written, if there is no time zone."""
    local: np.ndarray
    """(n,) datetime64[us], as a clock in the column's time zone shows them."""
    zone: str | None


class Frame(ABC):
    """A table whose columns can be read one by one."""

    names: list[str]
    n_rows: int

    @abstractmethod
    def kind(self, k: int) -> str:
        """Return one of `KINDS` but "empty", by the type of column k.

        Raises
        ------
        ValueError
            If the column holds something else.
        """

    @abstractmethod
    def numbers(self, k: int) -> np.ndarray:
        """Return column k as doubles, shape (n,); booleans are 0 and 1, durations are seconds."""

    @abstractmethod
    def levels(self, k: int) -> Levels:
        """Return column k as levels of a category."""

    @abstractmethod
    def times(self, k: int, zone: str | None) -> Times:
        """Return column k as times, the local ones in `zone`; None keeps the column's own zone."""

    def _unsupported(self, k: int, what: Any) -> ValueError:
        return ValueError(
            f"Column {self.names[k]!r} holds {what}, which is neither a number, a category nor a date. "
            "Convert it, or leave it out."
        )

    def _not_numeric(self, k: int) -> ValueError:
        return ValueError(
            f"Column {self.names[k]!r} holds values that cannot be converted to float. Convert them to "
            "numbers, leave the column out, or name it in categorical_features."
        )

    def _not_dates(self, k: int, what: Any) -> ValueError:
        return ValueError(
            f"Column {self.names[k]!r} should hold dates, as it did in training; it holds {what}."
        )

    def _in_one_zone(self, k: int, zone: str | None, own: str | None) -> None:
        """Refuse a column with a time zone where training had none, and the reverse."""
        if zone is not None and own is None:
            raise ValueError(
                f"Column {self.names[k]!r} has no time zone, but in training it had {zone}. Add the zone, as "
                f"in pandas by .dt.tz_localize({zone!r})."
            )


def is_frame(X: Any) -> bool:
    """Whether X is a table with typed columns that this package can read."""
    library = type(X).__module__.partition(".")[0]
    return (library, type(X).__name__) in (
        ("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"),
    )  # fmt: skip


def rows_of(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of a table or an array, by position."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.take(rows) if is_frame(X) and hasattr(X, "num_rows") else X[rows]


def frame_of(X: Any, names: list[str] | None = None) -> Frame:
    """Return the reader of a table; `names` are those of the columns of an array."""
    if not is_frame(X):
        return ArrayFrame(np.asarray(X), names)
    library = type(X).__module__.partition(".")[0]
    # Each library is imported only where one of its tables is given.
    if library == "pandas":
        from gpexperts.columns.pandas_frame import PandasFrame

        return PandasFrame(X)
    if library == "polars":
        from gpexperts.columns.polars_frame import PolarsFrame

        return PolarsFrame(X)
    from gpexperts.columns.arrow_frame import ArrowFrame

    return ArrowFrame(X)


class ArrayFrame(Frame):
    """An array of shape (n, d); every column is a number unless told otherwise."""

    def __init__(self, X: np.ndarray, names: list[str] | None = None) -> None:
        self._X = X
        self.n_rows = len(X)
        self.names = [f"x{k}" for k in range(X.shape[1])] if names is None else names

    def kind(self, k: int) -> str:
        return "number"

    def numbers(self, k: int) -> np.ndarray:
        try:
            return np.asarray(self._X[:, k], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise self._not_numeric(k) from error

    def levels(self, k: int) -> Levels:
        values = self._X[:, k]
        if values.dtype.kind in "biuf":
            distinct, codes = np.unique(values, return_inverse=True)
            texts = level_texts(distinct.tolist(), self.names[k])
            gap = np.isnan(distinct) if values.dtype.kind == "f" else np.zeros(len(distinct), dtype=bool)
            return Levels(
                np.where(gap[codes], -1, codes), [t for t, g in zip(texts, gap, strict=True) if not g]
            )
        position: dict[Any, int] = {}
        codes = np.empty(len(values), dtype=np.int64)
        for i, value in enumerate(values.tolist()):
            try:
                # The type is a part of the key: True, 1 and 1.0 are equal.
                codes[i] = -1 if _is_gap(value) else position.setdefault((type(value), value), len(position))
            except TypeError as error:  # lists and other values without a hash
                raise self._unsupported(k, type(value).__name__) from error
        return merged_levels(codes, [v for _, v in position], self.names[k])

    def times(self, k: int, zone: str | None) -> Times:
        try:
            times = np.asarray(self._X[:, k], dtype="datetime64[us]")
        except (TypeError, ValueError) as error:
            raise self._not_dates(k, self._X.dtype) from error
        self._in_one_zone(k, zone, None)
        return Times(times, times, None)


def merged_levels(codes: np.ndarray, values: Iterable[Any], name: str) -> Levels:
    """Return levels of values of which several may have the same text, such as 1 and 1.0."""
    values = list(values)
    texts = level_texts(values, name)
    position = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    if len(position) == len(texts):
        return Levels(codes, texts)
    at = np.array([position[text] for text in texts] + [-1])
    return Levels(at[codes], list(position))


def level_texts(values: Iterable[Any], name: str) -> list[str]:
    """Return the text of each level; equal numbers have the same text, whatever their type.

    Raises
    ------
    ValueError
        If a text and a value of another type, such as "1" and 1, would become the same level.
    """
    values = list(values)
    texts = [_text(value) for value in values]
    own = {value for value in values if isinstance(value, str)}
    for value, text in zip(values, texts, strict=True):
        if not isinstance(value, str) and text in own:
            raise ValueError(
                f"Column {name!r} has levels of mixed types: {value!r} ({type(value).__name__}) and the text "
                f"{text!r}. Convert all of them to one type, for example with astype(str)."
            )
    return texts


def _text(value: Any) -> str:
    if isinstance(value, (str, bool, np.bool_)):
        return str(value)
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, (Real, Decimal)):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def _is_gap(value: Any) -> bool:
    return value is None or (isinstance(value, Real) and bool(np.isnan(float(value)))) or _is_missing(value)


def _is_missing(value: Any) -> bool:
    """Whether a value is not equal to itself, or cannot tell, as pandas' NaT and NA."""
    try:
        return not bool(value == value)
    except TypeError:
        return True

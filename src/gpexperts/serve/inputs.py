"""The inputs of a model as a caller of the service sees them, and rows of a request as numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from gpexperts import inspection
from gpexperts.exceptions import TableError
from gpexperts.serve.problems import Problem
from gpexperts.tables.arrow import pa
from gpexperts.tables.names import require_columns

__all__ = ["LARGEST", "Input", "Inputs"]

LARGEST = 1e300
"""Numbers of a request are at most this large."""
_MAX_SHOWN = 60
"""Characters of a value in a message."""
_NUMBERS = {float, int}
"""Types of the numbers that JSON has; bool is another."""
_TYPES = {"number": pa.float64(), "boolean": pa.bool_(), "category": pa.string(), "empty": pa.string()}


@dataclass(frozen=True)
class Input:
    """One column that a row of a request has."""

    name: str
    kind: str
    """"number", "boolean", "category", "date" or "empty"."""
    low: Any
    """Smallest training value of a number or a date; None otherwise."""
    high: Any
    """Largest training value of a number or a date; None otherwise."""
    levels: tuple[str, ...]
    """The values of a category, the most frequent first."""
    typical: Any
    """The median of the training rows; for a category or a boolean, the most frequent value."""
    whole: bool
    """Whether all training values are whole numbers."""
    zone: bool
    """Whether a date has a time zone."""


class Inputs:
    """Converts between rows of requests and the numbers of the model.

    Parameters
    ----------
    model : DistributedGPRegressor
        Fitted.
    """

    def __init__(self, model: Any) -> None:
        self._encoder = model.model_.encoder
        table = getattr(model, "table_", None)
        self.gaps = table is None or not table.drop_missing
        """Whether rows with gaps can be predicted."""
        names = inspection.feature_names(model)
        decoded = self._encoder.decode(inspection.training_inputs(model)).T
        columns = zip(names, self._encoder.columns, decoded, strict=True)
        self.members = [_described(name, column, list(values)) for name, column, values in columns]
        self.names = names
        self._types = [
            pa.timestamp("us", "UTC" if m.zone else None) if m.kind == "date" else _TYPES[m.kind]
            for m in self.members
        ]

    @property
    def example(self) -> dict[str, Any]:
        """A typical row."""
        return {member.name: member.typical for member in self.members}

    def encode(self, rows: Sequence[Any]) -> np.ndarray:
        """Return the rows of a JSON request as numbers (n, d).

        Raises
        ------
        Problem
            With status 422, if a value is missing or is not what the model needs.
        """
        numbers = self._numbers(rows) if self._encoder.is_plain else None
        if numbers is not None:
            return numbers
        values = [self._values(row, r) for r, row in enumerate(rows)]
        if self._encoder.is_plain and not any(None in row for row in values):
            return np.array(values, dtype=np.float64)
        if not self.gaps and any(None in row for row in values):
            raise Problem(
                422, "The model was fitted without gaps (--drop-missing); every input needs a value."
            )
        for r, row in enumerate(values):
            if all(value is None for value in row):
                raise Problem(422, f"rows[{r}] has no values.")
        columns = zip(*values, strict=True)
        arrays = [pa.array(column, type_) for column, type_ in zip(columns, self._types, strict=True)]
        return self._encoded(pa.table(arrays, self.names))

    def encode_table(self, table: Any) -> np.ndarray:
        """Return the rows of an Arrow table as numbers (n, d); columns are found by name."""
        try:
            require_columns(table.column_names or [""], self.names, "The table")
        except TableError as error:
            raise Problem(422, str(error)) from error
        table = table.select(self.names)
        gaps = [name for name in self.names if table.column(name).null_count]
        if gaps and not self.gaps:
            raise Problem(422, f"Gaps in {', '.join(gaps)}; the model was fitted without (--drop-missing).")
        return self._encoded(table)

    def decode(self, X: np.ndarray) -> list[list[Any]]:
        """Return encoded rows (n, d) as lists of the values that a caller would give."""
        return self.shown(self._encoder.decode(X))

    def shown(self, values: np.ndarray) -> list[list[Any]]:
        """Return decoded rows (n, columns) as lists for JSON: booleans are true or false."""
        rows: list[list[Any]] = values.tolist()
        flags = [k for k, member in enumerate(self.members) if member.kind == "boolean"]
        for row in rows:
            for k in flags:
                row[k] = {"True": True, "False": False}.get(row[k])
        return rows

    def outside(self, X: np.ndarray) -> list[list[str]]:
        """Return, for each encoded row, the names of the inputs that are outside the training range."""
        return [
            [m.name for m, value in zip(self.members, row, strict=True) if _is_outside(m, value)]
            for row in self.decode(X)
        ]

    def _numbers(self, rows: Sequence[Any]) -> np.ndarray | None:
        """Return rows of numbers (n, d), checked all at once; None if a value needs a closer look."""
        try:
            values = [[row[name] for name in self.names] for row in rows]
        except (KeyError, TypeError):
            return None
        if not all(set(map(type, row)) <= _NUMBERS for row in values):
            return None
        try:
            X = np.array(values, dtype=np.float64)
        except OverflowError:
            return None
        return X if np.abs(X).max() <= LARGEST else None

    def _values(self, row: Any, r: int) -> list[Any]:
        if not isinstance(row, Mapping):
            raise Problem(422, f"rows[{r}] is {_shown(row)}; expected an object with a value per input.")
        try:
            return [_checked(member, row[member.name], r) for member in self.members]
        except KeyError as missing:
            known = ", ".join(self.names)
            raise Problem(422, f"rows[{r}] has no value for {missing}. The inputs are {known}.") from None

    def _encoded(self, table: Any) -> np.ndarray:
        try:
            X, _ = self._encoder.encoded(table)
        except (ValueError, pa.ArrowException) as error:
            raise Problem(422, str(error)) from error
        if len(X) and np.abs(X).max() > LARGEST:
            raise Problem(422, f"The rows have numbers beyond {LARGEST:g}.")
        return np.asarray(X)


def _described(name: str, column: Any, values: list[Any]) -> Input:
    """Describe a column by its training values, gaps included."""
    known = [value for value in values if value is not None]
    zone = column.kind == "date" and column.zone is not None
    if column.kind in ("category", "boolean"):
        typical: Any = Counter(known).most_common(1)[0][0] if known else None
        if column.kind == "boolean":
            return Input(name, "boolean", None, None, (), typical == "True", False, False)
        # "(other)" stands for rare levels, which are not told apart.
        typical = typical if typical in column.levels else next(iter(column.levels), None)
        return Input(name, "category", None, None, tuple(column.levels), typical, False, False)
    if column.kind == "empty" or not known:
        return Input(name, "empty", None, None, (), None, False, False)
    if column.kind == "date":
        known.sort()
        return Input(name, "date", known[0], known[-1], (), known[len(known) // 2], False, zone)
    x = np.array(known, dtype=float)
    # The units of X are rounded: a training value can differ in its last digits.
    low, high = (float(f"{end:.12g}") for end in (x.min(), x.max()))
    whole = bool(np.all(np.abs(x - np.round(x)) <= 1e-9 * np.maximum(1.0, np.abs(x))))
    middle = float(f"{np.median(x):.4g}")
    middle = min(max(round(middle) if whole else middle, low), high)
    return Input(name, "number", low, high, (), middle, whole, False)


def _is_outside(member: Input, value: Any) -> bool:
    if value is None:
        return False
    if member.kind == "category":
        return value not in member.levels
    return member.low is not None and not member.low <= value <= member.high


def _checked(member: Input, value: Any, r: int) -> Any:
    """Return a value of a request as the column needs it; None for a gap."""
    kind = member.kind
    if value is None:
        return None
    if kind == "number":
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Problem(422, f"rows[{r}].{member.name} is {_shown(value)}; expected a number.")
        if not -LARGEST <= value <= LARGEST or math.isnan(value):
            size = f"expected at most {LARGEST:g} in size"
            raise Problem(422, f"rows[{r}].{member.name} is {_shown(value)}; {size}.")
        return float(value)
    if kind == "boolean":
        if isinstance(value, bool):
            return value
        raise Problem(422, f"rows[{r}].{member.name} is {_shown(value)}; expected true or false.")
    if not isinstance(value, str):
        raise Problem(422, f"rows[{r}].{member.name} is {_shown(value)}; expected text.")
    return _date(member, value, r) if kind == "date" else value


def _date(member: Input, text: str, r: int) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or (time.tzinfo is not None) != member.zone:
        form = "2024-12-31T23:59:00" + ("+00:00" if member.zone else "")
        raise Problem(422, f"rows[{r}].{member.name} is {_shown(text)}; expected a date such as {form}.")
    return time


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"

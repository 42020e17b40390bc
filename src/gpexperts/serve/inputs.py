"""The inputs of a model as a caller of the service sees them, and rows of a request as numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpexperts import inspection
from gpexperts.exceptions import TableError
from gpexperts.schema import Column
from gpexperts.serve.problems import Problem
from gpexperts.tables.encoding import encode, missing_message, require_columns

__all__ = ["LARGEST", "Input", "Inputs"]

LARGEST = 1e300
"""Numbers of a request are at most this large."""
_MAX_SHOWN = 60
"""Characters of a value in a message."""


@dataclass(frozen=True)
class Input:
    """One column that a row of a request has."""

    name: str
    kind: str
    """"number", "boolean" or "category"."""
    low: float | None
    """Smallest training value; None for categories."""
    high: float | None
    """Largest training value; None for categories."""
    levels: tuple[str, ...]
    """The values of a category."""
    typical: Any
    """The median of the training rows; for a category, the most frequent level."""
    whole: bool
    """Whether all training values are whole numbers."""


class Inputs:
    """Converts between rows of requests and the numbers of the model.

    Parameters
    ----------
    model : DistributedGPRegressor
        Fitted.
    """

    def __init__(self, model: Any) -> None:
        table = getattr(model, "table_", None)
        names = inspection.feature_names(model)
        self._columns = [Column(n, "number") for n in names] if table is None else list(table.columns)
        X = inspection.training_inputs(model)
        self.members: list[Input] = []
        self._at: list[int] = []
        start = 0
        for column in self._columns:
            width = len(column.feature_names)
            self._at.append(start)
            self.members.append(_described(column, X[:, start : start + width]))
            start += width
        self._width = start

    @property
    def names(self) -> list[str]:
        """Names of the columns, in the order of the model."""
        return [member.name for member in self.members]

    def encode(self, rows: Sequence[Any]) -> np.ndarray:
        """Return the rows of a JSON request as numbers (n, d).

        Raises
        ------
        Problem
            With status 422, if a value is missing or is not what the model needs.
        """
        X = np.zeros((len(rows), self._width))
        for r, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise Problem(
                    422, f"rows[{r}] is {_shown(row)}; expected an object with one value per input."
                )
            for member, at in zip(self.members, self._at, strict=True):
                try:
                    value = row[member.name]
                except KeyError:
                    raise Problem(
                        422,
                        f"rows[{r}] has no value for {member.name!r}. The inputs are "
                        f"{', '.join(self.names)}.",
                    ) from None
                if member.kind == "category":
                    X[r, at + _level(member, value, r)] = 1.0
                else:
                    X[r, at] = _number(member, value, r)
        return X

    def encode_table(self, table: Any) -> np.ndarray:
        """Return the rows of an Arrow table as numbers (n, d); columns are found by name."""
        try:
            require_columns(table.column_names or [""], self.names, "The table")
            encoded = encode(table.select(self.names), self._columns, "the table")
        except TableError as error:
            raise Problem(422, str(error)) from error
        if encoded.missing:
            message = missing_message(encoded.missing, table.num_rows, "The table")
            raise Problem(422, message.partition(" Fill them in")[0] + " Every input needs a value.")
        if len(encoded.X) and np.abs(encoded.X).max() > LARGEST:
            raise Problem(422, f"The table has numbers beyond {LARGEST:g}.")
        return encoded.X

    def decode(self, X: np.ndarray) -> list[list[Any]]:
        """Return encoded rows (n, d) as lists of the values that a caller would give."""
        columns = []
        for member, at in zip(self.members, self._at, strict=True):
            if member.kind == "category":
                levels = X[:, at : at + len(member.levels)].argmax(axis=1)
                columns.append([member.levels[level] for level in levels])
            elif member.kind == "boolean":
                columns.append((X[:, at] > 0.5).tolist())
            else:
                columns.append(X[:, at].tolist())
        return [list(row) for row in zip(*columns, strict=True)]

    def outside(self, X: np.ndarray) -> list[list[str]]:
        """Return, for each encoded row, the names of the inputs that are outside the training range."""
        ranged = [(m.name, at, m.low, m.high) for m, at in zip(self.members, self._at, strict=True)]
        return [
            [name for name, at, low, high in ranged if low is not None and not low <= x[at] <= high]
            for x in X.tolist()
        ]


def _described(column: Column, values: np.ndarray) -> Input:
    if column.kind == "categories":
        most = column.categories[int(values.sum(axis=0).argmax())]
        return Input(column.name, "category", None, None, tuple(column.categories), most, False)
    x = values[:, 0]
    # The units of X are rounded: a training value can differ in its last digits.
    low, high = (float(f"{end:.12g}") for end in (x.min(), x.max()))
    whole = bool(np.all(np.abs(x - np.round(x)) <= 1e-9 * np.maximum(1.0, np.abs(x))))
    middle = float(f"{np.median(x):.4g}")
    typical: Any = float(round(middle)) if whole else min(max(middle, low), high)
    if column.kind == "boolean":
        typical = typical > 0.5
    return Input(column.name, column.kind, low, high, (), typical, whole)


def _number(member: Input, value: Any, r: int) -> float:
    is_boolean = isinstance(value, bool)
    if member.kind == "boolean":
        if is_boolean:
            return float(value)
        raise Problem(422, f"rows[{r}].{member.name} is {_shown(value)}; expected true or false.")
    if is_boolean or not isinstance(value, (int, float)):
        raise Problem(422, f"rows[{r}].{member.name} is {_shown(value)}; expected a number.")
    if not -LARGEST <= value <= LARGEST or math.isnan(value):
        raise Problem(
            422, f"rows[{r}].{member.name} is {_shown(value)}; expected at most {LARGEST:g} in size."
        )
    return float(value)


def _level(member: Input, value: Any, r: int) -> int:
    try:
        return member.levels.index(value)
    except ValueError:
        levels = ", ".join(member.levels[:20]) + (", …" if len(member.levels) > 20 else "")
        raise Problem(422, f"rows[{r}].{member.name} is {_shown(value)}; expected one of {levels}.") from None


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"

"""Count what was found in the rows of a table while they were predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from gpexperts.columns import Column
from gpexperts.tables.convert import Converted

__all__ = ["Tally"]

_MOST = 5
"""Columns that a sentence names."""


class Tally:
    """Counts of rows, with reasons and examples.

    Attributes
    ----------
    n_rows, n_empty, n_outside, n_without_target : int
        Rows; rows without a prediction; rows outside the range of the training rows; rows without a target.
    """

    def __init__(self) -> None:
        self.n_rows = self.n_empty = self.n_outside = self.n_without_target = 0
        self._unreadable: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self._missing: Counter[str] = Counter()
        self._filled: Counter[str] = Counter()
        self._outside: Counter[str] = Counter()
        self._new: Counter[str] = Counter()

    def add(
        self, converted: Converted, columns: Sequence[Column], possible: np.ndarray, missing: np.ndarray,
        outside: dict[str, np.ndarray], start: int,
    ) -> None:  # fmt: skip
        """Count a batch.

        Parameters
        ----------
        converted : Converted
            n rows.
        columns : sequence of Column
            How the model encodes them.
        possible : ndarray of bool, shape (n,)
            Which rows can be predicted.
        missing : ndarray of bool, shape (n, columns)
        outside : dict of ndarray of bool, shape (n,)
            See `outside_columns`.
        start : int
            Number of the first row.
        """
        n = len(possible)
        self.n_rows += n
        self.n_empty += n - int(possible.sum())
        self._unreadable.update(converted.counts)
        self._remember(converted, start)
        for j, column in enumerate(columns):
            gaps = missing[:, j] & ~converted.unreadable
            self._missing[column.name] += int((gaps & ~possible).sum())
            if not column.gaps:
                self._filled[column.name] += int((gaps & possible).sum())
            if column.name in outside:
                count = self._new if column.kind == "category" else self._outside
                count[column.name] += int(outside[column.name].sum())
        if outside:
            self.n_outside += int(np.logical_or.reduce(list(outside.values())).sum())

    def add_targets(self, converted: Converted, known: np.ndarray, start: int) -> None:
        """Count the rows without a target."""
        self.n_without_target += len(known) - int(known.sum())
        self._unreadable.update(converted.counts)
        self._remember(converted, start)

    def _remember(self, converted: Converted, start: int) -> None:
        for name, (position, text) in converted.examples.items():
            self._examples.setdefault(name, f"{text[:40]!r} in row {start + position}")

    def sentence(self) -> str:
        """Return all that is to be said, in a few sentences; "" if all rows are as in training."""
        parts = []
        if self.n_empty:
            values = [f"{name} is {self._examples[name]}" for name in list(self._unreadable)[:_MOST]]
            gaps = [f"{count:,} without {name}" for name, count in _most(self._missing)]
            why = "; ".join([*values, *gaps])
            parts.append(f"{_rows(self.n_empty)} cannot be predicted ({why}).")
        elif self._unreadable:
            values = [f"{name} is {self._examples[name]}" for name in list(self._unreadable)[:_MOST]]
            parts.append(f"Values that are no numbers: {'; '.join(values)}.")
        if self.n_without_target:
            parts.append(f"{_rows(self.n_without_target)} without a target left out.")
        if any(self._new.values()):
            parts.append(f"Levels that training has not seen, or seen once: {_list(self._new)}.")
        if any(self._outside.values()):
            parts.append(f"Outside the range of the training rows: {_list(self._outside)}.")
        if any(self._filled.values()):
            parts.append(f"Gaps in columns that had none in training were filled: {_list(self._filled)}.")
        return " ".join(parts)


def _rows(n: int) -> str:
    return f"{n:,} row{'s' * (n != 1)}"


def _most(counts: Counter[str]) -> list[tuple[str, int]]:
    return [(name, count) for name, count in counts.most_common(_MOST) if count]


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{name} ({_rows(count)})" for name, count in _most(counts))

"""All columns of the user's table: from the table to the inputs of the model."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gpexperts.choices import Choice
from gpexperts.columns.column import Column, Part, column_of
from gpexperts.columns.frames import Frame, frame_of
from gpexperts.columns.profile import Categorical, ColumnProfile, profile_column
from gpexperts.exceptions import ColumnWarning
from gpexperts.scaling import rounded

__all__ = ["ColumnEncoder", "InputLayout", "profile_columns", "warn_of_columns"]

MANY_LEVELS = 30
"""Inputs that encode a category, above which it has many levels."""


def profile_columns(frame: Frame, categorical: Categorical) -> list[ColumnProfile]:
    """Summarise every column of a table; `categorical` is a checked `categorical_features`."""
    chosen = _chosen(frame.names, categorical)
    return [profile_column(frame, k, chosen[k]) for k in range(len(frame.names))]


def _chosen(names: Sequence[str], categorical: Categorical) -> list[bool | None]:
    """Whether each column is a category; None where its type decides."""
    d = len(names)
    if categorical is None:
        return [False] * d
    if isinstance(categorical, str):
        return [None] * d
    if categorical and isinstance(categorical[0], bool):
        if len(categorical) != d:
            raise ValueError(f"categorical_features is a mask of {len(categorical)}, but X has {d} columns.")
        return [bool(entry) for entry in categorical]
    positions = set()
    for entry in categorical:
        if isinstance(entry, str):
            if entry not in names:
                raise ValueError(f"categorical_features names {entry!r}; the columns are {', '.join(names)}.")
            positions.add(names.index(entry))
        else:
            if not -d <= entry < d:
                raise ValueError(f"categorical_features has the position {entry}, but X has {d} columns.")
            positions.add(entry % d)
    return [k in positions for k in range(d)]


class InputLayout(NamedTuple):
    """What training has to know of the inputs."""

    scale_index: np.ndarray | None
    """(d,) the length scale of each input; None if each has its own."""
    standardized: np.ndarray
    """(d,) whether an input is scaled to unit variance; categories and cycles are not."""

    @property
    def many_levels(self) -> np.ndarray:
        """(d,) whether an input is one of those that encode a category with many levels."""
        if self.scale_index is None:
            return np.zeros(len(self.standardized), dtype=bool)
        return np.asarray(np.bincount(self.scale_index)[self.scale_index] > MANY_LEVELS)


@dataclass(frozen=True)
class ColumnEncoder:
    """Turns the columns of a table into the inputs of a model.

    A number is one input. The levels of a category are points at distance 1 of each other, a date is its
    elapsed time and its cycles, each a point on a circle, and a gap is filled, with an indicator if training
    rows had gaps. The inputs that encode one category or one cycle share one length scale.

    Parameters
    ----------
    columns : tuple of Column
        One per column of the user's table.
    """

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, profiles: Iterable[ColumnProfile]) -> ColumnEncoder:
        """Choose the encoding of every column, and warn of what it leaves out."""
        profiles = list(profiles)
        encoder = cls(tuple(map(column_of, profiles)))
        notes = []
        for column, profile in zip(encoder.columns, profiles, strict=True):
            if column.kind == "empty" and profile.n:  # without rows, that is the error
                notes.append(f"{column.name!r} has no values and is without effect")
            if column.pooled:
                rows = sum(profile.counts.values()) - sum(profile.counts[level] for level in column.levels)
                notes.append(
                    f"{column.name!r} has {column.pooled:,} rare levels ({rows:,} of {profile.n:,} rows), "
                    "which are taken as one"
                )
        warn_of_columns(notes, "The training rows")
        return encoder

    @classmethod
    def numbers(
        cls, d: int, names: Sequence[str] | None = None, means: np.ndarray | None = None
    ) -> ColumnEncoder:
        """Return the encoder of d numbers without gaps, which changes nothing.

        Parameters
        ----------
        d : int
        names : sequence of str, optional
        means : ndarray of shape (d,), optional
            What gaps of new rows are replaced by.
        """
        names = [f"x{k}" for k in range(d)] if names is None else names
        fills = np.zeros(d) if means is None else rounded(means)
        return cls(
            tuple(Column(name, "number", fill=float(fill)) for name, fill in zip(names, fills, strict=True))
        )

    @property
    def n_features(self) -> int:
        """Columns of the user's table."""
        return len(self.columns)

    @cached_property
    def width(self) -> int:
        """Number of inputs of the model."""
        return sum(column.width for column in self.columns)

    @cached_property
    def is_plain(self) -> bool:
        """Whether the inputs are the columns as they are: numbers without gaps in training."""
        return all(column.kind == "number" and not column.gaps for column in self.columns)

    @cached_property
    def scale_names(self) -> list[str]:
        """One name per length scale: that of the column, and what of it is encoded."""
        return [part.name for column in self.columns for part in column.parts]

    @cached_property
    def scale_index(self) -> np.ndarray | None:
        """(width,) the length scale of each input; None if each has its own."""
        return self.layout(self.width).scale_index

    def layout(self, n_inputs: int) -> InputLayout:
        """Describe the inputs of a kernel: the encoded ones, and further numbers up to `n_inputs`."""
        parts = [part for column in self.columns for part in column.parts]
        parts += [Part("", 1, True)] * (n_inputs - self.width)
        widths = [part.width for part in parts]
        return InputLayout(
            None if max(widths) == 1 else np.repeat(np.arange(len(widths)), widths),
            np.repeat([part.standardized for part in parts], widths),
        )

    def transform(self, X: Any) -> np.ndarray:
        """Encode a table, or an array with the same columns.

        Parameters
        ----------
        X : data frame or array-like of shape (n, n_features)

        Returns
        -------
        ndarray of shape (n, width)
            Finite; in C order.

        Warns
        -----
        ColumnWarning
            Where levels or gaps are found that training has not seen.
        """
        Z, notes = self.encoded(X)
        warn_of_columns(notes, "X")
        return Z

    def encoded(self, X: Any) -> tuple[np.ndarray, list[str]]:
        """Encode a table as `transform` does, and return what would be warned of, by column."""
        if self.is_plain and isinstance(X, np.ndarray) and X.dtype == np.float64 and not np.isnan(X).any():
            return X, []
        frame = frame_of(X, [column.name for column in self.columns])
        Z = np.empty((frame.n_rows, self.width))
        notes: list[str] = []
        start = 0
        for k, column in enumerate(self.columns):
            notes += column.encode(frame, k, Z[:, start : start + column.width])
            start += column.width
        return Z, notes

    def decode(self, Z: np.ndarray) -> np.ndarray:
        """Return the values of encoded rows in the user's columns, for display.

        Parameters
        ----------
        Z : ndarray of shape (…, width)

        Returns
        -------
        ndarray of shape (…, n_features)
            Z itself if columns are numbers without gaps; otherwise of objects: see `Column.decode`.
        """
        if self.is_plain:
            return Z
        flat = Z.reshape(-1, self.width)
        out = np.empty((len(flat), self.n_features), dtype=object)
        start = 0
        for k, column in enumerate(self.columns):
            out[:, k] = column.decode(flat[:, start : start + column.width])
            start += column.width
        return out.reshape(*Z.shape[:-1], self.n_features)

    @property
    def choice(self) -> Choice | None:
        """How the columns were understood; None if they are numbers without gaps."""
        if self.is_plain:
            return None
        kinds = [column.kind for column in self.columns]
        counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
        plural = {"category": "categories"}
        reason = ", ".join(
            f"{count} {kind if count == 1 else plural.get(kind, kind + 's')}"
            for kind, count in counts.items()
        )
        evidence = {column.name: column.description for column in self.columns}
        return Choice(dict(zip([c.name for c in self.columns], kinds, strict=True)), reason, evidence)


def warn_of_columns(notes: Sequence[str], what: str) -> None:
    """Warn of what was found in columns of `what`, if anything."""
    if notes:
        shown = "; ".join(notes[:10]) + (f"; and {len(notes) - 10} more" if len(notes) > 10 else "")
        warnings.warn(f"{what}: column {shown}.", ColumnWarning, stacklevel=6)

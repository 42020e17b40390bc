"""One column of the user's table: what was decided about it, and its encoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gpexperts.columns.codes import DEGREES, MOST_LEVELS, code_degree, level_points, n_columns
from gpexperts.columns.dates import DAY, cycle_angle, microseconds, supported_cycles
from gpexperts.columns.frames import Frame, Levels
from gpexperts.columns.profile import ColumnProfile
from gpexperts.scaling import rounded

__all__ = ["RARE", "Column", "Part", "column_of"]

RARE = 2
"""Levels with fewer rows are one level with those that training has not seen."""


class Part(NamedTuple):
    """Encoded columns that share one length scale."""

    name: str
    width: int
    standardized: bool
    """Whether the values have a unit of their own; otherwise distances of 1 are meant as such."""


@dataclass(frozen=True)
class Column:
    """How a column of the user's table is encoded."""

    name: str
    kind: str
    """One of `frames.KINDS`."""
    gaps: bool = False
    """Whether training rows have gaps, so that there is an indicator or a level for them."""
    fill: float = 0.0
    """What a gap of a number or a date is replaced by: the mean of the training rows."""
    levels: tuple[str, ...] = ()
    """The levels of a category that are told apart, the most frequent first."""
    pooled: int = 0
    """Rare levels of training rows, which are one level."""
    degree: int = DEGREES[0]
    """Of the code of the levels; see `codes`."""
    zone: str | None = None
    """Time zone of a date, in which its cycles are counted."""
    start: int = 0
    """Day since 1970 from which elapsed time is counted."""
    cycles: tuple[str, ...] = ()
    """The cycles of a date that are inputs."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The encoded columns, in their order."""
        if self.kind in ("category", "boolean"):
            return (Part(self.name, n_columns(self._n_points, self.degree), False),)
        parts = [Part(self.name, 1, True)]
        parts += [Part(f"{self.name} ({cycle})", 2, False) for cycle in self.cycles]
        if self.gaps and self.kind != "empty":
            parts.append(Part(f"{self.name} (missing)", 1, False))
        return tuple(parts)

    @cached_property
    def width(self) -> int:
        """Number of encoded columns."""
        return sum(part.width for part in self.parts)

    @property
    def description(self) -> str:
        """What the column is, in a few words."""
        gaps = ", gaps" if self.gaps else ""
        if self.kind == "date":
            return ", ".join(["date: elapsed time", *self.cycles]) + gaps
        if self.kind == "category":
            other = f" and {self.pooled} rare ones as one" if self.pooled else ""
            return f"category of {len(self.levels)} levels{other}{gaps}"
        return "empty: no value in training" if self.kind == "empty" else self.kind + gaps

    @property
    def _n_points(self) -> int:
        """Points of a category: its levels, that of other levels, and that of gaps."""
        return len(self.levels) + (self.kind == "category") + self.gaps

    @cached_property
    def _points(self) -> np.ndarray:
        """(levels + 2, width): the last two rows are those of other levels and of gaps."""
        points, n = level_points(self._n_points, self.degree), len(self.levels)
        # A boolean has no other levels; what is neither true nor false is between them.
        other = points[n] if self.kind == "category" else points[:n].mean(axis=0)
        return np.vstack([points[:n], other, points[-1] if self.gaps else other])

    def encode(self, frame: Frame, k: int, out: np.ndarray) -> list[str]:
        """Write column k of a table into `out` (n, width).

        Returns
        -------
        notes : list of str
            What training had not seen, counted.
        """
        if self.kind == "empty":
            out[:] = 0.0
            return []
        encoders: dict[str, Callable[[Frame, int, np.ndarray], list[str]]] = {
            "number": self._encode_numbers,
            "date": self._encode_times,
        }
        return encoders.get(self.kind, self._encode_levels)(frame, k, out)

    def decode(self, Z: np.ndarray) -> list[Any]:
        """Return the values of encoded rows (n, width): numbers, levels, ISO dates, and None for gaps.

        Rare and unseen levels are "(other)".
        """
        if self.kind == "empty":
            return [None] * len(Z)
        if self.kind in ("category", "boolean"):
            # The last two points are those of other levels and of gaps; of equal ones, the first is taken.
            square = (Z**2).sum(axis=1)[:, None] + (self._points**2).sum(axis=1) - 2.0 * Z @ self._points.T
            names = [*self.levels, "(other)", None]
            return [names[i] for i in np.argmin(np.round(square, 6), axis=1)]
        values: list[Any] = Z[:, 0].tolist()
        if self.kind == "date":
            ticks = np.round((Z[:, 0] + self.start) * DAY).astype("datetime64[us]").astype("datetime64[s]")
            values = [str(time) for time in ticks]
        gap = Z[:, -1] > 0.5 if self.gaps else np.zeros(len(Z), dtype=bool)
        return [None if g else value for g, value in zip(gap, values, strict=True)]

    def _encode_numbers(self, frame: Frame, k: int, out: np.ndarray) -> list[str]:
        values = frame.numbers(k)
        n_infinite = int(np.isinf(values).sum())
        if n_infinite:
            raise ValueError(f"Input X contains infinity: column {self.name!r}, in {n_infinite} rows.")
        gap = np.isnan(values)
        out[:, 0] = values
        return self._fill(gap, out)

    def _encode_times(self, frame: Frame, k: int, out: np.ndarray) -> list[str]:
        times = frame.times(k, self.zone)
        if times.zone != self.zone and self.zone is None:
            raise ValueError(
                f"Column {self.name!r} has the time zone {times.zone}, but in training it had none. "
                "Remove it, as in pandas by .dt.tz_localize(None)."
            )
        ticks, gap = microseconds(times.utc)
        out[:] = 0.0
        out[~gap, 0] = (ticks[~gap] - self.start * DAY) / DAY
        for j, cycle in enumerate(self.cycles):
            out[~gap, 1 + 2 * j : 3 + 2 * j] = cycle_angle(cycle, times.local[~gap])
        return self._fill(gap, out)

    def _fill(self, gap: np.ndarray, out: np.ndarray) -> list[str]:
        """Fill the gaps of the first encoded column, and write their indicator."""
        if self.gaps:
            out[:, -1] = gap
        if not gap.any():
            return []
        out[gap, 0] = self.fill
        return [] if self.gaps else [f"{self.name!r} has {_rows(gap)} without a value, filled with the mean"]

    def level_index(self, values: Levels) -> np.ndarray:
        """Return the positions (n,) in `levels` of the values of a category or a boolean.

        ``len(levels)`` stands for rare and unseen levels, and ``len(levels) + 1`` for gaps.
        """
        n, known = len(self.levels), {level: i for i, level in enumerate(self.levels)}
        places = [known.get(level, n) for level in values.levels]
        return np.array([*places, n + 1], dtype=np.int64)[values.codes]

    def _encode_levels(self, frame: Frame, k: int, out: np.ndarray) -> list[str]:
        codes, levels = values = frame.levels(k)
        n, at = len(self.levels), self.level_index(values)
        out[:] = self._points[at]
        notes = []
        if (at == n).any():
            unseen = [levels[c] for c in np.unique(codes[at == n])]
            shown = ", ".join(map(repr, unseen[:3])) + (", …" if len(unseen) > 3 else "")
            notes.append(
                f"{self.name!r} has {_rows(at == n)} of {len(unseen)} rare or unseen levels ({shown}), "
                "taken as one"
            )
        if not self.gaps and (at == n + 1).any():
            notes.append(f"{self.name!r} has {_rows(at == n + 1)} without a value, taken as an unseen level")
        return notes


def _rows(which: np.ndarray) -> str:
    count = int(which.sum())
    return f"{count:,} row{'s' * (count != 1)}"


def column_of(profile: ColumnProfile) -> Column:
    """Choose the encoding of a column."""
    name, gaps = profile.name, profile.gaps > 0
    if profile.gaps == profile.n:
        return Column(name, "empty", gaps)
    if profile.kind == "number":
        assert profile.summary is not None
        return Column(name, "number", gaps, float(rounded(profile.summary.mean)[0]))
    if profile.kind == "date":
        assert profile.summary is not None
        low, high = float(profile.summary.low[0]), float(profile.summary.high[0])
        start = int(np.floor(low))
        varies = {cycle: a < b for cycle, (a, b) in profile.cycles.items()}
        return Column(
            name,
            "date",
            gaps,
            float(rounded(profile.summary.mean - start)[0]),
            zone=profile.zone,
            start=start,
            cycles=supported_cycles(high - low, varies),
        )
    if profile.kind == "boolean":
        return Column(name, "boolean", gaps, levels=("False", "True"))
    # The most frequent ones first; equally frequent ones in the order of their text.
    order = sorted(profile.counts, key=lambda level: (-profile.counts[level], level))
    kept = [level for level in order if profile.counts[level] >= RARE][: MOST_LEVELS - 1 - gaps]
    degree = code_degree(len(kept) + 1 + gaps, profile.n)
    pooled = len(order) - len(kept)
    return Column(name, "category", gaps, levels=tuple(kept), pooled=pooled, degree=degree)

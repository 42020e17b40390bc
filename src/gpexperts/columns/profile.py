"""A summary of a column, from which its encoding is chosen.

Profiles of the pieces of a column can be merged, so that rows in partitions get the same encoding as rows in
one table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpexperts.columns.dates import CYCLES, DAY, microseconds
from gpexperts.columns.frames import Frame
from gpexperts.scaling import ColumnSummary

__all__ = ["Categorical", "ColumnProfile", "merged_profile", "profile_column"]

Categorical = list[str] | list[int] | list[bool] | str | None
"""A checked `categorical_features`: "from_dtype", a mask, positions, names, or None."""


@dataclass(frozen=True)
class ColumnProfile:
    """What is in a column, or in a piece of it."""

    name: str
    kind: str
    n: int
    """Rows."""
    gaps: int
    """Rows without a value."""
    summary: ColumnSummary | None = None
    """Of numbers, or of the days of dates since 1970."""
    counts: dict[str, int] = field(default_factory=dict)
    """Rows of each level."""
    zone: str | None = None
    cycles: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The first and the last place in each cycle, as shares of it."""


def profile_column(frame: Frame, k: int, categorical: bool | None) -> ColumnProfile:
    """Summarise column k.

    Parameters
    ----------
    frame : Frame
    k : int
    categorical : bool or None
        Whether the column is a category; None decides by its type.
    """
    name, kind = frame.names[k], "category" if categorical else frame.kind(k)
    if categorical is False and kind in ("category", "boolean"):
        kind = "number"
    if kind == "number":
        values = frame.numbers(k)
        n_infinite = int(np.isinf(values).sum())
        if n_infinite:
            raise ValueError(
                f"Input X contains infinity: column {name!r}, in {n_infinite} of {frame.n_rows} rows. Gaps "
                "are NaN; a number must be finite."
            )
        here = values[~np.isnan(values)]
        return ColumnProfile(
            name, kind, len(values), len(values) - len(here), ColumnSummary.of(here[:, None])
        )
    if kind == "date":
        times = frame.times(k, None)
        ticks, gap = microseconds(times.utc)
        local = times.local[~gap]
        places = {c: place(local) for c, (_, place) in CYCLES.items()} if len(local) else {}
        return ColumnProfile(
            name,
            kind,
            len(ticks),
            int(gap.sum()),
            ColumnSummary.of((ticks[~gap] / DAY)[:, None]),
            zone=times.zone,
            cycles={c: (float(p.min()), float(p.max())) for c, p in places.items()},
        )
    codes, levels = frame.levels(k)
    count = np.bincount(codes[codes >= 0], minlength=len(levels)).tolist()
    counts = {level: c for level, c in zip(levels, count, strict=True) if c}
    return ColumnProfile(name, kind, len(codes), int((codes < 0).sum()), counts=counts)


def merged_profile(pieces: Sequence[ColumnProfile]) -> ColumnProfile:
    """Return the profile of a column from those of its pieces.

    Raises
    ------
    ValueError
        If the pieces hold different kinds of values, or dates of different time zones.
    """
    if len(pieces) == 1:
        return pieces[0]
    name, n, gaps = pieces[0].name, sum(p.n for p in pieces), sum(p.gaps for p in pieces)
    filled = [p for p in pieces if p.n > p.gaps] or list(pieces[:1])
    kinds, zones = {p.kind for p in filled}, {p.zone for p in filled}
    if len(kinds) > 1:
        raise ValueError(
            f"Column {name!r} is {' in one partition and '.join(sorted(kinds))} in another. Give it one "
            "type, as in X.astype, or name it in categorical_features."
        )
    if len(zones) > 1:
        raise ValueError(f"The dates in column {name!r} have several time zones: {sorted(map(str, zones))}.")
    counts: Counter[str] = Counter()
    for piece in filled:
        counts.update(piece.counts)
    summaries = [p.summary for p in filled if p.summary is not None]
    cycles = {
        c: (min(p.cycles[c][0] for p in filled), max(p.cycles[c][1] for p in filled))
        for c in filled[0].cycles
    }
    combined = filled[0].summary
    if any(s.n for s in summaries):
        combined = ColumnSummary.combined(summaries)
    return ColumnProfile(name, filled[0].kind, n, gaps, combined, dict(counts), filled[0].zone, cycles)

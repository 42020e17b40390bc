"""Which columns are no inputs, and what there is to say about a target."""

from __future__ import annotations

import re

import numpy as np

from gpexperts.tables.arrow import pa
from gpexperts.tables.columns_seen import Seen

__all__ = ["outlying", "reason_to_leave_out", "target_notes", "target_problem"]

_INDEX = re.compile(
    r"^(Unnamed: \d+|__index_level_\d+__|level_\d+|rownames|row_?names?|index|)$", re.IGNORECASE
)
"""Names under which tools save the index of a data frame."""
_IDENTIFIER = re.compile(r"(^|[\W_])(id|uuid|guid|key|nr|no|num|number|index|row|rowid|hash)$", re.IGNORECASE)
_CAMEL = re.compile(r"[a-z](Id|ID|Key|Nr|No)$")
_DISTINCT = 0.95
_LONG = 40
"""Mean characters of free text."""
_FAR = 10.0
"""Robust standard deviations."""


def reason_to_leave_out(seen: Seen, n_rows: int, *, chosen: bool) -> str:
    """Return why a column is no input, or "" if it is one.

    Parameters
    ----------
    seen : Seen
    n_rows : int
    chosen : bool
        Whether the user named it: then it is an input, unless it has no values or nothing varies.
    """
    if seen.values is None:
        return "" if chosen else f"holds {seen.shown}"
    n_known = n_rows - seen.n_missing
    if n_known == 0:
        return "all values are missing"
    if seen.n_distinct == 1 and seen.n_missing == 0 and n_rows > 1:
        return f"constant ({_text(seen.values[0].as_py())})"
    if chosen:
        return ""
    name, all_distinct = seen.column.name, seen.n_distinct == n_known and n_known > 1
    if seen.column.kind == "number" and seen.is_integer:
        if name.startswith("__index_level_") or (_INDEX.match(name) and all_distinct):
            return "saved index"
        if all_distinct and seen.n_missing == 0 and n_rows >= 5 and _is_identifier(name):
            return "identifier: every value is different"
    if seen.column.kind == "category" and n_rows >= 5:
        if seen.mean_length > _LONG and seen.n_distinct > 0.5 * n_known:
            return "free text"
        if seen.n_distinct >= _DISTINCT * n_known:
            every = "every value is different" if all_distinct else f"{seen.n_distinct:,} different values"
            return f"identifier: {every}"
    return ""


def _is_identifier(name: str) -> bool:
    return bool(_IDENTIFIER.search(name) or _CAMEL.search(name))


def target_problem(seen: Seen, role: str) -> str:
    """Return why a column cannot be the target (or weights, or noise_std), or ""."""
    name = seen.column.name
    what = f"The target {name}" if role == "target" else f"The column {name} of --{role.replace('_', '-')}"
    if seen.values is None or seen.column.kind not in ("number", "boolean"):
        kind = {"category": "text", "date": "dates"}.get(seen.column.kind, "lists or other structures")
        shown = f", such as {seen.shown}" if seen.shown else ""
        return f"{what} holds {kind}{shown}; a regression needs numbers."
    if seen.n_missing == len(seen.values):
        return f"{what} has no values: all are missing."
    if seen.problem:
        return f"{what} is not all numbers. {seen.problem}"
    return ""


def target_notes(seen: Seen, first_row: int) -> list[str]:
    """Return notes about gaps and outliers of a target that holds numbers."""
    numbers = (
        seen.values.cast(pa.float64())
        if seen.column.kind == "number"
        else seen.values.cast(pa.int8()).cast(pa.float64())
    )
    y = numbers.to_numpy(zero_copy_only=False) if hasattr(numbers, "combine_chunks") else numbers
    notes = []
    if seen.n_missing:
        many = f"{seen.n_missing:,} rows without it are" if seen.n_missing > 1 else "1 row without it is"
        notes.append(f"{many} left out")
    if seen.n_distinct == 1:
        notes.append("it has one value: there is nothing to learn")
    far = outlying(y)
    if far.any():
        first, count = int(np.flatnonzero(far)[0]), int(far.sum())
        many = f"{count:,} outlier{'s' * (count > 1)} ({far.mean():.2%})"
        notes.append(f"{many}, such as {y[first]:g} in row {first_row + first}")
    return notes


def outlying(y: np.ndarray) -> np.ndarray:
    """Whether each target (n,) is an outlier; none is where they would be more than a tenth."""
    far = _far(y)
    if np.nanmin(y) > 0:
        far &= _far(np.log(y))  # large values of a skewed target are no outliers
    return far & bool(far.mean() <= 0.1)


def _far(y: np.ndarray) -> np.ndarray:
    """Whether a value is more than ten robust standard deviations from the median."""
    low, middle, high = np.nanquantile(y, [0.25, 0.5, 0.75])
    if high == low:
        return np.zeros(len(y), dtype=bool)
    return np.abs(y - middle) > _FAR * (high - low) / 1.349


def _text(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 30 else f"{text[:30]}…"

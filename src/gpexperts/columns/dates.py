"""Dates as inputs: elapsed time, and the cycles that the training rows span at least twice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["CYCLES", "DAY", "cycle_angle", "microseconds", "supported_cycles"]

DAY = 86_400_000_000
"""Microseconds."""
_GAP = np.iinfo(np.int64).min
"""NumPy's NaT as an integer."""


def microseconds(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return times (n,) datetime64[us] as integers since 1970, and which of them are gaps."""
    ticks = times.astype("datetime64[us]").view(np.int64)
    return ticks, ticks == _GAP


def _hour(local: np.ndarray) -> np.ndarray:
    return np.mod(microseconds(local)[0], DAY) / DAY


def _weekday(local: np.ndarray) -> np.ndarray:
    return np.mod(np.floor_divide(microseconds(local)[0], DAY) + 3, 7) / 7  # 1970 began on a Thursday


def _season(local: np.ndarray) -> np.ndarray:
    year = local.astype("datetime64[Y]")
    since, length = (local - year).astype(np.int64), (year + 1).astype(local.dtype) - year.astype(local.dtype)
    return since / length.astype(np.int64)


CYCLES: dict[str, tuple[float, Callable[[np.ndarray], np.ndarray]]] = {
    "hour": (1.0, _hour),
    "weekday": (7.0, _weekday),
    "season": (365.25, _season),
}
"""Name ↦ days of a cycle, and a function from local times (n,) without gaps to shares of the cycle."""


def supported_cycles(span_days: float, varies: dict[str, bool]) -> tuple[str, ...]:
    """Return the cycles that training rows span at least twice, without those in which they do not vary."""
    return tuple(
        name for name, (days, _) in CYCLES.items() if span_days >= 2 * days and varies.get(name, True)
    )


def cycle_angle(name: str, local: np.ndarray) -> np.ndarray:
    """Return sine and cosine of the place in a cycle, (n, 2), for local times without gaps."""
    angle = 2.0 * np.pi * CYCLES[name][1](local)
    return np.stack([np.sin(angle), np.cos(angle)], axis=1)

"""From what the user wrote to what is meant: numbers of experts, shares, sizes in bytes, names.

Every function here either returns a plain value or raises an error that names the value it was given,
what was expected, and what to do next.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

__all__ = [
    "automatic_n_experts",
    "bytes_of",
    "checked_level",
    "default_memory_budget",
    "is_auto",
    "is_number",
    "member",
    "number_of_experts",
    "number_selected",
    "positive_int",
    "usable_memory",
]

Stage = TypeVar("Stage")


def is_auto(value: Any) -> bool:
    """Whether the choice is left to us; an array compared with a word would be an array."""
    return isinstance(value, str) and value == "auto"


def is_number(value: Any) -> bool:
    """Whether a value is a real number, NaN and infinity included."""
    return isinstance(value, Real) and not isinstance(value, bool)


def member(value: Any, named: Mapping[str, type[Stage]], base: Any, parameter: str) -> Stage:
    """Return the stage a name stands for, or the instance itself.

    Parameters
    ----------
    value : str or instance of `base`
    named : mapping from name to class
    base : type
        What an instance must be.
    parameter : str
        The constructor's parameter, for the error message.
    """
    if isinstance(value, base):
        return value
    known = ", ".join(repr(name) for name in named)
    if isinstance(value, str):
        if value in named:
            return named[value]()
        raise ValueError(f"Unknown {parameter} {value!r}; known names are {known}.")
    raise TypeError(f"{parameter} must be one of {known} or an instance of {base.__name__}, got {value!r}.")


def number_of_experts(n_experts: Any, expert_size: Any, n: int, automatic: int) -> int:
    """Resolve M from `n_experts` and `expert_size` for n rows."""
    if n_experts != "auto" and expert_size != "auto":
        raise ValueError(f"Give n_experts or expert_size, not both (got {n_experts!r} and {expert_size!r}).")
    if n_experts != "auto":
        M = positive_int(n_experts, "n_experts")
        if n < M:
            raise ValueError(
                f"n_experts={M} is more than the {n} training rows (n_samples={n}); every expert needs at "
                "least one. Choose a smaller n_experts or leave it 'auto'."
            )
        return M
    if expert_size != "auto":
        size = positive_int(expert_size, "expert_size")
        return max(1, -(-n // size))
    return automatic


def automatic_n_experts(n: int) -> int:
    """M where the user left it to us: the exact GP while that takes seconds, then small parts.

    Parts of 400 rows while factors of that size are cheap to make for every region; fewer rows where
    there are so many parts that most are touched by few queries.
    """
    if n <= 3000:
        return 1
    return -(-n // (400 if n <= 100_000 else 250))


def number_selected(n_selected: Any, n_experts: int, *, given: int | None) -> int:
    """Resolve K for M experts: a number, or a ratio of M.

    Parameters
    ----------
    n_selected : int or float
    n_experts : int
        M.
    given : int or None
        M as the user chose it: a larger K is an error. None where we chose it, and a larger K means all.
        The partition may have found fewer parts than that, which is no fault of K.
    """
    if isinstance(n_selected, str):
        raise ValueError(f"n_selected must be 'auto', a number or a ratio, got {n_selected!r}.")
    if not is_number(n_selected):
        raise TypeError(f"n_selected must be 'auto', an int or a float, got {n_selected!r}.")
    if isinstance(n_selected, Integral):
        K = positive_int(n_selected, "n_selected")
        if given is not None and given < K:
            raise ValueError(
                f"n_selected={K} is more than the {given} experts. "
                f"Choose at most {given}, or 1.0 for all of them."
            )
        return min(K, n_experts)
    ratio = float(n_selected)
    if not 0.0 < ratio <= 1.0:
        raise ValueError(
            f"n_selected={ratio} is a ratio K/M and must lie in (0, 1]; for a number of experts give an int."
        )
    return max(1, int(np.floor(ratio * n_experts + 0.5)))


def positive_int(value: Any, parameter: str, otherwise: str = "'auto'") -> int:
    """Return `value` as an int of at least 1; `otherwise` is what else the parameter may be."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{parameter} must be {otherwise} or a positive int, got {value!r}.")
    if value < 1:
        raise ValueError(f"{parameter} must be at least 1, got {value}.")
    return int(value)


def checked_level(level: Any) -> float:
    """Return the probability of an interval as a float strictly between 0 and 1."""
    if not is_number(level):
        raise TypeError(f"level must be a number strictly between 0 and 1, got {level!r}.")
    if not 0.0 < float(level) < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}.")
    return float(level)


_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{prefix}b": 1000**k for k, prefix in enumerate("kmgt", start=1)}
_UNITS |= {f"{prefix}ib": 1024**k for k, prefix in enumerate("kmgt", start=1)}


def bytes_of(value: Any) -> int:
    """Resolve a memory budget: a number of bytes, '4GiB', '500 MB' or 'auto'."""
    if isinstance(value, str):
        if value == "auto":
            return default_memory_budget()
        match = re.fullmatch(r"\s*(\d+\.?\d*)\s*([a-zA-Z]*)\s*", value)
        if match and match[2].lower() in _UNITS:
            value = float(match[1]) * _UNITS[match[2].lower()]
        else:
            raise ValueError(
                f"memory_budget={value!r} is not a size; write bytes, '4GiB', '500MB' or 'auto'."
            )
    if not is_number(value):
        raise TypeError(f"memory_budget must be 'auto', bytes or a size like '4GiB', got {value!r}.")
    if not 1_000_000 <= float(value) < np.inf:
        raise ValueError(f"memory_budget={value} bytes is not a usable size; give at least '1MB'.")
    return int(float(value))


def default_memory_budget() -> int:
    """A quarter of what this process may use."""
    return max(64 * 1024**2, usable_memory() // 4)


def usable_memory() -> int:
    """Bytes this process may use: the machine's memory, or its control group's limit."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file():
        text = limit.read_text().strip()
        if text.isdigit():
            total = min(total, int(text))
    return total

"""Memory budgets: sizes in bytes, and whether a fit can keep to its budget at all.

The check counts what cannot be avoided: the factor of the largest expert, and the work arrays of the largest
block that is trained on. The rows themselves belong to the caller, and more threads take more.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from gpexperts.exceptions import MemoryBudgetError
from gpexperts.validation import is_auto, is_number

__all__ = ["bytes_of", "check_memory", "default_memory_budget", "readable_size", "usable_memory"]

_DOUBLE = 8
_TRAINING_MATRICES = 3
"""As large as C, at the same time: C⁻¹ in place of C, ααᵀ, and the halves of correlations and slopes. (Blocks
of up to 512 rows, which are worked on whole, take more of what is little.)"""


def check_memory(
    memory_budget: Any,
    *,
    n: int,
    expert_rows: int,
    block_rows: int,
    full: bool,
    there: int | None = None,
) -> None:
    """Refuse a fit that needs more than its budget.

    Parameters
    ----------
    memory_budget : int, str or "auto"
        As the user gave it; for "auto" the limit is all the memory there is.
    n : int
        Training rows.
    expert_rows : int
        Rows of the largest expert, at least.
    block_rows : int
        Rows of the largest block that hyperparameters are trained on.
    full : bool
        Whether experts are those blocks, so that smaller experts make smaller blocks.
    there : int or None
        All the memory there is where the work is done; None is that of this process.

    Raises
    ------
    MemoryBudgetError
    """
    automatic = is_auto(memory_budget)
    usable = usable_memory() if there is None else there
    limit = usable if automatic else bytes_of(memory_budget)
    if there is not None:
        limit = min(limit, there)
    for what, rows, matrices, follows_experts in (
        ("the factor of the largest expert", expert_rows, 1, True),
        ("training on the largest block of rows", block_rows, _TRAINING_MATRICES, full),
    ):
        needed = _DOUBLE * matrices * rows * rows
        if needed <= limit:
            continue
        affordable = max(1, int(np.sqrt(limit / (_DOUBLE * matrices))))
        cure = f"Choose n_experts={-(-n // affordable)} or more" if follows_experts else "Choose"
        given, remedy = f"memory_budget={memory_budget!r}", "a memory_budget of"
        if limit == there:
            given, remedy = f"the smallest worker has {readable_size(limit)}", "workers with"
        elif automatic:
            given += f" is at most the {readable_size(limit)} there are"
        raise MemoryBudgetError(
            f"This fit cannot keep to its memory budget: {what} ({rows:,} rows) takes at least "
            f"{readable_size(needed)} ({needed:,} bytes); {given}. {cure}"
            f"{', or' if follows_experts else ''} {remedy} at least {needed:,} bytes."
        )


_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{prefix}b": 1000**k for k, prefix in enumerate("kmgt", start=1)}
_UNITS |= {f"{prefix}ib": 1024**k for k, prefix in enumerate("kmgt", start=1)}


def bytes_of(value: Any) -> int:
    """Resolve a memory budget: a number of bytes, '4GiB', '500 MB' or 'auto'."""
    if isinstance(value, str):
        if value == "auto":
            return default_memory_budget()
        # A model file may hold any text, and the time for this pattern grows with the square of its length.
        match = re.fullmatch(r"\s*(\d+\.?\d*)\s*([a-zA-Z]*)\s*", value) if len(value) <= 40 else None
        if match and match[2].lower() in _UNITS:
            value = float(match[1]) * _UNITS[match[2].lower()]
        else:
            raise ValueError(
                f"memory_budget={value!r:.60} is not a size; write bytes, '4GiB', '500MB' or 'auto'."
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


def readable_size(n_bytes: int) -> str:
    """Return 12_345_678 as '12.3 MB'."""
    size = float(n_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"

"""Whether a fit can keep to its memory budget at all, told before anything is computed.

Counted is what cannot be avoided: the factor of the largest expert, and the work arrays of the largest
block that is trained on. The rows themselves are the caller's, and further threads take more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpexperts.exceptions import MemoryBudgetError
from gpexperts.files import readable_size
from gpexperts.settings import bytes_of, is_auto, usable_memory

__all__ = ["check_memory"]

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

"""Whether this process or thread is itself a worker of joblib, which joblib says in private only."""

from __future__ import annotations

import multiprocessing

import joblib

__all__ = ["is_nested"]


def is_nested() -> bool:
    """Whether other workers run beside this one, so that it should use a single core.

    If a later joblib does not tell any more, every worker uses all cores: slower, but right.
    """
    active = getattr(joblib.parallel, "get_active_backend", None)
    backend = None if active is None else active()[0]
    return bool(getattr(backend, "nesting_level", 0)) or multiprocessing.parent_process() is not None

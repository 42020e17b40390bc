"""What travels between this process and a cluster, by stage, in bytes.

An estimator opens an account for the stage it is in; whoever sends or fetches something there counts it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["Travelled", "count", "counting", "is_counting", "size_of"]

Travelled = dict[str, dict[str, int]]
"""By stage: bytes `sent` to the cluster, `fetched` from it and `exchanged` within it, with the number of
`round_trips` and of `tasks`."""

_account: ContextVar[dict[str, int] | None] = ContextVar("gpexperts_traffic", default=None)


@contextmanager
def counting(travelled: Travelled, stage: str) -> Iterator[None]:
    """Let `count` add to ``travelled[stage]`` inside."""
    nothing = {"sent": 0, "fetched": 0, "exchanged": 0, "round_trips": 0, "tasks": 0}
    token = _account.set(travelled.setdefault(stage, nothing))
    try:
        yield
    finally:
        _account.reset(token)


def is_counting() -> bool:
    """Whether an account is open: a stage within a stage is a part of it."""
    return _account.get() is not None


def count(*, sent: int = 0, fetched: int = 0, exchanged: int = 0, tasks: int = 0) -> None:
    """Add bytes, and the tasks of a round trip, to the open account, if there is one."""
    account = _account.get()
    if account is None:
        return
    account["sent"] += sent
    account["fetched"] += fetched
    account["exchanged"] += exchanged
    account["tasks"] += tasks
    account["round_trips"] += tasks > 0


def size_of(value: Any) -> int:
    """Bytes that a value takes on the wire; arrays are not copied to find out."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(head) + sum(buffer.raw().nbytes for buffer in buffers)

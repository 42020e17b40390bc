"""When waiting for a cluster has no point any more: no worker, no worker that can go on, or no progress.

A wait looks at the scheduler every second. It ends with a ClusterError that names the unfinished tasks and
the workers they wait for.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Collection, Sequence
from typing import Any

from gpexperts.exceptions import ClusterError
from gpexperts.memory import readable_size

__all__ = ["Waiting", "identity", "names_of", "replied"]

_REPLY = 10.0
"""Seconds in which a scheduler replies to a look."""
_PAUSED = "paused"


class Waiting:
    """Looks at a cluster while tasks run.

    Parameters
    ----------
    client : Client
    keys : collection
        Keys of all tasks that the futures need.
    patience : float
        Seconds that a wait goes on without a worker that can run its tasks.
    stall_limit : float
        Seconds that it goes on without a finished task.
    """

    def __init__(self, client: Any, keys: Collection[Any], patience: float, stall_limit: float) -> None:
        self._client, self._keys = client, frozenset(map(str, keys))
        self._patience, self._stall_limit = patience, stall_limit
        self._progress = self._worker = self._reply = time.monotonic()
        self._seen: tuple[int, frozenset[str]] = (0, frozenset())
        self._workers: dict[str, _Worker] = {}

    async def look(self, futures: Sequence[Any]) -> None:
        """Look at the cluster once.

        Raises
        ------
        ClusterError
            If waiting has no point.
        """
        state = await self._state()
        info, processing = state or ({}, {})
        now = time.monotonic()
        pending = [future for future in futures if not future.done()]
        at_work = {address: {str(key) for key in keys} & self._keys for address, keys in processing.items()}
        seen = (len(futures) - len(pending), frozenset().union(*at_work.values()))
        if seen != self._seen:
            self._seen, self._progress = seen, now
        unfinished = f"Not finished: {names_of(pending or futures)}."
        if state is not None:
            self._reply = now
        elif now - self._reply > self._patience:
            raise ClusterError(
                f"The scheduler has not replied for {self._patience:g} s. {unfinished} If it has ended, "
                "start it again; a model that was fitted on its cluster must then be fitted again."
            )
        if info or state is None:
            self._worker = now
        elif now - self._worker > self._patience:
            raise ClusterError(
                f"The cluster has had no worker for {self._patience:g} s. {unfinished} Start workers with "
                "`dask worker ADDRESS` and call again."
            )
        self._workers = {
            address: self._workers.get(address, _Worker(now)).updated(worker, now)
            for address, worker in info.items()
        }
        self._check_workers([address for address, keys in at_work.items() if keys], unfinished, now)
        if now - self._progress > self._stall_limit:
            raise ClusterError(
                f"No task has finished for {self._stall_limit:g} s. {unfinished} If a task takes that long, "
                "raise stall_limit of DaskEngine."
            )

    async def _state(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The workers, and the keys of the tasks that each is to run; None without a reply."""
        try:
            workers = (await replied(identity(self._client), _REPLY))["workers"]
            return workers, dict(await replied(self._client.processing(), _REPLY))
        except (OSError, RuntimeError, TimeoutError):
            return None

    def _check_workers(self, at_work: list[str], unfinished: str, now: float) -> None:
        """Raise an error if all workers that are to run the tasks have been unable to for too long.

        A worker that replies but runs no task may wait for results that a silent worker holds.
        """
        concerned = [address for address in at_work if address in self._workers] or list(self._workers)
        if not concerned or now - self._progress <= self._patience:
            return
        if min(self._workers[address].unable_for(now) for address in concerned) <= self._patience:
            return
        at_fault = [address for address in concerned if self._workers[address].idle_for(now) > self._patience]
        if not at_fault:
            at_fault = [a for a, worker in self._workers.items() if worker.silent_for(now) > self._patience]
        if not at_fault:
            return
        address = at_fault[0]
        others = f" (and {len(at_fault) - 1} more)" if len(at_fault) > 1 else ""
        worker = self._workers[address]
        if worker.paused_since is not None:
            raise ClusterError(
                f"Worker {address}{others} is paused: out of memory ({worker.memory}), and has started no "
                f"task for {self._patience:g} s. {unfinished} Give workers more memory, start more workers, "
                "or choose a smaller expert_size or smaller partitions, and call again."
            )
        raise ClusterError(
            f"Worker {address}{others} has not replied for {self._patience:g} s. {unfinished} It may be "
            "stopped, or its machine cannot be reached: end it, and Dask gives its tasks to other workers. "
            "Then call again."
        )


class _Worker:
    """What was seen of a worker, and since when."""

    def __init__(self, now: float) -> None:
        self._last_seen: float | None = None
        self._heard = now
        self._waits_since: float | None = None
        self.paused_since: float | None = None
        self.memory = ""

    def updated(self, info: dict[str, Any], now: float) -> _Worker:
        """Take over what the scheduler says of the worker."""
        if info.get("last_seen") != self._last_seen:
            self._last_seen, self._heard = info.get("last_seen"), now
        metrics = info.get("metrics", {})
        # A paused worker starts no task, but ends those that it has started.
        counts = metrics.get("task_counts", {})
        starved = info.get("status") == _PAUSED and not counts.get("executing")
        runs = not counts or counts.get("executing") or counts.get("long-running")
        self._waits_since = None if runs else (self._waits_since or now)
        self.paused_since = (self.paused_since or now) if starved else None
        used, limit = metrics.get("memory"), info.get("memory_limit")
        self.memory = " of ".join(readable_size(int(size)) for size in (used, limit) if size)
        return self

    def idle_for(self, now: float) -> float:
        """Seconds for which the worker has been paused or silent."""
        paused = 0.0 if self.paused_since is None else now - self.paused_since
        return max(paused, self.silent_for(now))

    def silent_for(self, now: float) -> float:
        """Seconds since the scheduler has heard of the worker."""
        return now - self._heard

    def unable_for(self, now: float) -> float:
        """Seconds for which the worker has been paused or silent, or has run no task."""
        waits = 0.0 if self._waits_since is None else now - self._waits_since
        return max(waits, self.idle_for(now))


async def identity(client: Any) -> Any:
    """What the scheduler knows of itself and of all its workers."""
    try:
        return await client.scheduler.identity(n_workers=-1)
    except TypeError:  # before 2025, all workers are always listed
        return await client.scheduler.identity()


async def replied(reply: Awaitable[Any], seconds: float) -> Any:
    """Return a reply of the scheduler, or raise TimeoutError."""
    import asyncio  # `import gpexperts` does not need it

    return await asyncio.wait_for(reply, timeout=seconds)


def names_of(tasks: Sequence[Any]) -> str:
    """The names of tasks or of their futures, without the random part of their keys."""
    names = [re.sub(r"^gpexperts |-[0-9a-f]{32}$", "", str(getattr(task, "key", task))) for task in tasks]
    return ", ".join(repr(name) for name in names[:3]) + (f" and {len(names) - 3} more" * (len(names) > 3))

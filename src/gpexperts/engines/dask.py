"""A Dask cluster: the same pieces of work, on workers that may be on other machines and may die.

Everything on the cluster is the result of a pure task: a slice of data and what is computed from it.
What a dead worker held, Dask computes again elsewhere. No wait is endless: one that sees no worker, or
no progress, for too long ends with an error that names the work.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, nullcontext
from typing import Any

from gpexperts.engines import traffic
from gpexperts.engines.base import Engine, Held, Item, Result
from gpexperts.engines.batches import balanced_batches, in_order
from gpexperts.engines.clients import (
    address_of,
    bytes_sent,
    client_at,
    distributed,
    has_workers,
    is_client,
    is_collection,
)
from gpexperts.engines.traffic import Travelled
from gpexperts.engines.worker import map_all, map_with, worked
from gpexperts.exceptions import ClusterError

__all__ = ["DaskEngine", "HeldOnCluster", "engine_for", "portable"]

TASKS_PER_SLOT = 1
"""Tasks of one step for every thread of a worker. The cost of a block is known beforehand, so that one
batch per thread is even; each further task costs a step a few milliseconds."""
_POLL = 1.0


class DaskEngine(Engine):
    """Run pieces of work on the workers of a Dask cluster.

    It holds no connection, only where to find one, so that it can be copied, pickled and searched over.

    Parameters
    ----------
    address : str or None
        The scheduler's address, or the path of a scheduler file; None is the current client, or a new
        cluster of this machine's cores if there is none.
    patience : float
        Seconds to wait for a worker to come where there is none.
    stall_limit : float
        Seconds without a single finished piece of work after which a wait is given up.
    """

    def __init__(
        self, address: str | None = None, *, patience: float = 60.0, stall_limit: float = 3600.0
    ) -> None:
        self.address = address
        self.patience = patience
        self.stall_limit = stall_limit

    def __repr__(self) -> str:
        return f"DaskEngine({self.address!r})"

    @property
    def client(self) -> Any:
        """The client to talk to."""
        return client_at(self.address, self.patience)

    @property
    def n_workers(self) -> int:
        return max(1, sum(self.client.nthreads().values()))

    @property
    def worker_memory(self) -> int | None:
        """Bytes that the smallest worker may use; None where no limit is known."""
        info = self.client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [worker["memory_limit"] for worker in info if worker["memory_limit"]]
        return min(limits, default=None)

    # ------------------------------------------------------------------------------------- tasks

    def task(
        self, name: str, function: Callable[..., Any], *arguments: Any, at: list[str] | None = None
    ) -> Any:
        """A piece of work to be done on a worker, as a Delayed; `name` says what in errors.

        `at` are the workers that should do it, while they are there; see `places`.
        """
        from dask.base import annotate
        from dask.delayed import delayed

        where = {"workers": at, "allow_other_workers": True}
        with nullcontext() if at is None else annotate(**where):
            return delayed(worked)(function, *arguments, dask_key_name=f"gpexperts {name}-{uuid.uuid4().hex}")

    def places(self, kept: Sequence[Any]) -> list[list[str]]:
        """The workers that hold each of some kept results now, once all are there."""
        client = self.client
        futures = [distributed().client.futures_of(result)[0] for result in kept]
        with client.as_current():
            self._await(client, futures, fetch=False)
            held = client.who_has(futures)
        return [sorted(held[future.key]) for future in futures]

    def futures_in(self, *collections: Any) -> list[Any]:
        """What collections hold on a cluster already."""
        return [f for c in collections if is_collection(c) for f in distributed().client.futures_of(c)]

    def persist(self, tasks: Sequence[Any]) -> list[Any]:
        """Do the work and keep the results on the workers; returns Delayed that stand for them."""
        client = self.client
        with client.as_current(), _large_graphs():
            return list(client.persist(list(tasks), optimize_graph=False))

    def compute(self, tasks: Sequence[Any]) -> list[Any]:
        """Do the work and return the results, in the order of the tasks."""
        if not tasks:
            return []
        client = self.client
        with client.as_current():
            with _large_graphs():
                futures = client.compute(list(tasks), optimize_graph=False)
            try:
                results = self._await(client, futures, fetch=True)
            except BaseException:
                client.cancel(futures, reason="the caller gave up")
                raise
        traffic.count(tasks=len(tasks), fetched=traffic.size_of(results))
        return results

    def _await(self, client: Any, futures: list[Any], *, fetch: bool) -> list[Any]:
        """Wait until all is done and fetch the results, in one go: a step pays for one change of thread."""
        import asyncio  # here, as `import gpexperts` needs none of it

        async def waiting() -> Any:
            await distributed().wait(futures)
            for future in futures:
                if future.status == "error":
                    await future  # raises it
            return await client.gather(futures, asynchronous=True) if fetch else []

        handle = asyncio.run_coroutine_threadsafe(waiting(), client.loop.asyncio_loop)
        try:
            return self._watched(client, handle, futures)
        except BaseException as error:
            handle.cancel()
            raise self._explained(error, futures) from error

    def _watched(self, client: Any, handle: Future[list[Any]], futures: list[Any]) -> list[Any]:
        """The result of `handle`, while there are workers and work gets done."""
        progress = worker_seen = time.monotonic()
        n_done = 0
        while True:
            try:
                return handle.result(_POLL)
            except TimeoutError:
                if handle.done():  # just now, or with a TimeoutError of its own, which this raises again
                    return handle.result()
            now = time.monotonic()
            pending = [future for future in futures if not future.done()]
            if len(futures) - len(pending) > n_done:
                n_done, progress = len(futures) - len(pending), now
            if has_workers(client):
                worker_seen = now
            elif now - worker_seen > self.patience:
                raise ClusterError(
                    f"The cluster has had no worker for {self.patience:g} s while {_names(pending)} "
                    "waited. Start workers with `dask worker ADDRESS` and call again."
                )
            if now - progress > self.stall_limit:
                raise ClusterError(
                    f"No piece of work was finished for {self.stall_limit:g} s; waiting for "
                    f"{_names(pending)}. Raise stall_limit of DaskEngine if it takes that long."
                )

    def _explained(self, error: BaseException, futures: list[Any]) -> BaseException:
        """The error in words of this library, where it is not the work itself that raised it."""
        if isinstance(error, distributed().KilledWorker):
            failure = ClusterError(
                f"The work {_names([error.task])} ended {error.allowed_failures + 1} workers in a row. "
                "If they ran out of memory, give workers more or choose a smaller expert_size; their logs "
                "tell."
            )
            failure.deadly = True
            return failure
        lost = isinstance(error, (CancelledError, OSError))
        if lost and not any(future.status == "error" for future in futures):
            return ClusterError(
                f"The scheduler was lost while {_names(futures)} was under way. Start it again and call "
                "again; with checkpoint=PATH a fit continues at its last step."
            )
        return error

    @contextmanager
    def counting(self, travelled: Travelled, stage: str) -> Iterator[None]:
        if traffic.is_counting():
            yield
            return
        client = self.client
        with traffic.counting(travelled, stage):
            before = bytes_sent(client)
            try:
                yield
            finally:
                traffic.count(sent=max(0, bytes_sent(client) - before))

    # ---------------------------------------------------------------------------------- contract

    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        costs: Sequence[float] | None = None,
    ) -> list[Result]:
        costs = [1.0] * len(items) if costs is None else costs
        batches = balanced_batches(costs, TASKS_PER_SLOT * self.n_workers)
        tasks = [
            self.task(f"items {min(batch)}..{max(batch)}", map_all, function, [items[i] for i in batch])
            for batch in batches
        ]
        return in_order(batches, self.compute(tasks))

    def hold(self, items: Sequence[Item], costs: Sequence[float]) -> Held[Item]:
        batches = balanced_batches(costs, TASKS_PER_SLOT * self.n_workers)
        tasks = [
            self.task(f"training blocks {min(batch)}..{max(batch)}", list, [items[i] for i in batch])
            for batch in batches
        ]
        return HeldOnCluster(self, batches, self.persist(tasks))

    def place(self, experts: Any, travelled: Travelled, memory_budget: Any) -> Any:
        from gpexperts.cluster.experts import ClusterExperts

        with self.counting(travelled, "rows"):
            placed = ClusterExperts.placed(self, experts, travelled, memory_budget)
            self.places(placed.groups)  # rows are on their way until they are there
        return placed


class HeldOnCluster(Held[Item]):
    """Batches of items that live on the cluster.

    Parameters
    ----------
    engine : DaskEngine
    batches : list of list of int
        Positions of the items of each batch.
    lists : list of Delayed
        The items of each batch, as a list.
    pinned : bool
        Whether the items may not be sent to another worker.
    """

    def __init__(
        self,
        engine: DaskEngine,
        batches: Sequence[Sequence[int]],
        lists: Sequence[Any],
        *,
        pinned: bool = False,
    ) -> None:
        self._engine, self._batches, self._lists, self._pinned = engine, batches, lists, pinned

    def map(self, function: Callable[[Item, Any], Result], argument: Any) -> list[Result]:
        places = self._engine.places(self._lists) if self._pinned else [None] * len(self._lists)
        tasks = [
            self._engine.task(
                f"likelihood of blocks {min(batch)}..{max(batch)}",
                map_with,
                function,
                items,
                argument,
                at=at,
            )
            for batch, items, at in zip(self._batches, self._lists, places, strict=True)
        ]
        return in_order(self._batches, self._engine.compute(tasks))


def portable(engine: Any) -> Any:
    """Return what can stand for `engine` in an estimator's parameters: a Client cannot be copied."""
    return DaskEngine(address_of(engine)) if is_client(engine) else engine


def engine_for(setting: Any) -> DaskEngine:
    """Return the engine that ``engine="dask"`` or a scheduler's address stands for."""
    if isinstance(setting, str) and setting == "dask":
        return DaskEngine()
    if isinstance(setting, str) and re.fullmatch(r"(tcp|tls|ucx|ws|wss|inproc)://.+|.+\.json", setting):
        return DaskEngine(setting)
    raise ValueError(
        f"engine must be None, 'dask', a scheduler's address such as 'tcp://host:8786', a dask.distributed "
        f"Client or an Engine, got {setting!r}."
    )


def _large_graphs() -> Any:
    """Rows that come from this process are part of their tasks, so that Dask can bring them again."""
    import dask

    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})


def _names(work: Sequence[Any]) -> str:
    """What the keys of tasks say, without their tokens."""
    names = [re.sub(r"^gpexperts |-[0-9a-f]{32}$", "", str(getattr(w, "key", w))) for w in work]
    return ", ".join(repr(name) for name in names[:3]) + (f" and {len(names) - 3} more" * (len(names) > 3))

"""A Dask cluster: the same items, on workers that may be on other machines and may die.

Everything on the cluster is the result of a pure task, so that Dask can compute it again if a worker dies.
Every wait is limited: without a worker that can go on, or without progress for too long, it ends with a
ClusterError that names the tasks (see `waiting`).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from gpexperts.engines.base import Engine, Held, Item, Result
from gpexperts.engines.batches import balanced_batches, in_order
from gpexperts.engines.clients import address_of, client_at, distributed
from gpexperts.engines.dask_types import is_client
from gpexperts.engines.waiting import Waiting, identity, names_of, replied
from gpexperts.engines.worker import map_held, map_items, run_task
from gpexperts.exceptions import ClusterError

__all__ = ["DaskEngine", "DaskHeld", "engine_for", "portable"]

_POLL = 1.0
"""Seconds between two looks at the workers and the progress."""


class DaskEngine(Engine):
    """Run items on the workers of a Dask cluster.

    It has no connection, only an address, so that it can be copied, pickled and used in a grid search.

    Parameters
    ----------
    address : str or None
        The scheduler's address, or the path of a scheduler file; None is the current client, or a new
        cluster of this machine's cores if there is none.
    patience : float
        Seconds to wait for a worker that can go on: if there is none, or if all those that are to run the
        tasks are out of memory or do not reply. Also the time in which the scheduler must reply.
    stall_limit : float
        Seconds without a finished task after which a wait ends with an error.
    """

    def __init__(
        self, address: str | None = None, *, patience: float = 45.0, stall_limit: float = 3600.0
    ) -> None:
        self.address = address
        self.patience = patience
        self.stall_limit = stall_limit

    def __repr__(self) -> str:
        return f"DaskEngine({self.address!r})"

    @property
    def client(self) -> Any:
        """The client of the scheduler at `address`."""
        return client_at(self.address, self.patience)

    @property
    def n_workers(self) -> int:
        return max(1, sum(self.threads_of_workers.values()))

    @property
    def threads_of_workers(self) -> dict[str, int]:
        """Number of threads of each worker, by address."""
        return dict(self._asked(lambda client: client.nthreads()))

    @property
    def worker_memory(self) -> int | None:
        """Bytes that the smallest worker may use; None if no worker has a limit."""
        info = self._asked(identity)["workers"].values()
        limits = [worker["memory_limit"] for worker in info if worker["memory_limit"]]
        return min(limits, default=None)

    # ------------------------------------------------------------------------------------- tasks

    def task(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return ``function(*arguments)`` as a Delayed; `name` stands for it in errors."""
        from dask.delayed import delayed

        return delayed(run_task)(function, *arguments, dask_key_name=f"gpexperts {name}-{uuid.uuid4().hex}")

    def persist(self, tasks: Sequence[Any]) -> list[Any]:
        """Start tasks and keep their results on the workers; returns a Delayed for each."""
        if not tasks:
            return []
        client = self._client_of(tasks)
        with client.as_current(), _large_graphs():
            return list(client.persist(list(tasks), optimize_graph=False))

    def compute(self, tasks: Sequence[Any]) -> list[Any]:
        """Run tasks and return their results, in the order of the tasks."""
        if not tasks:
            return []
        client = self._client_of(tasks)
        keys = {key for task in tasks for key in task.__dask_graph__()}
        with client.as_current():
            with _large_graphs():
                futures = client.compute(list(tasks), optimize_graph=False)
            try:
                # All waiting is one coroutine of the client's loop: a step changes threads only once.
                return list(client.sync(self._gather, client, futures, keys))
            except BaseException as error:
                failure = _cluster_failure(error, futures)
                if failure is not None and any(future.cancelled() for future in _kept(tasks)):
                    failure = _gone(self.address)
                with suppress(Exception):  # there may be no scheduler
                    client.sync(_cancelled, client, futures)
                if failure is None:
                    raise
                raise failure from error

    def _client_of(self, tasks: Sequence[Any]) -> Any:
        """The client, if it still has the results on which tasks depend."""
        kept = _kept(tasks)
        try:
            client = self.client
        except ClusterError as error:
            if kept:
                raise _gone(self.address) from error
            raise
        if any(future.cancelled() or future.client is not client for future in kept):
            raise _gone(self.address)
        return client

    async def _gather(self, client: Any, futures: list[Any], keys: Collection[Any]) -> list[Any]:
        """The results of all futures, as long as there are workers and tasks finish."""
        import asyncio  # `import gpexperts` does not need it

        async def results() -> Any:
            await distributed().wait(futures)
            for future in futures:
                if future.status == "error":
                    await future  # raises the error
            return await client.gather(futures, asynchronous=True)

        gathering = asyncio.ensure_future(results())
        waiting = Waiting(client, keys, self.patience, self.stall_limit)
        try:
            while True:
                await asyncio.wait({gathering}, timeout=_POLL)
                if gathering.cancelled():
                    raise CancelledError
                if gathering.done():
                    return list(gathering.result())
                await waiting.look(futures)
        finally:
            gathering.cancel()

    def _asked(self, question: Callable[[Any], Any]) -> Any:
        """The reply of the scheduler to a question about the cluster, within the patience."""
        client = self.client

        async def reply() -> Any:
            return await replied(question(client), self.patience)

        try:
            return client.sync(reply)
        except (OSError, RuntimeError, TimeoutError, CancelledError) as error:
            raise ClusterError(
                f"The scheduler at {client.scheduler.address if client.scheduler else self.address} has not "
                f"replied within {self.patience:g} s. Start it again; a model that was fitted on its cluster "
                "must then be fitted again."
            ) from error

    # ---------------------------------------------------------------------------------- contract

    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        costs: Sequence[float] | None = None,
    ) -> list[Result]:
        batches = self._batches(items, costs)
        tasks = [
            self.task(_task_name(function, batch), map_items, function, [items[i] for i in batch])
            for batch in batches
        ]
        return in_order(batches, self.compute(tasks))

    def hold(self, items: Sequence[Item], costs: Sequence[float] | None = None) -> Held[Item]:
        batches = self._batches(items, costs)
        tasks = [self.task(_task_name(list, batch), list, [items[i] for i in batch]) for batch in batches]
        return DaskHeld(self, batches, self.persist(tasks))

    def _batches(self, items: Sequence[Any], costs: Sequence[float] | None) -> list[list[int]]:
        # Costs are known, so that one batch per thread is even; each further task takes milliseconds.
        return balanced_batches([1.0] * len(items) if costs is None else costs, self.n_workers)


class DaskHeld(Held[Item]):
    """Batches of items that are held on the cluster.

    Parameters
    ----------
    engine : DaskEngine
    batches : list of list of int
        Positions of the items of each batch.
    lists : list of Delayed
        The items of each batch, as a list.
    """

    def __init__(self, engine: DaskEngine, batches: Sequence[Sequence[int]], lists: Sequence[Any]) -> None:
        self._engine, self._batches, self._lists = engine, batches, lists

    def map(self, function: Callable[[Item, Any], Result], argument: Any) -> list[Result]:
        tasks = [
            self._engine.task(_task_name(function, batch), map_held, function, items, argument)
            for batch, items in zip(self._batches, self._lists, strict=True)
        ]
        return in_order(self._batches, self._engine.compute(tasks))


def portable(engine: Any) -> Any:
    """Return `engine`, or a DaskEngine in place of a Client, which cannot be copied or pickled."""
    return DaskEngine(address_of(engine)) if is_client(engine) else engine


def engine_for(setting: Any) -> DaskEngine:
    """Return the engine for ``engine="dask"`` or the address of a scheduler."""
    if isinstance(setting, str) and setting == "dask":
        return DaskEngine()
    if isinstance(setting, str) and re.fullmatch(r"(tcp|tls|ucx|ws|wss|inproc)://.+|.+\.json", setting):
        return DaskEngine(setting)
    raise ValueError(
        f"engine must be None, 'dask', a scheduler's address such as 'tcp://host:8786', a dask.distributed "
        f"Client or an Engine, got {setting!r}."
    )


def _cluster_failure(error: BaseException, futures: list[Any]) -> ClusterError | None:
    """A ClusterError if the cluster has failed; None if a task has raised the error."""
    if isinstance(error, distributed().KilledWorker):
        failure = ClusterError(
            f"The task {names_of([error.task])} killed {error.allowed_failures + 1} workers in a row. "
            "If they ran out of memory, give workers more or choose a smaller expert_size. The logs of the "
            "workers have the reason."
        )
        failure.killed_workers = True
        return failure
    lost = isinstance(error, (CancelledError, OSError))
    if lost and not any(future.status == "error" for future in futures):
        return ClusterError(
            f"The connection to the scheduler was lost during {names_of(futures)}. Start the scheduler again "
            "and call again."
        )
    return None


def _kept(tasks: Sequence[Any]) -> list[Any]:
    """The futures in the graphs of tasks: results that are kept on the cluster."""
    future = distributed().Future
    values = (value for task in tasks for value in dict(task.__dask_graph__()).values())
    # Since 2025, Dask wraps values in nodes.
    plain = (value if isinstance(value, future) else getattr(value, "value", None) for value in values)
    return [value for value in plain if isinstance(value, future)]


def _gone(address: str | None) -> ClusterError:
    where = f" at {address}" if address else ""
    return ClusterError(
        f"The cluster{where} no longer has the experts of this model: its scheduler has ended, or was "
        "started again. Fit the model again. (A file that model.save(path) writes does not need the cluster.)"
    )


async def _cancelled(client: Any, futures: list[Any]) -> None:
    await replied(client.cancel(futures, reason="the caller has stopped waiting"), _POLL)


def _large_graphs() -> Any:
    """No warning of large graphs: rows of this process are part of their tasks, so that no task is lost."""
    import dask

    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})


def _task_name(function: Callable[..., Any], batch: Sequence[int]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return f"{name} of items {min(batch)}..{max(batch)}"

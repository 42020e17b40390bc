"""Threads of this machine, each with one BLAS thread.

A 600 × 600 Cholesky factorisation is slower on two BLAS threads than on one. So experts run in parallel,
each on one BLAS thread. A single large matrix uses all threads of SciPy's BLAS. NumPy's wheels have another
BLAS, whose threads spin for a while after a product and take the cores from SciPy's: it gets one thread.
"""

from __future__ import annotations

import threading
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path

import joblib
import numpy as np
from threadpoolctl import LibController, ThreadpoolController

from gpexperts.engines.base import Engine, Item, Result
from gpexperts.engines.nested import is_nested

__all__ = ["ThreadEngine", "blas_threads", "blas_threads_for", "usable_workers"]

_LARGE = 6e9
"""Operations from which a single item is faster on several BLAS threads (a matrix of 1,800 rows). Smaller
ones are slower, on a busy machine up to fifty times."""


class ThreadEngine(Engine):
    """Run items in threads of this process.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn, except that None means all usable cores, or 1 inside a worker of joblib.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    @property
    def n_workers(self) -> int:
        return usable_workers(self.n_jobs)

    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        costs: Sequence[float] | None = None,
    ) -> list[Result]:
        if not items:
            return []
        n_items, n_workers = len(items), self.n_workers
        n_threads = min(n_workers, n_items)
        if n_threads <= 1:
            with blas_threads_for(np.inf if costs is None else max(costs), n_workers):
                return [function(item) for item in items]
        # Expensive items first, so that no thread starts a large one at the end.
        order = range(n_items) if costs is None else np.argsort(-np.asarray(costs), kind="stable")
        results: list[Result | None] = [None] * n_items
        queue, lock = iter(order), threading.Lock()
        stop: list[BaseException | None] = []  # the first error, or None for an interrupt of the caller

        def work(running: LockType) -> None:
            try:
                while not stop:
                    with lock:
                        position = next(queue, None)
                    if position is None:
                        break
                    results[position] = function(items[position])
            except BaseException as error:
                stop.append(error)
            finally:
                ended.append(running)
                running.release()

        # Low-level threads and locks, which are written in C. `threading` and `concurrent.futures` are not:
        # an interrupt while they acquire a lock can leave it locked for ever.
        threads: list[LockType] = []
        ended: list[LockType] = []
        with blas_threads(1):
            try:
                for _ in range(n_threads):
                    running = allocate_lock()
                    running.acquire()
                    start_new_thread(work, (running,))
                    threads.append(running)
                _wait_for(threads, ended)
            except BaseException:
                stop.append(None)
                _wait_for(threads, ended)  # running items finish, no further item starts
                raise
        if stop and (error := stop[0]) is not None:
            stop.clear()  # the error refers to this frame: a cycle would keep both until garbage collection
            try:
                raise error
            finally:
                del error
        return results  # type: ignore[return-value]


def _wait_for(threads: list[LockType], ended: list[LockType]) -> None:
    """Wait until all threads have ended; can be called again after an interrupt."""
    for running in threads:
        if running not in ended:  # the lock of an ended thread may have been acquired before an interrupt
            running.acquire()


def usable_workers(n_jobs: int | None) -> int:
    """Resolve `n_jobs`: None is every usable core, or 1 if this process or thread is itself a worker."""
    if n_jobs is not None:
        return int(joblib.effective_n_jobs(n_jobs))
    return 1 if is_nested() else _cores()


@cache  # it reads files, and a single prediction is quicker than that
def _cores() -> int:
    return int(joblib.cpu_count())


_limit_lock = threading.RLock()
_requests: dict[int, list[list[int]]] = {}
"""The number of threads that each caller inside has requested, by its thread of Python, the newest last."""
_before: list[int] | None = None
"""The numbers of threads of `_blas()` from before; None if no caller is inside."""
_in_force: int | None = None


@contextmanager
def blas_threads(n: int) -> Iterator[None]:
    """Limit BLAS to `n` threads while inside, and a BLAS that only NumPy uses to one, for the whole process.

    Inside another limit of the same thread, the new one applies; of concurrent threads, the smallest limit.
    The number of BLAS threads belongs to the process: if each caller saved and restored it, the wrong number
    could remain. So the first caller saves it and the last one restores it. If an interrupt stops a change,
    the next caller completes it.

    OpenBLAS's threads spin for a while after each product, however small. So a fit is limited to one thread
    as a whole, and only large matrices get more: otherwise it takes twice the CPU time, and on a busy
    machine twice the time.
    """
    caller, request = threading.get_ident(), [n]
    try:
        with _limit_lock:
            _requests.setdefault(caller, []).append(request)
            _apply_requests()
        yield
    finally:
        with _limit_lock:
            left = [each for each in _requests.pop(caller, []) if each is not request]
            if left:
                _requests[caller] = left
            _apply_requests()


def blas_threads_for(operations: float, n_workers: int) -> AbstractContextManager[None]:
    """Limit BLAS to `n_workers` threads where so many operations are faster on several, else to one."""
    return blas_threads(n_workers if operations >= _LARGE else 1)


def _apply_requests() -> None:
    """Set the number of BLAS threads to the smallest request, or restore it if there is none."""
    global _before, _in_force
    n = min((requests[-1][0] for requests in _requests.values()), default=None)
    if n == _in_force:
        return
    if _before is None:
        _before = [library.get_num_threads() for library in _blas()]
    for library, only_numpy, before in zip(_blas(), _only_numpy(), _before, strict=True):
        library.set_num_threads(before if n is None else 1 if only_numpy else n)
    _in_force = n
    if n is None:
        _before = None


@cache  # single predictions are limited too, and the libraries do not change
def _blas() -> list[LibController]:
    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


@cache
def _only_numpy() -> list[bool]:
    """Whether each of several BLAS libraries is one that only NumPy uses."""
    several = len(_blas()) > 1
    return [several and any(part.startswith("numpy") for part in Path(b.filepath).parts) for b in _blas()]

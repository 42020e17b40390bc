"""Threads of this machine, each with a BLAS of its own.

A 600 × 600 Cholesky factorisation is slower on two BLAS threads than on one; two of them on two
threads take the time of one. So experts run in parallel, each on one BLAS thread. A single large
matrix is the exception: it gets all the threads of SciPy's BLAS. NumPy's wheels bring a BLAS of their own,
whose threads go on spinning for a while after a product and take the cores from SciPy's: it gets one.
"""

from __future__ import annotations

import multiprocessing
import threading
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from threadpoolctl import ThreadpoolController

from gpexperts.engines.base import Engine, Item, Result

__all__ = ["ThreadEngine", "blas_threads", "usable_workers"]

_LARGE = 6e9
"""Operations from which a lone piece of work gains by several BLAS threads (a matrix of 1,800 rows). For
smaller ones the threads cost more than they bring, and on a busy machine fifty times as much."""


class ThreadEngine(Engine):
    """Run pieces of work in threads of this process.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn, except that None means all usable cores, or 1 inside another worker.
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
        n_items, n_workers = len(items), self.n_workers
        n_threads = min(n_workers, n_items)
        if n_threads <= 1:
            large = costs is None or max(costs, default=0.0) >= _LARGE
            with blas_threads(n_workers if large else 1):
                return [function(item) for item in items]
        # Dear items first, so that no thread is left with a large one at the end.
        order = range(n_items) if costs is None else np.argsort(-np.asarray(costs), kind="stable")
        results: list[Result | None] = [None] * n_items
        queue, lock = iter(order), threading.Lock()
        stop: list[BaseException | None] = []  # the first error, or None for an interrupt of the caller

        def work(at_work: LockType) -> None:
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
                ended.append(at_work)
                at_work.release()

        # Bare threads and locks, which are written in C: what `threading` and `concurrent.futures` write in
        # Python can be left locked for ever by an interrupt that arrives as a lock is taken.
        threads: list[LockType] = []
        ended: list[LockType] = []
        with blas_threads(1):
            try:
                for _ in range(n_threads):
                    at_work = allocate_lock()
                    at_work.acquire()
                    start_new_thread(work, (at_work,))
                    threads.append(at_work)
                _wait_for(threads, ended)
            except BaseException:
                stop.append(None)
                _wait_for(threads, ended)  # the items in work are finished, no further one is begun
                raise
        if stop and (error := stop[0]) is not None:
            stop.clear()  # the error knows this frame: without it, neither waits for the garbage collector
            try:
                raise error
            finally:
                del error
        return results  # type: ignore[return-value]


def _wait_for(threads: list[LockType], ended: list[LockType]) -> None:
    """Wait until all have ended; what an interrupt cuts short can be called again."""
    for at_work in threads:
        if at_work not in ended:  # nor have we, interrupted, taken its lock already
            at_work.acquire()


def usable_workers(n_jobs: int | None) -> int:
    """Resolve `n_jobs`: None is every usable core, or 1 where this is already someone's worker."""
    if n_jobs is not None:
        return int(joblib.effective_n_jobs(n_jobs))
    backend, _ = joblib.parallel.get_active_backend()
    nested = getattr(backend, "nesting_level", 0) or multiprocessing.parent_process() is not None
    return 1 if nested else int(joblib.cpu_count())


_limit_lock = threading.RLock()
_wishes: dict[object, int] = {}
"""What each caller inside wishes."""
_controller: ThreadpoolController | None = None
_restore: Any = None
"""Knows the number of threads that was found; None while nobody is inside."""
_in_force: int | None = None


@contextmanager
def blas_threads(n: int) -> Iterator[None]:
    """Limit BLAS to `n` threads while inside, and a BLAS that only NumPy uses to one, for the whole process.

    The number of BLAS threads belongs to the process, so that two callers who each save and restore
    it can leave the wrong number behind. Here the first one in saves it, the last one out restores it,
    and the smallest wish of those inside holds. Whatever an interrupt cuts short here, the next caller
    completes.
    """
    me = object()
    try:
        with _limit_lock:
            _wishes[me] = n
            _apply_wishes()
        yield
    finally:
        with _limit_lock:
            _wishes.pop(me, None)
            _apply_wishes()


def _apply_wishes() -> None:
    """Bring the number of BLAS threads to what those inside wish, or to what it was before them."""
    global _controller, _restore, _in_force
    if _controller is None:
        _controller = ThreadpoolController()
    wish = min(_wishes.values(), default=None)
    if wish == _in_force:
        return
    if wish is None:
        _restore.restore_original_limits()
        _restore, _in_force = None, None
        return
    if _restore is None:
        _restore = _controller.limit(limits=None, user_api="blas")  # changes nothing, remembers what is
    _controller.limit(limits={"blas": wish, **_numpy_s_own(_controller)})
    _in_force = wish


@cache  # limits are set for every batch of work, and the libraries stay the same
def _numpy_s_own(controller: ThreadpoolController) -> dict[str, int]:
    """One thread for the BLAS that only NumPy uses, if there is such a library."""
    paths = [lib.filepath for lib in controller.lib_controllers if lib.user_api == "blas"]
    if len(paths) < 2:
        return {}
    return {path: 1 for path in paths if any(part.startswith("numpy") for part in Path(path).parts)}

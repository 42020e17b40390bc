"""Threads of this machine, each with a BLAS of its own.

A 600 × 600 Cholesky factorisation is slower on two BLAS threads than on one; two of them on two
threads take the time of one. So experts run in parallel, each on one BLAS thread. A single large
matrix is the exception: it gets all the BLAS threads there are.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import joblib
import numpy as np
from threadpoolctl import ThreadpoolController

from gpexperts.engines.base import Engine, Item, Result

__all__ = ["ThreadEngine", "blas_threads", "usable_workers"]

_LARGE = 1e9
"""Operations from which a lone piece of work gains by several BLAS threads (a matrix of 1,000 rows). For
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
        failed = threading.Event()

        def work() -> None:
            while not failed.is_set():
                with lock:
                    position = next(queue, None)
                if position is None:
                    return
                try:
                    results[position] = function(items[position])
                except BaseException:
                    failed.set()
                    raise

        with blas_threads(1), ThreadPoolExecutor(n_threads) as pool:
            futures = [pool.submit(work) for _ in range(n_threads)]
            try:
                for future in futures:
                    future.result()
            finally:  # an interrupt of the caller ends the workers too
                failed.set()
        return results  # type: ignore[return-value]


def usable_workers(n_jobs: int | None) -> int:
    """Resolve `n_jobs`: None is every usable core, or 1 where this is already someone's worker."""
    if n_jobs is not None:
        return int(joblib.effective_n_jobs(n_jobs))
    backend, _ = joblib.parallel.get_active_backend()
    nested = getattr(backend, "nesting_level", 0) or multiprocessing.parent_process() is not None
    return 1 if nested else int(joblib.cpu_count())


_limit_lock = threading.RLock()
_limits: list[int] = []
_controller: ThreadpoolController | None = None
_restore: object | None = None


@contextmanager
def blas_threads(n: int) -> Iterator[None]:
    """Limit BLAS to `n` threads while inside, for the whole process.

    The number of BLAS threads belongs to the process, so that two callers who each save and restore
    it can leave the wrong number behind. Here the first one in saves it, the last one out restores it,
    and the smallest wish of those inside holds.
    """
    global _controller, _restore
    with _limit_lock:
        if _controller is None:
            _controller = ThreadpoolController()
        if not _limits:
            _restore = _controller.limit(limits=n, user_api="blas")
        elif n < min(_limits):
            _controller.limit(limits=n, user_api="blas")
        _limits.append(n)
    try:
        yield
    finally:
        with _limit_lock:
            _limits.remove(n)
            if not _limits:
                _restore.restore_original_limits()  # type: ignore[union-attr]
                _restore = None
            elif n < min(_limits):
                _controller.limit(limits=min(_limits), user_api="blas")

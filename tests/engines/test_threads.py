"""Threads of this machine, and the BLAS limit that belongs to the whole process."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import joblib
import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from gpexperts import regressor
from gpexperts.engines import ThreadEngine, blas_threads, threads, usable_workers


def blas_now() -> int:
    """The number of BLAS threads, or 0 if this BLAS has no such number."""
    counts = [lib["num_threads"] for lib in ThreadpoolController().info() if lib["user_api"] == "blas"]
    return max(counts, default=0)


@pytest.fixture
def two_blas_threads():
    """A known number of BLAS threads; skips if this BLAS has no such number."""
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        if blas_now() != 2:
            pytest.skip("this BLAS does not take a number of threads")
        yield


def test_threads_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=100)
    assert sorted(ThreadEngine(2).map(lambda i: (meeting.wait(), i)[1], [0, 1])) == [0, 1]


def test_expensive_items_are_started_first() -> None:
    started, meeting = [], threading.Barrier(2, timeout=100)

    def work(i: int) -> None:
        started.append(i)
        meeting.wait()  # a slow thread has added its item too

    ThreadEngine(2).map(work, range(6), [1.0, 5.0, 2.0, 9.0, 0.0, 3.0])
    assert set(started[:2]) == {1, 3}


def test_after_an_error_no_further_items_are_started() -> None:
    started = []

    def work(i: int) -> None:
        started.append(i)
        if i == 0:
            raise RuntimeError("no")
        time.sleep(0.02)

    with pytest.raises(RuntimeError, match="no"):
        ThreadEngine(2).map(work, range(10_000))
    assert len(started) < 5000  # the thread with the error may have to wait for a core


def test_items_run_on_one_blas_thread_each(two_blas_threads) -> None:
    assert ThreadEngine(2).map(lambda _: blas_now(), range(4)) == [1] * 4
    assert blas_now() == 2


def test_a_single_large_item_gets_all_blas_threads(two_blas_threads) -> None:
    assert ThreadEngine(2).map(lambda _: blas_now(), [0], [1e12]) == [2]
    assert ThreadEngine(2).map(lambda _: blas_now(), [0], [1e6]) == [1]


def test_numpy_has_one_thread_if_scipy_has_a_blas_of_its_own(two_blas_threads) -> None:
    def threads_of(library: str) -> list[int]:
        blas = [lib for lib in ThreadpoolController().info() if lib["user_api"] == "blas"]
        return [lib["num_threads"] for lib in blas if f"{library}.libs" in lib["filepath"]]

    if not (threads_of("numpy") and threads_of("scipy")):
        pytest.skip("NumPy and SciPy share a BLAS here")
    with blas_threads(2):
        assert threads_of("numpy") == [1]
        assert threads_of("scipy") == [2]
    assert threads_of("numpy") == threads_of("scipy") == [2]


def test_the_innermost_limit_of_a_thread_applies(two_blas_threads) -> None:
    with blas_threads(1):
        assert blas_now() == 1
        with blas_threads(2):
            assert blas_now() == 2
            assert ThreadEngine(2).map(lambda _: blas_now(), range(4)) == [1] * 4
        assert blas_now() == 1
        assert ThreadEngine(2).map(lambda _: blas_now(), [0], [1e12]) == [2]
    assert blas_now() == 2


def test_the_smallest_limit_of_concurrent_threads_applies(two_blas_threads) -> None:
    seen = []

    def other() -> None:
        with blas_threads(2):
            seen.append(blas_now())

    with blas_threads(1):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(10)
    assert seen == [1]
    assert blas_now() == 2


def test_a_fit_is_limited_to_one_blas_thread(two_blas_threads, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    fit_model = regressor.fit_model
    monkeypatch.setattr(
        regressor, "fit_model", lambda *rows, **how: seen.append(blas_now()) or fit_model(*rows, **how)
    )
    X = np.linspace(0, 1, 20)[:, None]
    regressor.DistributedGPRegressor(kernel="rbf", optimizer=None).fit(X, X[:, 0])
    assert seen == [1]
    assert blas_now() == 2


def test_limits_are_restored_after_an_error(two_blas_threads) -> None:
    with pytest.raises(RuntimeError, match="inside"), blas_threads(1):
        raise RuntimeError("inside")
    assert blas_now() == 2


def test_concurrent_callers_restore_the_number(two_blas_threads) -> None:
    def caller(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(20):
            with blas_threads(1):
                time.sleep(rng.uniform(0, 0.002))

    callers = [threading.Thread(target=caller, args=(i,)) for i in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert blas_now() == 2


def test_the_number_of_workers() -> None:
    assert usable_workers(None) == joblib.cpu_count()
    assert usable_workers(3) == 3
    assert usable_workers(-1) == joblib.cpu_count()
    with pytest.raises(ValueError, match="n_jobs == 0"):
        usable_workers(0)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_inside_another_worker_there_is_one(backend: str) -> None:
    counts = joblib.Parallel(n_jobs=2, backend=backend)(
        joblib.delayed(usable_workers)(None) for _ in range(4)
    )
    assert counts == [1] * 4


@pytest.mark.parametrize("one_has_ended", [False, True])
def test_after_an_interrupt_running_items_finish(
    monkeypatch: pytest.MonkeyPatch, one_has_ended: bool
) -> None:
    """Sometimes a lock of `concurrent.futures` stayed locked: the call, and Python's exit, hung."""
    waits, begun, done = [], [], []
    wait = threads._wait_for

    def interrupted(running: list, ended: list) -> None:
        waits.append(len(running))
        if len(waits) == 1:
            if one_has_ended:  # the interrupt arrives after its lock was acquired
                wait(running[:1], ended)
            raise KeyboardInterrupt
        wait(running, ended)

    def slow(item: int) -> None:
        begun.append(item)
        time.sleep(0.05 if item else 0.3)
        done.append(item)

    monkeypatch.setattr(threads, "_wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ThreadEngine(2).map(slow, range(4 if one_has_ended else 4000))
    assert waits == [2, 2]
    assert sorted(begun) == sorted(done)
    assert len(done) < 2000


def test_an_error_keeps_no_items_alive() -> None:
    def failing(item: Thing) -> None:
        raise ValueError(item.name)

    things = [Thing("one"), Thing("two")]
    watched = weakref.ref(things[0])
    with pytest.raises(ValueError, match=r"one|two"):
        ThreadEngine(2).map(failing, things)
    gc.disable()
    try:
        del things
        assert watched() is None
    finally:
        gc.enable()


class Thing:
    def __init__(self, name: str) -> None:
        self.name = name

"""The Dask engine: clients and addresses, limits of waiting, and workers that die."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest

from gpexperts.engines import is_client, is_collection
from gpexperts.engines.dask import DaskEngine, engine_for, portable
from gpexperts.exceptions import ClusterError
from tests.clusters import LIMIT, ByHand, in_process_client, kill_all, kill_worker_at, started_by_hand


def slow_add(i: int, amount: int) -> int:
    time.sleep(0.3)
    return i + amount


def slow_square(i: int) -> int:
    time.sleep(0.3)
    return i * i


def wait_until_there(file: str) -> None:
    """Hold a worker, which other tests share, until the test is over."""
    until = time.monotonic() + LIMIT
    while not os.path.exists(file) and time.monotonic() < until:
        time.sleep(0.05)


def kill_at_three(i: int) -> int:
    """Kill the worker that computes item 3."""
    if i == 3 and multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return i


def blas_threads_now(_: int) -> int:
    from threadpoolctl import ThreadpoolController

    pools = [lib for lib in ThreadpoolController().info() if lib["user_api"] == "blas"]
    return max((lib["num_threads"] for lib in pools), default=0)


# ----------------------------------------------------------------------------- clients and addresses


def test_collections_and_clients_are_recognised(client: distributed.Client) -> None:
    assert is_collection(da.zeros(3))
    assert is_collection(dd.from_pandas(pd.DataFrame({"a": [1]}), npartitions=1))
    assert is_collection(type("DataFrame", (), {"__module__": "dask_expr._collection"})())  # before 2025
    assert not is_collection(pd.DataFrame())
    assert not is_collection(np.zeros(3))
    assert is_client(client)
    assert not is_client("tcp://127.0.0.1:8786")


def test_a_client_becomes_an_engine_that_can_be_copied(client: distributed.Client) -> None:
    engine = portable(client)
    for twin in (engine, copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))):
        assert twin.address == client.scheduler.address
        assert twin.client is client
        assert twin.n_workers == 2
        assert twin.worker_memory == 500_000_000
    assert portable(engine) is engine
    assert portable(None) is None


def test_an_address_finds_its_scheduler(client: distributed.Client) -> None:
    assert engine_for(client.scheduler.address).map(abs, [-1, -2]) == [1, 2]


def test_a_wrong_address_is_an_error_within_the_patience() -> None:
    with pytest.raises(ClusterError, match=r"No Dask scheduler replied at tcp://127\.0\.0\.1:1 within 1 s"):
        DaskEngine("tcp://127.0.0.1:1", patience=1.0).map(abs, [1])


@pytest.mark.parametrize("setting", ["spark", 3, "127.0.0.1"])
def test_an_unknown_engine_is_an_error(setting: object) -> None:
    with pytest.raises(ValueError, match="'dask', a scheduler's address"):
        engine_for(setting)


@pytest.mark.parametrize("setting", ["dask", "tcp://host:8786", "scheduler.json"])
def test_engines_by_name_and_address(setting: str) -> None:
    engine = engine_for(setting)
    assert engine.address == (None if setting == "dask" else setting)


def test_without_a_client_a_cluster_is_started_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_threads = partial(distributed.LocalCluster, processes=False)
    monkeypatch.setattr(distributed, "LocalCluster", in_threads)  # it starts quickly
    assert DaskEngine().map(abs, [-1]) == [1]
    started = distributed.Client.current()
    try:
        assert DaskEngine().map(abs, [1]) == [1]
        assert distributed.Client.current() is started
        assert capsys.readouterr().err.count("found no current Dask client: started a LocalCluster of") == 1
    finally:
        cluster = started.cluster
        started.close()
        cluster.close()


@pytest.mark.slow
@pytest.mark.timeout(5 * LIMIT)
def test_without_a_client_a_cluster_is_started_and_ended_with_the_process(tmp_path: Path) -> None:
    script = """if __name__ == "__main__":
    import os
    import distributed
    from gpexperts.engines.dask import DaskEngine

    assert DaskEngine().map(abs, [-1]) == DaskEngine().map(abs, [1])
    print(*distributed.Client.current().run(os.getpid).values())
"""
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run(  # the script and a worker for every core import everything anew
        [sys.executable, tmp_path / "script.py"],
        capture_output=True,
        text=True,
        timeout=4 * LIMIT,
        check=True,
    )
    assert done.stderr.count("found no current Dask client: started a LocalCluster of") == 1
    workers = [int(pid) for pid in done.stdout.split()]
    assert workers
    assert not any(is_running(pid) for pid in workers)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# --------------------------------------------------------------------------------------------- tasks


def test_workers_use_one_blas_thread(client: distributed.Client) -> None:
    assert set(portable(client).map(blas_threads_now, range(6))) <= {0, 1}


def test_tasks_may_depend_on_kept_results(client: distributed.Client) -> None:
    engine = portable(client)
    kept = engine.persist([engine.task("squares", slow_square, i) for i in range(3)])
    tasks = [engine.task("sum", lambda a, b: a + b, kept[i], kept[2]) for i in range(2)]
    assert engine.compute(tasks) == [4, 5]
    assert engine.compute([]) == []
    assert engine.persist([]) == []


def test_nothing_stays_on_the_cluster_after_a_map(client: distributed.Client) -> None:
    def keys() -> set[str]:
        return {str(key) for some in client.has_what().values() for key in some}

    before = keys()  # other tests share the cluster
    engine = portable(client)
    held = engine.hold(range(6))
    held.map(slow_add, 1)
    del held
    until = time.monotonic() + LIMIT
    while keys() - before:
        assert time.monotonic() < until
        gc.collect()
        time.sleep(0.05)


# -------------------------------------------------------------------------------------------- faults


# Workers that were killed are started again, so that these tests share the cluster with the others.


@pytest.mark.parametrize("held", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_killed_worker_does_not_change_the_results(client: distributed.Client, held: bool) -> None:
    engine = portable(client)
    killer = kill_worker_at(client, "slow_add" if held else "slow_square")
    if held:
        items = engine.hold(range(12))
        assert items.map(slow_add, 5) == [i + 5 for i in range(12)]
        assert items.map(slow_add, 6) == [i + 6 for i in range(12)]
    else:
        assert engine.map(slow_square, range(12)) == [i * i for i in range(12)]
    killer.join(LIMIT)
    assert not killer.is_alive()


def test_a_task_that_kills_its_workers_is_named(client: distributed.Client) -> None:
    with pytest.raises(ClusterError, match=r"'kill_at_three of items 1\.\.5' killed 2 workers") as caught:
        portable(client).map(kill_at_three, range(6))
    assert caught.value.killed_workers


@pytest.fixture
def file(tmp_path: Path) -> Iterator[str]:
    """A file that is made when the test is over."""
    yield str(tmp_path / "file")
    (tmp_path / "file").touch()


def test_no_progress_is_an_error_and_ends_the_tasks(client: distributed.Client, file: str) -> None:
    engine = DaskEngine(portable(client).address, stall_limit=2.0)
    with pytest.raises(
        ClusterError, match=r"No task has finished for 2 s.*'wait_until_there of items 0\.\.0'"
    ):
        engine.map(wait_until_there, [file])


def test_an_interrupt_ends_the_wait(client: distributed.Client, file: str) -> None:
    """The futures are cancelled, and the client can be used again."""
    # A process that a script starts in the background ignores interrupts.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            portable(client).map(wait_until_there, [file])
    finally:
        signal.signal(signal.SIGINT, previous)
    assert time.monotonic() - began < LIMIT
    assert portable(client).map(abs, [-1]) == [1]  # one worker still waits


@pytest.fixture
def by_hand(request: pytest.FixtureRequest) -> Iterator[ByHand]:
    """One worker, or as many as a test is parametrised with."""
    with started_by_hand(getattr(request, "param", 1)) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize("by_hand", [2], indirect=True)
def test_workers_that_leave_are_replaced_by_the_others(by_hand) -> None:
    client, _, workers = by_hand
    engine = portable(client)
    held = engine.hold(range(6))
    assert held.map(slow_add, 1) == [1, 2, 3, 4, 5, 6]
    workers[0].kill()
    assert held.map(slow_add, 2) == [2, 3, 4, 5, 6, 7]
    assert engine.n_workers == 1


def test_without_workers_there_is_an_error_within_the_patience() -> None:
    with in_process_client(1) as client:
        engine = portable(client)
        held = engine.hold(range(6))
        assert held.map(slow_add, 1) == [1, 2, 3, 4, 5, 6]
        for worker in client.cluster.workers.values():
            client.sync(worker.close)
        engine.patience = 1.0
        with pytest.raises(ClusterError, match=r"no worker for 1 s\. Not finished: 'slow_add of items"):
            held.map(slow_add, 1)


@pytest.mark.slow
def test_no_worker_is_an_error_within_the_patience(by_hand) -> None:
    client, _, workers = by_hand
    engine = portable(client)
    held = engine.hold(range(6))
    held.map(slow_add, 1)  # patiently: a worker that imports libraries on a busy machine does not reply
    kill_all(workers, client)
    engine.patience = 3.0
    began = time.monotonic()
    with pytest.raises(ClusterError, match=r"no worker for 3 s\. Not finished: 'slow_add of items"):
        held.map(slow_add, 1)
    assert time.monotonic() - began < 60


def test_a_lost_scheduler_is_an_error_within_the_patience(by_hand, file: str) -> None:
    client, scheduler, _ = by_hand
    engine = portable(client)
    engine.map(slow_square, [0])
    engine.patience = 8.0
    threading.Timer(2.0, scheduler.kill).start()
    began = time.monotonic()
    with pytest.raises(ClusterError, match=r"scheduler was lost|scheduler has not replied"):
        engine.map(wait_until_there, [file])
    assert time.monotonic() - began < 60

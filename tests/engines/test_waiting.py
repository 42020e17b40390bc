"""Waits for a cluster end with an error that says who waits for what; no cluster is needed to test it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpexperts.engines import waiting
from gpexperts.engines.waiting import Waiting
from gpexperts.exceptions import ClusterError

A, B = "tcp://a:1", "tcp://b:2"
KEY, INNER = "gpexperts moments-" + 32 * "0", "gpexperts predictions of experts 0..3-" + 32 * "1"


class FakeFuture:
    key = KEY

    def __init__(self, done: bool = False) -> None:
        self._done = done

    def done(self) -> bool:
        return self._done


class FakeCluster:
    """A client whose scheduler replies what a test sets; `now` is the time."""

    def __init__(self) -> None:
        self.scheduler = self
        self.now = 0.0
        self.workers: dict[str, dict[str, Any]] = {}
        self.tasks: dict[str, list[str]] = {}
        self.knows_n_workers, self.replies = True, True
        self.error = ""

    def worker(
        self, address: str, status: str = "running", executing: int = 0, tasks: Any = (INNER,)
    ) -> None:
        metrics = {"memory": 480_000_000, "task_counts": {"executing": executing}}
        self.workers[address] = {"status": status, "memory_limit": 500_000_000, "metrics": metrics}
        self.tasks[address] = list(tasks)

    def heard(self, *addresses: str) -> None:
        for address in addresses:
            self.workers[address]["last_seen"] = self.now

    async def identity(self, **given: Any) -> Any:
        if not self.replies:
            raise OSError("no scheduler")
        if given and not self.knows_n_workers:
            raise TypeError("unexpected keyword argument 'n_workers'")
        return {"workers": {address: dict(worker) for address, worker in self.workers.items()}}

    async def processing(self) -> Any:
        return self.tasks


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    cluster = FakeCluster()
    monkeypatch.setattr(waiting.time, "monotonic", lambda: cluster.now)
    return cluster


def watch(cluster: FakeCluster, seconds: int, heard: tuple[str, ...] = (), **limits: float) -> float | None:
    """Look once a second; returns the time of the error, whose text is then in `cluster.error`."""
    limits = {"patience": 45.0, "stall_limit": 3600.0, **limits}
    look = Waiting(cluster, [KEY, INNER], **limits).look

    async def looks() -> float | None:
        for _ in range(seconds):
            cluster.now += 1.0
            cluster.heard(*heard)
            try:
                await look([FakeFuture()])
            except ClusterError as error:
                cluster.error = str(error)
                return cluster.now
        return None

    return asyncio.run(looks())


def test_a_worker_without_memory_is_named_within_a_minute(cluster: FakeCluster) -> None:
    cluster.worker(A, "paused")
    assert watch(cluster, 3000, (A,)) < 60
    for words in (f"Worker {A} is paused: out of memory (480.0 MB of 500.0 MB)", "Not finished: 'moments'"):
        assert words in cluster.error
    assert "more memory" in cluster.error


def test_all_workers_paused_before_any_task_is_given_to_them(cluster: FakeCluster) -> None:
    cluster.worker(A, "paused", tasks=())
    cluster.worker(B, "paused", tasks=())
    assert watch(cluster, 3000, (A, B)) < 60
    assert "(and 1 more) is paused" in cluster.error


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.worker(A, "paused", executing=1),  # it finishes the tasks that it has begun
        lambda c: c.worker(B, executing=1),  # another worker runs some of the tasks
        lambda c: c.worker(A, tasks=["of another client"]),
    ],
)
def test_workers_that_go_on_are_waited_for(cluster: FakeCluster, change: Any) -> None:
    cluster.worker(A, "paused")
    change(cluster)
    assert watch(cluster, 3000, tuple(cluster.workers)) is None


def test_a_worker_that_is_silent_is_named_within_a_minute(cluster: FakeCluster) -> None:
    cluster.worker(A)
    cluster.worker(B, tasks=())
    assert watch(cluster, 3000, (B,)) < 60
    assert f"Worker {A} has not replied for 45 s" in cluster.error


@pytest.mark.parametrize("status", ["running", "paused"])
@pytest.mark.parametrize("tasks", [(), (INNER,)])
def test_workers_that_wait_for_a_silent_one(cluster: FakeCluster, tasks: Any, status: str) -> None:
    """A holds results that B needs; B replies, but can run no task."""
    cluster.worker(A, status, tasks=tasks)
    cluster.worker(B)
    assert watch(cluster, 3000, (B,)) < 60
    assert f"Worker {A} " in cluster.error


def test_workers_that_wait_for_data_of_others(cluster: FakeCluster) -> None:
    cluster.worker(A, tasks=())
    cluster.worker(B)
    assert watch(cluster, 3000, (A, B)) is None


@pytest.mark.parametrize("replies", [True, False])
def test_no_worker_or_no_scheduler(cluster: FakeCluster, replies: bool) -> None:
    cluster.replies = replies
    assert watch(cluster, 3000) < 60
    what = "no worker" if replies else "The scheduler has not replied"
    assert f"{what} for 45 s. Not finished: 'moments'" in cluster.error


def test_a_task_that_never_ends(cluster: FakeCluster) -> None:
    cluster.worker(A, executing=1)
    assert watch(cluster, 5000, (A,)) == pytest.approx(3600, abs=5)
    assert "No task has finished for 3600 s" in cluster.error


def test_inner_tasks_are_progress(cluster: FakeCluster) -> None:
    cluster.worker(A, executing=1)
    look = Waiting(cluster, [KEY, INNER], patience=45.0, stall_limit=100.0).look

    async def looks() -> None:
        for i in range(1000):
            cluster.now += 1.0
            cluster.heard(A)
            cluster.tasks[A] = [INNER] if (i // 50) % 2 else []
            await look([FakeFuture()])

    asyncio.run(looks())


def test_schedulers_before_2025(cluster: FakeCluster) -> None:
    cluster.knows_n_workers = False
    cluster.worker(A)
    assert asyncio.run(waiting.identity(cluster))["workers"].keys() == {A}

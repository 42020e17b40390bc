"""Dask clusters for tests, their faults, and the same rows in collections of many forms."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from gpexperts import fit_kernel, held_out, inputs, pipeline
from gpexperts.partition import assign, shards

LIMIT = 100
"""Seconds that a wait may take on a busy machine."""


@contextmanager
def in_process_client(n_workers: int = 2) -> Iterator[distributed.Client]:
    """A cluster whose workers are threads of this process: it starts quickly."""
    settings = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        threadpool_limits(1, "blas"),  # workers of one process would compete for its threads
        distributed.LocalCluster(processes=False, **settings) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def start_cluster(n_workers: int) -> distributed.LocalCluster:
    """Worker processes of one thread and 500 MB each."""
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, memory_limit="500MB", dashboard_address=":0"
    )


@contextmanager
def process_client(n_workers: int) -> Iterator[distributed.Client]:
    """A cluster of worker processes, which are started again after they were killed; a task may kill two."""
    with dask.config.set({"distributed.scheduler.allowed-failures": 1}):  # noqa: SIM117
        with start_cluster(n_workers) as cluster, distributed.Client(cluster, set_as_default=False) as client:
            yield client


class ByHand(NamedTuple):
    """A scheduler and workers that were started from the command line, and are not started again."""

    client: distributed.Client
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]


@contextmanager
def started_by_hand(n_workers: int = 2) -> Iterator[ByHand]:
    """Start a scheduler and workers as processes that a test may stop or kill."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with start_cluster(0) as probe:  # a free port, found by Dask
        port = probe.scheduler_address.rsplit(":", 1)[1]
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port]
    scheduler = subprocess.Popen([*command, "--no-dashboard"], **quiet)
    address = f"tcp://127.0.0.1:{port}"
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1"]
    command += ["--memory-limit", "500MB", "--no-dashboard"]
    workers = [subprocess.Popen(command, **quiet) for _ in range(n_workers)]
    try:
        with distributed.Client(address, set_as_default=False, timeout=LIMIT) as client:
            client.wait_for_workers(n_workers, timeout=LIMIT)
            yield ByHand(client, scheduler, workers)
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait(LIMIT)


def when_running(client: distributed.Client, task: str, act: Callable[[str], None]) -> threading.Thread:
    """Call `act` with the address of the first worker that runs some task."""

    def watch() -> None:
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            for address, keys in client.processing().items():
                if any(task in str(key) for key in keys):
                    act(address)
                    return
            time.sleep(0.01)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def kill_worker_at(client: distributed.Client, task: str) -> threading.Thread:
    """Send SIGKILL to the first worker that runs some task."""

    def kill(address: str) -> None:
        os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)

    return when_running(client, task, kill)


def kill_all(workers: list[subprocess.Popen[bytes]], client: distributed.Client) -> None:
    """Kill workers, and wait until the scheduler has noticed."""
    for worker in workers:
        worker.kill()
    until = time.monotonic() + LIMIT
    while client.nthreads():
        assert time.monotonic() < until
        time.sleep(0.05)


def few_rows_are_many(patch: pytest.MonkeyPatch, sample: int, shard: int) -> None:
    """Sample rows, hold some out, and divide them into shards, at sizes that are quick to fit."""
    for module in (pipeline, fit_kernel, inputs, assign):
        patch.setattr(module, "SAMPLE_ROWS", sample)
    patch.setattr(held_out, "ENOUGH", 100)
    patch.setattr(shards, "SHARD_ROWS", shard)


def cut(n: int, shares: tuple[float, ...]) -> tuple[int, ...]:
    """Lengths of partitions of n rows; the last takes what is left."""
    lengths = [int(share * n) for share in shares]
    return (*lengths, n - sum(lengths))


def even_arrays(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Two partitions of equal length."""
    lengths = cut(len(X), (0.5,))
    return da.from_array(X, chunks=(lengths, X.shape[1])), _targets(y, lengths)


def uneven_arrays(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Partitions of unequal length, some of them empty; the columns of X and the rows of y are cut apart."""
    lengths = (0, *cut(len(X), (0.1, 0.0, 0.45, 0.04)), 0)
    return da.from_array(X, chunks=(lengths, 1)), _targets(y, cut(len(X), (0.3, 0.3)))


def unknown_arrays(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Arrays whose lengths are unknown before they are computed, one partition of them empty."""
    frame, targets = frames(X, y)
    return frame.to_dask_array(), targets.to_dask_array()


def frames(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Columns of one data frame of three partitions, the second of which has lost its rows to a filter."""
    half = len(X) // 2
    gap = max(half, len(X) - half)
    order = np.concatenate([np.arange(half), np.full(gap, 0), np.arange(half, len(X))])
    table = pd.DataFrame(X[order], columns=names_of(X))
    outputs = y.reshape(len(y), -1)[order]
    targets = [f"y{k}" for k in range(outputs.shape[1])]
    table = pd.concat([table, pd.DataFrame(outputs, columns=targets)], axis=1)
    table["kept"] = True
    table.loc[half : half + gap - 1, "kept"] = False
    divided = dd.from_pandas(table, chunksize=1, sort=False) if len(table) < 3 else _divided(table, half, gap)
    divided = divided[divided["kept"]]
    return divided[names_of(X)], divided["y0"] if y.ndim == 1 else divided[targets]


def _divided(table: pd.DataFrame, half: int, gap: int) -> Any:
    pieces = [table.iloc[:half], table.iloc[half : half + gap], table.iloc[half + gap :]]
    return dd.concat([dd.from_pandas(piece, npartitions=1) for piece in pieces])


def names_of(X: np.ndarray) -> list[str]:
    """Column names of a data frame with the inputs X."""
    return [f"x{k}" for k in range(X.shape[1])]


def _targets(y: np.ndarray, lengths: tuple[int, ...]) -> Any:
    return da.from_array(y, chunks=(lengths,) if y.ndim == 1 else (lengths, y.shape[1]))


COLLECTIONS: dict[str, Callable[[np.ndarray, np.ndarray], tuple[Any, Any]]] = {
    "even arrays": even_arrays,
    "uneven arrays": uneven_arrays,
    "arrays of unknown length": unknown_arrays,
    "frames": frames,
}
"""(X, y) ↦ the same rows as Dask collections."""

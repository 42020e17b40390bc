"""Work that moves while a model is fitted or predicts: each scenario changes the workers meanwhile.

The answers must be those of this process, or a ClusterError must come within a minute.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import dask
import dask.array as da
import distributed
import numpy as np
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from gpexperts import DistributedGPRegressor
from gpexperts.exceptions import ClusterError
from tests.clusters import LIMIT, start_cluster

ERROR_WITHIN = 60.0
"""Seconds from the change of the workers to an error."""
STOPPED = 90.0
"""Seconds for which a worker is stopped."""
ROUND_WITHIN = 240.0
"""Seconds after which a round is ended: the start of a cluster, a stopped worker, and its end."""
N_WORKERS = 3
_CONFIG = {
    "distributed.scheduler.work-stealing-interval": "5ms",
    "distributed.scheduler.allowed-failures": 2,
    "distributed.worker.memory.pause": False,  # a scenario sets it
}


class SlowRBF(RBF):
    """Waits, so that the workers change while it is evaluated."""

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        time.sleep(0.05)
        return super().__call__(X, Y, eval_gradient)


class Round(NamedTuple):
    """How one operation ended: "right", "error" (a ClusterError), "wrong", "late" or "hangs"."""

    end: str
    seconds: float
    message: str = ""


Change = Callable[[distributed.LocalCluster, distributed.Client], None]


def _address(client: distributed.Client) -> str:
    """A worker that has tasks, or any."""
    busy = [address for address, keys in client.processing().items() if keys]
    return (busy or list(client.nthreads()))[0]


def _pid(client: distributed.Client) -> int:
    address = _address(client)
    return int(client.run(os.getpid, workers=[address])[address])


def _set_status(name: str, dask_worker: Any = None) -> None:
    dask_worker.status = distributed.core.Status[name]


def paused(cluster: distributed.LocalCluster, client: distributed.Client) -> None:
    address = _address(client)
    client.run(_set_status, "paused", workers=[address])
    time.sleep(2.0)
    client.run(_set_status, "running", workers=[address])


def retired(cluster: distributed.LocalCluster, client: distributed.Client) -> None:
    client.retire_workers([_address(client)])


def killed(cluster: distributed.LocalCluster, client: distributed.Client) -> None:
    os.kill(_pid(client), signal.SIGKILL)


def stopped(cluster: distributed.LocalCluster, client: distributed.Client) -> None:
    pid = _pid(client)
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(STOPPED, os.kill, (pid, signal.SIGCONT)).start()


def adapted(cluster: distributed.LocalCluster, client: distributed.Client) -> None:
    cluster.adapt(minimum=1, maximum=N_WORKERS, interval="100ms", wait_count=1)


def scaled(cluster: distributed.LocalCluster, client: distributed.Client) -> None:
    cluster.scale(1)
    time.sleep(0.5)
    cluster.scale(N_WORKERS)


SCENARIOS: dict[str, Change] = {
    "work stealing": lambda *_: None,
    "paused": paused,
    "retired": retired,
    "killed": killed,
    "stopped": stopped,
    "adapt": adapted,
    "scale": scaled,
}
OPERATIONS = ("fit", "predict", "lazy")


def _data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(140, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(140)
    return X, y, rng.uniform(-2.2, 2.2, size=(60, 2))


def _model(kernel: type[RBF], **more: Any) -> DistributedGPRegressor:
    return DistributedGPRegressor(
        n_experts=7,
        kernel=1.0 * kernel([0.5, 0.8]) + WhiteKernel(0.02),
        optimizer=None,
        partition="balanced",
        selection="all",
        n_neighbors=0,
        random_state=0,
        **more,
    )


@contextmanager
def _changing(change: Change, cluster: Any, client: Any) -> Iterator[None]:
    """Change the workers soon after the operation has begun."""

    def act() -> None:
        time.sleep(0.15)
        with suppress(OSError, ValueError, IndexError, KeyError):  # the worker has left in the meantime
            change(cluster, client)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        thread.join(LIMIT)


def tried(scenario: str, operation: str) -> Round:
    """Run an operation once on a new cluster, whose workers change meanwhile.

    This is done in a process of its own, which is ended with its workers after `ROUND_WITHIN`.
    """
    fork = multiprocessing.get_context("fork")  # the parent only waits; it has neither a cluster nor threads
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=_report, args=(sender, scenario, operation))
    process.start()
    sender.close()
    try:
        if not receiver.poll(ROUND_WITHIN):
            return Round("hangs", ROUND_WITHIN)
        return Round(*receiver.recv())
    except EOFError:
        return Round("wrong", 0.0, "the process has ended without an answer")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        receiver.close()


def _report(sender: Any, scenario: str, operation: str) -> None:
    os.setsid()  # its workers are ended with it
    X, y, X_new = _data()
    truth = _model(RBF).fit(X, y).predict(X_new)
    with (
        dask.config.set(_CONFIG),
        start_cluster(N_WORKERS) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        model = _model(SlowRBF, engine=client)
        if operation != "fit":
            model.fit(X, y)
        began = time.monotonic()
        try:
            with _changing(SCENARIOS[scenario], cluster, client):
                mean = _answer(model, operation)
        except ClusterError as error:
            seconds = time.monotonic() - began
            ended = Round("error" if seconds < ERROR_WITHIN else "late", seconds, str(error))
        except Exception as error:
            ended = Round("wrong", time.monotonic() - began, f"{type(error).__name__}: {error}")
        else:
            right = bool(np.allclose(mean, truth, rtol=0, atol=1e-8))
            ended = Round("right" if right else "wrong", time.monotonic() - began)
        sender.send(tuple(ended))
        signal.pause()  # until it is killed: closing a cluster takes longer than the round


def _answer(model: DistributedGPRegressor, operation: str) -> np.ndarray:
    X, y, X_new = _data()
    if operation == "fit":
        model.fit(X, y)
    if operation == "lazy":
        return model.predict(da.from_array(X_new, chunks=(20, 2))).compute()
    return model.predict(X_new)

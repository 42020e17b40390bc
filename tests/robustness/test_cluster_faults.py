"""Workers that die or leave during a fit or a prediction: the same results, or an error within a limit."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import gpexperts
from gpexperts import DistributedGPRegressor
from gpexperts.engines.dask import DaskEngine, portable
from gpexperts.exceptions import ClusterError
from gpexperts.experts.build import _placed
from tests.clusters import LIMIT, ByHand, kill_all, kill_worker_at, process_client, started_by_hand


class SlowRBF(RBF):
    """Waits, so that a worker can be killed at work."""

    def __call__(self, X, Y=None, eval_gradient=False):
        time.sleep(0.05)
        return super().__call__(X, Y, eval_gradient)


class DeadlyRBF(RBF):
    """Kills the worker that evaluates it at a row with a very large input."""

    def __call__(self, X, Y=None, eval_gradient=False):
        if multiprocessing.parent_process() is not None and np.max(X) > 50 and Y is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(X, Y, eval_gradient)


@pytest.fixture
def fragile() -> Iterator[distributed.Client]:
    """A cluster whose workers are killed; they are started again."""
    with process_client(2) as client:
        yield client


@pytest.fixture
def by_hand() -> Iterator[ByHand]:
    with started_by_hand() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(140, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(140)
    return X, y, rng.uniform(-2.2, 2.2, size=(20, 2))


def unfitted(kernel: type[RBF] = RBF, **settings: Any) -> DistributedGPRegressor:
    given = {
        "n_experts": 7,
        "kernel": 1.0 * kernel([0.5, 0.8]) + WhiteKernel(0.02),
        "optimizer": None,
        "partition": "balanced",
        "selection": "all",
        "n_neighbors": 0,  # the metric of a kernel of the user is not that of RBF
        "random_state": 0,
    }
    return DistributedGPRegressor(**(given | settings))


@pytest.mark.slow  # the default suite has a test of the engine with almost the same name
@pytest.mark.parametrize("task", ["block_likelihood", "predictions of experts"])
def test_a_killed_worker_does_not_change_the_model(fragile, data, task: str) -> None:
    X, y, X_new = data
    settings: dict[str, Any] = {}
    if task == "block_likelihood":
        settings = {"optimizer": "lbfgs", "training": "full"}
    here = unfitted(**settings).fit(X, y)
    killer = kill_worker_at(fragile, task)
    there = unfitted(SlowRBF, engine=fragile, **settings).fit(X, y)
    mean = there.predict(X_new)
    killer.join(LIMIT)
    assert not killer.is_alive()
    np.testing.assert_allclose(mean, here.predict(X_new), rtol=0, atol=1e-6 if settings else 1e-10)


@pytest.mark.slow
def test_workers_that_leave_are_replaced_by_the_others(by_hand, data) -> None:
    client, _, workers = by_hand
    X, y, X_new = data
    there = unfitted(engine=client).fit(X, y)
    before = there.predict(X_new)
    workers[0].kill()
    np.testing.assert_allclose(there.predict(X_new), before, rtol=0, atol=1e-10)
    assert len(client.nthreads()) == 1


@pytest.mark.slow  # the default suite has a test of the engine with the same name
def test_no_worker_is_an_error_within_the_patience(by_hand, data) -> None:
    client, _, workers = by_hand
    X, y, X_new = data
    # Patiently: a worker that imports libraries on a busy machine does not reply for seconds.
    there = unfitted(engine=DaskEngine(portable(client).address)).fit(X, y)
    kill_all(workers, client)
    there.model_.experts.engine.patience = 3.0
    began = time.monotonic()
    with pytest.raises(ClusterError, match="no worker for 3 s"):
        there.predict(X_new)
    assert time.monotonic() - began < LIMIT


@pytest.mark.slow
def test_a_model_whose_scheduler_is_gone_must_be_fitted_again(by_hand, data) -> None:
    client, scheduler, _ = by_hand
    X, y, X_new = data
    there = unfitted(engine=DaskEngine(portable(client).address, patience=40.0)).fit(X, y)
    lazy = there.predict(da.from_array(X_new, chunks=(10, 2)))
    scheduler.kill()
    scheduler.wait(LIMIT)
    began = time.monotonic()
    for predict in (lambda: there.predict(X_new), lazy.compute):
        with pytest.raises(ClusterError, match=r"[Ff]it the model again|must then be fitted again"):
            predict()
    assert time.monotonic() - began < LIMIT


@pytest.mark.slow
def test_workers_without_memory_are_named(data) -> None:
    """Every worker takes more than 1 % of its memory, and is paused from the beginning."""
    X, y, _ = data
    settings = {"distributed.worker.memory.pause": 0.01, "distributed.worker.memory.terminate": False}
    with dask.config.set(settings), process_client(2) as client:
        there = unfitted(engine=DaskEngine(portable(client).address, patience=10.0))
        began = time.monotonic()
        with pytest.raises(ClusterError, match=r"Worker tcp://\S+ .*is paused: out of memory \("):
            there.fit(X, y)
        assert time.monotonic() - began < LIMIT


@pytest.mark.slow
def test_the_expert_whose_matrix_kills_workers_is_named(fragile, data) -> None:
    X, y, X_new = data
    settings = {"n_experts": "auto", "partition": np.arange(len(X)) % 7, "standardize": False}
    there = unfitted(DeadlyRBF, engine=fragile, **settings).fit(X, y)
    local = there.model_.experts.to_local(10**8)
    local.X[local.offsets[3]] = 60.0
    experts = _placed(there.model_.experts.engine, local, "auto")
    there.model_ = replace(there.model_, experts=experts)
    there.set_params(n_selected="auto")  # a predictor of the changed model
    with pytest.raises(ClusterError, match=r"'expert 3' killed 2 workers in a row"):
        there.predict(X_new)


@pytest.mark.slow
def test_the_command_line_fits_on_a_cluster(fragile, data, tmp_path: Path) -> None:
    X, y, X_new = data
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_parquet(tmp_path / "rows.parquet")
    command = [sys.executable, "-m", "gpexperts", "fit", "rows.parquet", "-t", "y", "-o", "there.gpx"]
    command += ["--kernel", "rbf", "--n-experts", "3", "--engine", fragile.scheduler.address]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=LIMIT)
    here = DistributedGPRegressor(kernel="rbf", n_experts=3, random_state=0).fit(X, y)
    there = gpexperts.load(tmp_path / "there.gpx")
    queries = pd.DataFrame(X_new, columns=["a", "b"])
    np.testing.assert_allclose(there.predict(queries), here.predict(X_new), rtol=0, atol=1e-8)

"""Many threads on one model, thousands of fits in one process, and fits beyond the memory budget."""

from __future__ import annotations

import gc
import re
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import AGGREGATORS
from gpexperts.exceptions import MemoryBudgetError
from gpexperts.experts.local import LocalExperts
from gpexperts.kernels.named import covariance_of, named_kernel
from gpexperts.memory import check_memory
from gpexperts.partition import Partitioner
from gpexperts.selection import SELECTORS
from gpexperts.training.likelihood import Block, log_marginal_likelihood
from tests.problems import PLAIN, random_problem

# ------------------------------------------------------------------------------------ threads


@pytest.mark.parametrize(
    ("rule", "n_neighbors", "selections"),
    [
        ("npae", 0, ("auto", "dnn", "ggm")),
        ("npae", 16, ("auto",)),
        ("grbcm", 0, ("auto", *SELECTORS)),
        *(pytest.param(rule, "auto", ("auto", *SELECTORS), marks=pytest.mark.slow) for rule in AGGREGATORS),
    ],
)
def test_sixteen_threads_give_the_serial_predictions(
    rule: str, n_neighbors: int | str, selections: tuple[str, ...]
) -> None:
    """All start at once, on a model whose factors, selector and K are still to be learned."""
    p = random_problem(0, n=160, n_experts=8)
    settings = {"n_experts": 8, "kernel": p.kernel, "optimizer": None, "aggregation": rule, "random_state": 0}
    settings["n_neighbors"] = n_neighbors
    queries = [random_problem(seed, n_new=20).X_new for seed in range(16)]
    serial = DistributedGPRegressor(**settings, n_jobs=1).fit(p.X, p.y)
    shared = DistributedGPRegressor(**settings, n_jobs=2).fit(p.X, p.y)
    for selection in selections:
        for model in (serial, shared):
            model.set_params(selection=selection)
        expected = [serial.predict(X, return_std=True) for X in queries]
        gate = threading.Barrier(16)

        def predict(X: np.ndarray, gate: threading.Barrier = gate) -> tuple[np.ndarray, np.ndarray]:
            gate.wait()
            return shared.predict(X, return_std=True)

        with ThreadPoolExecutor(16) as pool:
            results = list(pool.map(predict, queries))
        for result, single in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, single, rtol=1e-10, atol=1e-12)


# ------------------------------------------------------------------------------------- growth


def _fit_and_predict(seed: int) -> None:
    p = random_problem(seed % 7, n=24, n_experts=2, n_new=3)
    rule = list(AGGREGATORS)[seed % len(AGGREGATORS)]
    selection = ("all", "knn", "ggm")[seed % 3]
    model = DistributedGPRegressor(
        n_experts=2, kernel=p.kernel, optimizer=None, aggregation=rule, selection=selection, random_state=seed
    )
    model.fit(p.X, p.y).predict(p.X_new, return_std=True)


def _objects_of_models() -> int:
    """Objects of gpexperts and scikit-learn; those of a cluster in this process come and go."""
    ours = ("gpexperts", "sklearn")
    return sum(str(type(thing).__module__).startswith(ours) for thing in gc.get_objects())


def _resident_bytes() -> int:
    """Memory of this process, or 0 where /proc is missing."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 if statm.exists() else 0


@pytest.mark.parametrize(
    ("warm_up", "fits"),
    [
        pytest.param(30, 90, id="90 fits"),
        pytest.param(500, 10_000, id="10,000 fits", marks=pytest.mark.slow),
    ],
)
def test_fits_and_predictions_leave_nothing_behind(warm_up: int, fits: int) -> None:
    for seed in range(warm_up):
        _fit_and_predict(seed)
    gc.collect()
    objects, resident = _objects_of_models(), _resident_bytes()
    for seed in range(fits):
        _fit_and_predict(seed)
    gc.collect()
    # A model has tens of objects and tens of kB; the allocator's own ups and downs are a few MB.
    assert _objects_of_models() <= objects + 10
    assert _resident_bytes() - resident < 5_000_000


# -------------------------------------------------------------------------------- memory budget


def _line(n: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.linspace(0, 1, n)[:, None]
    return X, np.sin(9 * X[:, 0])


@pytest.mark.parametrize(
    "settings",
    [
        {"n_experts": 1},
        {"expert_size": 40_000},
        {"partition": np.zeros(50_000, dtype=int)},
        {"n_experts": 4, "training": "full"},
        {"n_experts": 3, "aggregation": "grbcm"},
    ],
)
def test_a_fit_beyond_the_budget_is_refused_before_it_starts(settings: dict) -> None:
    X, y = _line(50_000)
    model = DistributedGPRegressor(memory_budget="1GB", random_state=0, **settings)
    tracemalloc.start()
    began = time.process_time()
    try:
        with pytest.raises(MemoryBudgetError, match=r"at least [\d.]+ GB \([\d,]+ bytes\).*budget='1GB'"):
            model.fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 5.0
    assert peak < 30_000_000
    assert not hasattr(model, "n_experts_")


def test_the_error_names_sufficient_settings() -> None:
    needs = {"n": 50_000, "expert_rows": 50_000, "block_rows": 500, "full": False}
    with pytest.raises(MemoryBudgetError) as refused:
        check_memory("1GB", **needs)
    message = str(refused.value).replace(",", "")
    n_experts = int(re.search(r"n_experts=(\d+)", message)[1])
    n_bytes = int(re.search(r"memory_budget of at least (\d+) bytes", message)[1])
    assert n_bytes == 8 * 50_000**2
    check_memory(n_bytes, **needs)
    rows = -(-50_000 // n_experts)
    check_memory("1GB", **{**needs, "expert_rows": rows})
    with pytest.raises(MemoryBudgetError):
        check_memory("1GB", **{**needs, "expert_rows": -(-50_000 // (n_experts - 1))})


def test_training_blocks_beyond_the_budget_are_refused() -> None:
    """More experts do not help here, so that only the budget is named."""
    with pytest.raises(MemoryBudgetError, match=r"training on .*\(1,400 rows\)") as refused:
        DistributedGPRegressor(n_experts=10, memory_budget="20MB").fit(*_line(1400))
    assert "n_experts" not in str(refused.value)


class Lopsided(Partitioner):
    """All rows but one in one part."""

    def partition(self, X, n_parts, random_state):
        return (np.arange(len(X)) == 0).astype(int)


def test_a_part_that_is_too_large_is_refused_before_experts_are_made() -> None:
    kernel = random_problem(0, d=1).kernel
    model = DistributedGPRegressor(
        n_experts=2, partition=Lopsided(), kernel=kernel, optimizer=None, memory_budget="20MB"
    )
    with pytest.raises(MemoryBudgetError, match=r"largest expert \(1,999 rows\)"):
        model.fit(*_line(2000))


def test_the_automatic_budget_is_the_memory_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = _line(2000)
    settings = {"n_experts": 1, "kernel": random_problem(0, d=1).kernel, "optimizer": None, **PLAIN}
    settings |= {"n_selected": 1, "n_neighbors": 0}
    monkeypatch.setattr("gpexperts.memory.usable_memory", lambda: 40_000_000)
    DistributedGPRegressor(**settings).fit(X, y)
    monkeypatch.setattr("gpexperts.memory.usable_memory", lambda: 20_000_000)
    with pytest.raises(MemoryBudgetError, match=r"memory_budget='auto' is at most the 20.0 MB there are"):
        DistributedGPRegressor(**settings).fit(X, y)


@pytest.mark.parametrize("kernel", ["matern12", "matern32", "matern52"])
def test_counted_memory_is_allocated_memory(kernel: str) -> None:
    m = 600
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(m, 2)), rng.normal(size=(m, 1))
    covariance = covariance_of(named_kernel(kernel, np.ones(2), 1.0))

    def matrices(work) -> float:
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1] / (8 * m * m)
        finally:
            tracemalloc.stop()

    experts = LocalExperts(X, y, np.array([0, m]), covariance, factor_budget=10**9)
    assert 3.0 <= matrices(lambda: log_marginal_likelihood(covariance, Block(X, y))) < 3.5
    assert 1.0 <= matrices(lambda: experts.trained(0)) < 1.6

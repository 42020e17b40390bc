"""The contract of an engine, for every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import distributed
import numpy as np
import pytest

from gpexperts.engines import Engine, ThreadEngine
from gpexperts.engines.dask import portable

ENGINES: dict[str, Callable[[Any], Engine]] = {
    "one thread": lambda request: ThreadEngine(1),
    "two threads": lambda request: ThreadEngine(2),
    "dask": lambda request: portable(request.getfixturevalue("client")),
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param](request)


def square(i: int) -> int:
    return i * i


def fail_at_five(i: int) -> int:
    if i == 5:
        raise RuntimeError("item 5 is bad")
    return i


def time_out(i: int) -> int:
    raise TimeoutError(f"item {i} is late")


def add(i: int, amount: int) -> int:
    return i + amount


def fail_if_equal(i: int, bad: int) -> int:
    if i == bad:
        raise ValueError(f"item {i} is bad")
    return i


def total(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return rows.sum(axis=0) * weight


@pytest.mark.parametrize("n", [0, 1, 2, 23])
@pytest.mark.parametrize("costs", [None, "equal", "increasing", "zero"])
def test_results_are_in_the_order_of_the_items(engine: Engine, n: int, costs: str | None) -> None:
    given: dict[str | None, Sequence[float] | None] = {
        None: None,
        "equal": [1.0] * n,
        "increasing": np.arange(n, dtype=float),
        "zero": [0.0] * n,
    }
    assert engine.map(square, range(n), given[costs]) == [i * i for i in range(n)]


def test_functions_may_be_local(engine: Engine) -> None:
    offset = 3
    assert engine.map(lambda i: i + offset, [1, 2]) == [4, 5]


@pytest.mark.parametrize("items", [range(9), [5]])
def test_the_error_of_an_item_is_raised(engine: Engine, items: Sequence[int]) -> None:
    with pytest.raises(RuntimeError, match="item 5 is bad"):
        engine.map(fail_at_five, items)
    assert engine.map(square, [1, 2]) == [1, 4]  # the engine still works


def test_a_timeout_of_an_item_is_an_error_of_the_item(engine: Engine) -> None:
    with pytest.raises(TimeoutError, match="item 0 is late"):
        engine.map(time_out, [0])


def test_there_is_at_least_one_worker(engine: Engine) -> None:
    assert engine.n_workers >= 1
    assert engine.worker_memory is None or engine.worker_memory > 0


@pytest.mark.parametrize("n", [0, 1, 2, 23])
@pytest.mark.parametrize("with_costs", [True, False])
def test_held_items_are_mapped_in_order_several_times(engine: Engine, n: int, with_costs: bool) -> None:
    held = engine.hold(range(n), [float(i % 5) for i in range(n)] if with_costs else None)
    for amount in (1, 10):
        assert held.map(add, amount) == [i + amount for i in range(n)]


def test_held_arrays_give_the_numbers_of_this_process(engine: Engine) -> None:
    rng = np.random.default_rng(0)
    items = [rng.normal(size=(m, 3)) for m in (4, 0, 9, 1, 7)]
    weight = rng.normal(size=3)
    held = engine.hold(items, [float(len(item)) for item in items])
    for ours, item in zip(held.map(total, weight), items, strict=True):
        np.testing.assert_array_equal(ours, total(item, weight))


def test_held_items_outlive_an_error(engine: Engine) -> None:
    held = engine.hold(range(7))
    with pytest.raises(ValueError, match="item 4 is bad"):
        held.map(fail_if_equal, 4)
    assert held.map(fail_if_equal, -1) == list(range(7))


def test_every_engine_is_tested(client: distributed.Client) -> None:
    ours = {cls.__name__ for cls in Engine.__subclasses__() if cls.__module__.startswith("gpexperts.")}
    assert ours == {"ThreadEngine", "DaskEngine"}

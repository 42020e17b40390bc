"""From settings to parts: the number of experts, the communication set, and the owner of every row."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.exceptions import FewerExpertsWarning
from gpexperts.partition import BalancedPartitioner, Partitioner, RandomPartitioner, assign
from gpexperts.partition.assign import (
    Plan,
    automatic_n_experts,
    communication_size,
    labels_are_given,
    number_of_experts,
    plan_parts,
    warn_of_fewer,
)
from gpexperts.rows.arrays import ArrayRows


def plan_of(n: int, partition: Any = None, **settings: Any) -> Plan:
    given = {"n_experts": "auto", "expert_size": "auto", "shares_rows": False, "communication_rows": None}
    partition = BalancedPartitioner() if partition is None else partition
    return plan_parts(n, partition, **(given | settings))


# --------------------------------------------------------------------------- the number of experts


@pytest.mark.parametrize(("n", "M"), [(1, 1), (3000, 1), (3001, 8), (100_000, 250), (100_001, 401)])
def test_automatic_number_of_experts(n: int, M: int) -> None:
    assert automatic_n_experts(n) == number_of_experts("auto", "auto", n) == M


@given(st.integers(1, 10**7), st.integers(1, 10**5))
def test_expert_size_bounds_the_mean_size(n: int, size: int) -> None:
    M = number_of_experts("auto", size, n)
    assert (M - 1) * size < n <= M * size


def test_numbers_that_are_refused() -> None:
    with pytest.raises(ValueError, match="n_experts or expert_size, not both"):
        number_of_experts(3, 100, 1000)
    with pytest.raises(ValueError, match="n_experts=11 is more than the 10 training rows"):
        number_of_experts(11, "auto", 10)


@pytest.mark.parametrize(("wanted", "n", "M", "size"), [(None, 100, 4, 20), (7, 100, 4, 7), (None, 3, 2, 1)])
def test_the_communication_set_has_the_size_of_a_part(wanted: Any, n: int, M: int, size: int) -> None:
    assert communication_size(wanted, n, M) == size


def test_a_communication_set_that_leaves_too_few_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="10 rows cannot serve 4 experts and a communication set of 8 rows"):
        communication_size(8, 10, 4)


def test_plans() -> None:
    assert plan_of(100, n_experts=7) == Plan(7, None, 0, 15)
    assert plan_of(100, n_experts=4, shares_rows=True) == Plan(4, None, 20, 40)
    assert plan_of(100, n_experts=4, shares_rows=True, communication_rows=8) == Plan(4, None, 8, 31)


def test_plans_of_given_labels() -> None:
    labels = np.array([5, 5, 9, 9, 9, 2])
    assert labels_are_given(labels)
    plan = plan_of(6, labels)
    assert (plan.n_experts, plan.n_shared, plan.largest) == (3, 0, 3)
    np.testing.assert_array_equal(plan.labels, labels)
    plan = plan_of(6, np.array([0, -1, 0, 1, -1, 1]), shares_rows=True)
    assert (plan.n_experts, plan.n_shared, plan.largest) == (2, 2, 4)


@pytest.mark.parametrize(
    ("labels", "settings", "message"),
    [
        (np.zeros(5, int), {}, "one label per row"),
        (np.zeros(6), {}, "one label per row"),
        (np.array([0, 0, 0, 1, 1, -1]), {}, "negative labels"),
        (np.full(6, -1), {"shares_rows": True}, "leaves no row to any expert"),
        (np.zeros(6, int), {"expert_size": 3}, "expert_size has no meaning"),
        (np.zeros(6, int), {"n_experts": 2}, "partition holds 1 different labels"),
    ],
)
def test_labels_that_are_refused(labels: np.ndarray, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_of(6, labels, **settings)


# ----------------------------------------------------------------------------- the owner of each row


def assigned(
    source: ArrayRows, plan: Plan, partitioner: Partitioner | None, metric: np.ndarray | None = None
) -> tuple[list[Any], Any]:
    return assign.assign(
        source,
        plan,
        partitioner,
        np.ones(source.n_features) if metric is None else metric,
        source.sample(60, np.random.RandomState(2)),
        partition_rng=np.random.RandomState(0),
        communication_rng=np.random.RandomState(1),
    )


@pytest.fixture
def source() -> ArrayRows:
    rng = np.random.default_rng(0)
    return ArrayRows(rng.normal(size=(150, 2)), rng.normal(size=(150, 1)))


@pytest.mark.parametrize("partitioner", [BalancedPartitioner(), RandomPartitioner()], ids=str)
@pytest.mark.parametrize("shares_rows", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_every_row_is_owned_once_or_shared(
    source: ArrayRows, monkeypatch, partitioner: Partitioner, shares_rows: bool, whole: bool
) -> None:
    if not whole:
        monkeypatch.setattr(assign, "SAMPLE_ROWS", 60)
        monkeypatch.setattr("gpexperts.partition.shards.SHARD_ROWS", 40)
    plan = plan_of(150, partitioner, n_experts=9, shares_rows=shares_rows)
    parts, shared = assigned(source, plan, partitioner)
    assert len(parts) == (1 if whole else 4)
    assert (shared is None) == (not shares_rows)
    numbers = [part.rows.number for part in parts]
    if shared is not None:
        assert len(shared.number) == plan.n_shared
        np.testing.assert_array_equal(shared.X, source.X[shared.number])
        numbers.append(shared.number)
    assert sorted(np.concatenate(numbers)) == list(range(150))
    assert sum(len(part.sizes) for part in parts) == 9
    for part in parts:
        np.testing.assert_array_equal(part.rows.X, source.X[part.rows.number])
        np.testing.assert_array_equal(part.rows.y, source.y[part.rows.number])
        assert part.sizes.min() >= 1


def test_given_labels_own_the_rows(source: ArrayRows) -> None:
    labels = np.arange(150) % 3 - 1
    (part,), shared = assigned(source, plan_of(150, labels, shares_rows=True), None)
    np.testing.assert_array_equal(shared.number, np.arange(0, 150, 3))
    np.testing.assert_array_equal(part.rows.number, [*range(1, 150, 3), *range(2, 150, 3)])
    assert part.sizes.tolist() == [50, 50]


def test_the_metric_decides_which_rows_are_together(source: ArrayRows) -> None:
    plan = plan_of(150, n_experts=5)
    (part,), _ = assigned(source, plan, BalancedPartitioner(), np.array([1e-3, 1e3]))
    first = [part.rows.X[a:b, 0] for a, b in pairwise(part.offsets)]
    first.sort(key=np.mean)
    assert all(left.max() <= right.min() for left, right in pairwise(first))


def test_fewer_parts_than_requested_are_warned_of() -> None:
    warn_of_fewer(3, 3)
    with pytest.warns(FewerExpertsWarning, match="5 parts were requested, but only 3 have rows"):
        warn_of_fewer(3, 5)

"""The contract of a row source: every member returns the same rows, by number, as plain NumPy does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import distributed
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.engines.dask import DaskEngine, portable
from gpexperts.rows.arrays import ArrayRows
from gpexperts.rows.base import Rows, RowSource, Units
from gpexperts.rows.dask import DaskRows
from gpexperts.scaling import ColumnSummary, Standardizer
from tests.clusters import COLLECTIONS, in_process_client

MEMBERS = ["arrays", *COLLECTIONS]
N = 83


@pytest.fixture(scope="module")
def engine() -> Iterator[DaskEngine]:
    with in_process_client() as client:
        yield portable(client)


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.stack([rng.normal(5, 2, N), rng.uniform(-100, 100, N), np.full(N, 7.0)], axis=1)
    return X, rng.normal(size=(N, 2))


def source_of(member: str, X: np.ndarray, y: np.ndarray, engine: DaskEngine) -> RowSource:
    if member == "arrays":
        return ArrayRows(X, y)
    rows, *_ = DaskRows.of(engine, *COLLECTIONS[member](X, y))
    return rows


@pytest.fixture(scope="module", params=MEMBERS)
def source(request, table, engine) -> RowSource:
    return source_of(request.param, *table, engine)


UNITS = Units(
    Standardizer(np.array([5.0, 1.0, 7.0]), np.array([2.0, 30.0, 1.0])),
    Standardizer(np.array([0.1, 0.2]), np.array([1.5, 0.7])),
)


# --------------------------------------------------------------------------------- rows by number


def test_shape(source: RowSource) -> None:
    assert (source.n, source.n_features, source.n_outputs) == (N, 3, 2)


def test_summary_is_that_of_numpy(source: RowSource, table) -> None:
    for summary, A in zip(source.summary(), table, strict=True):
        assert summary.n == N
        np.testing.assert_allclose(summary.mean, A.mean(axis=0), rtol=1e-13)
        np.testing.assert_allclose(summary.std, A.std(axis=0), rtol=1e-13)
        np.testing.assert_array_equal(summary.low, A.min(axis=0))
        np.testing.assert_array_equal(summary.high, A.max(axis=0))
        # Rounding differs with the partitions, but the units that follow do not.
        of_array = Standardizer.of(ColumnSummary.of(A))
        np.testing.assert_array_equal(Standardizer.of(summary).shift, of_array.shift)
        np.testing.assert_array_equal(Standardizer.of(summary).scale, of_array.scale)


NUMBERS = {
    "all": np.arange(N),
    "some": np.array([0, 8, 9, 40, 41, 82]),
    "one": np.array([81]),
    "none": np.arange(0),
}


@pytest.mark.parametrize("which", NUMBERS)
def test_take_returns_rows_by_number(source: RowSource, table, which: str) -> None:
    numbers = NUMBERS[which]
    taken = source.take(numbers)
    np.testing.assert_array_equal(taken.number, numbers)
    np.testing.assert_array_equal(taken.X, table[0][numbers])
    np.testing.assert_array_equal(taken.y, table[1][numbers])


@pytest.mark.parametrize("which", ["some", "one", "none"])
def test_without_numbers_the_other_rows_anew(source: RowSource, table, which: str) -> None:
    numbers = NUMBERS[which]
    X, y = (np.delete(A, numbers, axis=0) for A in table)
    rest = source.without(numbers)
    assert rest.n == len(X)
    taken = rest.take(np.arange(rest.n))
    np.testing.assert_array_equal(taken.X, X)
    np.testing.assert_array_equal(taken.y, y)
    np.testing.assert_allclose(rest.summary()[1].mean, y.mean(axis=0), rtol=1e-12)
    assert source.n == N


def test_rows_in_other_units(source: RowSource, table) -> None:
    scaled = source.in_units(UNITS)
    X, y = UNITS.apply(*table)
    everything = scaled.take(np.arange(N))
    np.testing.assert_array_equal(everything.X, X)
    np.testing.assert_array_equal(everything.y, y)
    np.testing.assert_array_equal(scaled.without(np.array([3])).take(np.array([3])).X, X[4:5])
    here = scaled.in_memory()
    assert isinstance(here, ArrayRows)
    np.testing.assert_array_equal(here.X, X)
    np.testing.assert_array_equal(source.take(np.array([3])).X, table[0][3:4])


def test_units_follow_one_another_and_the_summary(source: RowSource, table) -> None:
    twice = source.in_units(UNITS).in_units(UNITS)
    X, y = UNITS.apply(*UNITS.apply(*table))
    np.testing.assert_allclose(twice.take(np.arange(N)).X, X, rtol=1e-14)
    np.testing.assert_allclose(twice.take(np.arange(N)).y, y, rtol=1e-14)
    for summary, A in zip(twice.summary(), (X, y), strict=True):
        np.testing.assert_allclose(summary.mean, A.mean(axis=0), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(summary.std, A.std(axis=0), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(summary.high, A.max(axis=0), rtol=1e-14)


@pytest.mark.parametrize("size", [1, 30, N, 1000])
def test_a_sample_is_drawn_by_row_number(source: RowSource, table, size: int) -> None:
    sample = source.sample(size, np.random.RandomState(4))
    expected = ArrayRows(*table).sample(size, np.random.RandomState(4))
    assert len(np.unique(sample.number)) == min(size, N)
    for ours, theirs in zip(sample, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(sample.X, table[0][sample.number])


# ------------------------------------------------------------------------------------ nearest rows


def brute_force(X: np.ndarray, points: np.ndarray, metric: np.ndarray, m: int) -> np.ndarray:
    """The m nearest rows by distance and then by number, from all pairs."""
    sq = (((X[None] - points[:, None]) / metric) ** 2).sum(axis=2)
    number = np.broadcast_to(np.arange(len(X)), sq.shape)
    return np.lexsort((number, sq), axis=1)[:, :m]


def tied_rows(kind: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    return {
        "grid": rng.integers(0, 4, size=(60, 2)).astype(float),
        "one-hot": np.eye(5)[rng.integers(0, 5, 60)],
        "equal": np.ones((60, 3)),
        "one input": rng.integers(-3, 3, size=(60, 1)).astype(float),
        "no ties": rng.normal(size=(60, 3)),
        "far from 0": 2.0**20 + rng.integers(0, 4, size=(60, 2)),
    }[kind]


@pytest.mark.parametrize("kind", ["grid", "one-hot", "equal", "one input", "no ties", "far from 0"])
@pytest.mark.parametrize("member", ["arrays", "uneven arrays", "frames"])
def test_ties_are_broken_by_row_number(engine, member: str, kind: str) -> None:
    X = tied_rows(kind)
    source = source_of(member, X, X[:, :1], engine)
    metric = 2.0 ** -np.arange(X.shape[1])
    points = X[::9]
    for m in (7, 60):
        np.testing.assert_array_equal(source.nearest(points, metric, m), brute_force(X, points, metric, m))


def test_nearest_uses_the_units_of_the_source(source: RowSource, table) -> None:
    X, _ = UNITS.apply(*table)
    metric = np.array([0.5, 2.0, 1.0])
    expected = brute_force(X, X[::20], metric, 9)
    np.testing.assert_array_equal(source.in_units(UNITS).nearest(X[::20], metric, 9), expected)


def test_the_nearest_rows_of_many_partitions_are_merged_in_steps(engine, monkeypatch) -> None:
    monkeypatch.setattr("gpexperts.rows.dask._FAN_IN", 2)
    X = tied_rows("grid")
    source = source_of("uneven arrays", X, X, engine)
    np.testing.assert_array_equal(
        source.nearest(X[:4], np.ones(2), 13), brute_force(X, X[:4], np.ones(2), 13)
    )


# ------------------------------------------------------------------------------------------ shards


def route_by_value(X: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Five shards by the first input; the last has no rows, and every tenth row is left out."""
    shard = np.digitize(X[:, 0], [3.0, 5.0, 7.0])
    shard[number % 10 == 0] = -1
    return shard


def first_numbers(rows: Rows, factor: int, name: str) -> tuple[Any, ...]:
    return factor * rows.number, rows.X.copy(), rows.y.copy(), name


def computed(source: RowSource, results: list[Any]) -> list[Any]:
    return source.engine.compute(results) if isinstance(source, DaskRows) else results


@pytest.mark.parametrize("bundle_bytes", [1, 32 * 1024**2])
def test_shards_have_the_rows_that_the_route_gives_them(
    source: RowSource, table, monkeypatch, bundle_bytes: int
) -> None:
    monkeypatch.setattr("gpexperts.rows.dask._BUNDLE_BYTES", bundle_bytes)
    X, y = table
    expected = [np.flatnonzero(route_by_value(X, np.arange(N)) == g) for g in range(5)]
    sizes = source.shard_sizes(route_by_value, 5)
    assert sizes.tolist() == [len(own) for own in expected]
    assert sizes[4] == 0
    arguments = [(g + 1, f"shard {g}") for g in range(5)]
    results = source.map_shards(route_by_value, 5, first_numbers, arguments)
    for g, (numbers, X_g, y_g, name) in enumerate(computed(source, results)):
        assert name == f"shard {g}"
        np.testing.assert_array_equal(numbers, (g + 1) * expected[g])
        np.testing.assert_array_equal(X_g, X[expected[g]])
        np.testing.assert_array_equal(y_g, y[expected[g]])


def test_routes_see_the_units_of_the_source(source: RowSource, table) -> None:
    X, _ = UNITS.apply(*table)
    scaled = source.in_units(UNITS)
    (rows,) = computed(scaled, scaled.map_shards(route_all, 1, first_numbers, [(1, "all")]))
    np.testing.assert_array_equal(rows[0], np.flatnonzero(X[:, 0] > 0))
    np.testing.assert_array_equal(rows[1], X[X[:, 0] > 0])
    assert scaled.shard_sizes(route_all, 1).tolist() == [(X[:, 0] > 0).sum()]


def route_all(X: np.ndarray, number: np.ndarray) -> np.ndarray:
    return np.where(X[:, 0] > 0, 0, -1)


class _Workers:
    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers


@given(st.integers(1, 2000), st.integers(1, 5000), st.integers(0, 10**9))
def test_bundles_have_every_shard_once_and_use_every_worker(
    n_shards: int, n_workers: int, n_rows: int
) -> None:
    from gpexperts.rows.dask import _BUNDLE_BYTES, _SHARDS_PER_BUNDLE

    empty = ColumnSummary.of(np.empty((0, 1)))
    summary = empty._replace(n=n_rows)
    rows = DaskRows(_Workers(n_workers), [], [(summary, summary)])
    borders = rows._bundles(n_shards)
    sizes = np.diff(borders)
    assert (borders[0], borders[-1]) == (0, n_shards)
    assert 1 <= sizes.min() <= sizes.max() <= _SHARDS_PER_BUNDLE
    assert len(sizes) >= min(n_shards, n_workers)
    assert sizes.max() == 1 or sizes.max() * (16 * n_rows // n_shards) <= _BUNDLE_BYTES


# -------------------------------------------------------------------- collections that are refused


@pytest.mark.parametrize("member", list(COLLECTIONS))
def test_a_value_that_is_not_finite_is_named_by_its_partition(engine, table, member: str) -> None:
    X = table[0].copy()
    X[N - 1, 1] = np.inf
    with pytest.raises(ValueError, match=r"X \(partition \d\) contains infinity"):
        source_of(member, X, table[1], engine)


def with_other_rows(X: Any, y: Any) -> tuple[Any, Any]:
    return X, y[:-1]


def test_different_numbers_of_rows_are_refused(engine, table) -> None:
    X, y = COLLECTIONS["uneven arrays"](*table)
    with pytest.raises(ValueError, match=f"X has {N} rows and y has {N - 1}"):
        DaskRows.of(engine, *with_other_rows(X, y))
    with pytest.raises(ValueError, match=f"X has {N} rows and y has {N - 1}"):
        DaskRows.of(engine, *with_other_rows(X, table[1]))


def test_arrays_of_unknown_length_with_other_rows_are_refused(engine, table) -> None:
    X, _ = COLLECTIONS["arrays of unknown length"](*table)
    with pytest.raises(ValueError, match="partitions of X have unknown lengths"):
        DaskRows.of(engine, X, table[1])
    _, y = COLLECTIONS["arrays of unknown length"](table[0][:-2], table[1][:-2])
    with pytest.raises(ValueError, match=r"Partition \d of X has \d+ rows, that of y \d+"):
        DaskRows.of(engine, X, y)


def test_no_rows_are_refused(engine, table) -> None:
    X, y = COLLECTIONS["even arrays"](*table)
    with pytest.raises(ValueError, match="every partition of X is empty"):
        DaskRows.of(engine, X[:0], y[:0])


def test_columns_and_outputs_of_a_frame(engine, table) -> None:
    X, y = COLLECTIONS["frames"](table[0], table[1][:, 0])
    _, _, names, one_output = DaskRows.of(engine, X, y)
    assert names == ["x0", "x1", "x2"]
    assert one_output
    _, _, names, one_output = DaskRows.of(engine, *COLLECTIONS["even arrays"](*table))
    assert names is None
    assert not one_output


def test_rows_are_kept_on_the_workers_if_there_is_room(engine, table, monkeypatch) -> None:
    rows, *_ = DaskRows.of(engine, *COLLECTIONS["even arrays"](*table))
    kept = rows.kept()
    assert kept is not rows
    assert all(distributed.client.futures_of(block) for block in kept._blocks)
    np.testing.assert_array_equal(kept.take(np.array([5, 70])).X, table[0][[5, 70]])
    monkeypatch.setattr(DaskEngine, "worker_memory", 1000)
    assert rows.kept() is rows

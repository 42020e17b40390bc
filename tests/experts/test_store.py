"""The contract of an expert store: in this process and on a cluster, against dense formulas."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from gpexperts.engines import ThreadEngine
from gpexperts.engines.dask import DaskEngine, portable
from gpexperts.experts.build import Assigned, build_store
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.moments import ExpertMoments, Request
from gpexperts.experts.store import ExpertStore
from gpexperts.kernels.named import covariance_of
from gpexperts.partition.base import Parts
from gpexperts.row_noise import plain
from gpexperts.rows.base import Rows
from tests.clusters import in_process_client

MEMBERS = ["local", "moved to Dask", "built on Dask"]
SIZES = np.array([4, 9, 1, 6, 12, 5, 3])
M, N = len(SIZES), int(SIZES.sum())
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
SIGNAL, NOISE = 1.7 * RBF([0.8, 1.3]), 0.05
COVARIANCE = covariance_of(SIGNAL + WhiteKernel(NOISE))
SHARDS = [(0, 3), (3, 4), (4, 7)]
"""Experts of each shard that is built on the cluster."""


class Table(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    shared: tuple[np.ndarray, np.ndarray]
    X_new: np.ndarray


def draw_table() -> Table:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    shared = rng.normal(size=(8, 2)), rng.normal(size=(8, 2))
    return Table(X, rng.normal(size=(N, 2)), shared, rng.normal(size=(15, 2)))


TABLE = draw_table()
NUMBERS = np.random.default_rng(2).permutation(N)
"""Numbers of the rows in the training data, which break ties of distances."""


@pytest.fixture(scope="module")
def engine() -> Iterator[DaskEngine]:
    with in_process_client() as client:
        yield portable(client)


def rows_between(a: int, b: int) -> Rows:
    return Rows(NUMBERS[a:b], TABLE.X[a:b], TABLE.y[a:b], plain(b - a))


def part_of_shard(a: int, b: int) -> Parts:
    return Parts(rows_between(OFFSETS[a], OFFSETS[b]), OFFSETS[a : b + 1] - OFFSETS[a])


Build = Callable[..., ExpertStore]


@pytest.fixture(scope="module", params=MEMBERS)
def build(request, engine: DaskEngine) -> Build:
    """Builds a store of the parts above, with or without a communication set."""

    def built(shared: bool = False, covariance: Any = COVARIANCE, memory_budget: Any = "1GB") -> ExpertStore:
        communication = Rows(np.arange(8), *TABLE.shared, plain(8)) if shared else None
        where: Any = ThreadEngine(1) if request.param == "local" else engine
        parts: list[Any] = [part_of_shard(0, M)]
        if request.param == "built on Dask":
            parts = engine.persist([engine.task(f"part {a}", part_of_shard, a, b) for a, b in SHARDS])
        assigned = Assigned(parts, communication, where, n_features=2, n_outputs=2)
        return build_store(assigned, covariance, factor_budget=10**9, memory_budget=memory_budget)

    return built


@pytest.fixture(scope="module")
def store(build: Build) -> ExpertStore:
    return build()


@pytest.fixture(scope="module")
def sharing(build: Build) -> ExpertStore:
    return build(shared=True)


# ---------------------------------------------------------------------------------- dense formulas


def rows_of(i: int, shared: bool) -> tuple[np.ndarray, np.ndarray]:
    own = slice(OFFSETS[i], OFFSETS[i + 1]) if i < M else slice(0, 0)
    if not shared:
        return TABLE.X[own], TABLE.y[own]
    return np.concatenate([TABLE.shared[0], TABLE.X[own]]), np.concatenate([TABLE.shared[1], TABLE.y[own]])


class Dense(NamedTuple):
    q: np.ndarray
    mean: np.ndarray
    var: np.ndarray
    local_noise: np.ndarray


def dense_expert(i: int, x: np.ndarray, shared: bool) -> Dense:
    """One expert at one query, by an explicit inverse."""
    X, y = rows_of(i, shared)
    inverse = np.linalg.inv(SIGNAL(X) + NOISE * np.eye(len(X)))
    k = SIGNAL(x[None], X)[0]
    q = inverse @ k
    z2 = (inverse @ y) ** 2 / np.diag(inverse)[:, None]
    near = (k / SIGNAL.diag(x[None])[0]) ** 4
    average = (16 + z2.sum(axis=0)) / (16 + len(X))
    return Dense(q, q @ y, SIGNAL.diag(x[None])[0] - q @ k, (16 * average + near @ z2) / (16 + near.sum()))


def dense_moments(X_new: np.ndarray, index: np.ndarray, request: Request, shared: bool) -> ExpertMoments:
    """Every field of the moments, one query and one pair of experts at a time."""
    n, K = index.shape
    prior = SIGNAL.diag(X_new)
    mean, var = np.zeros((n, K, 2)), np.tile(prior[:, None], (1, K))
    noise, R = np.ones((n, K, 2)), np.zeros((n, K, K))
    index, explained = index.copy(), np.zeros((len(X_new), K))
    for q, x in enumerate(X_new):
        experts = {c: dense_expert(index[q, c], x, shared) for c in range(K) if index[q, c] >= 0}
        best = max((prior[q] - e.var for e in experts.values()), default=0.0)
        for c, expert in list(experts.items()):
            if request.variance and prior[q] - expert.var < request.prune * best:
                index[q, c] = -1
                del experts[c]
                continue
            mean[q, c], noise[q, c] = expert.mean, expert.local_noise
            if request.variance:
                var[q, c] = expert.var
                explained[q, c] = prior[q] - expert.var
        for a, b in itertools.product(experts, repeat=2):
            X_a, X_b = rows_of(index[q, a], shared)[0], rows_of(index[q, b], shared)[0]
            cross = SIGNAL(X_a, X_b) + (NOISE * np.eye(len(X_a)) if a == b else 0.0)
            R[q, a, b] = experts[a].q @ cross @ experts[b].q
    c = [dense_expert(M, x, True) for x in X_new] if request.communication else []
    return ExpertMoments(
        index,
        mean,
        var,
        prior,
        covariance=R if request.covariance else None,
        communication_mean=np.stack([e.mean for e in c]) if c else None,
        communication_var=np.stack([e.var for e in c]) if c else None,
        local_noise=noise if request.local_noise else None,
        explained=explained,
    )


def assert_moments(ours: ExpertMoments, theirs: ExpertMoments) -> None:
    for field in fields(ExpertMoments):
        a, b = getattr(ours, field.name), getattr(theirs, field.name)
        assert (a is None) == (b is None), field.name
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11, err_msg=field.name)


def random_index(n: int, K: int, padded: bool) -> np.ndarray:
    rng = np.random.default_rng(n + K)
    index = np.array([rng.permutation(M)[:K] for _ in range(n)])
    if padded:
        index[rng.random((n, K)) < 0.4] = -1
        index[0] = -1  # a query without any expert
    return index


# ------------------------------------------------------------------------------------------- rows


def test_sizes(store: ExpertStore, sharing: ExpertStore) -> None:
    for experts, n_shared in ((store, 0), (sharing, 8)):
        assert (experts.n_experts, experts.n_features, experts.n_outputs) == (M, 2, 2)
        np.testing.assert_array_equal(experts.offsets, OFFSETS)
        np.testing.assert_array_equal(experts.sizes, SIZES)
        assert [experts.size(i) for i in range(M)] == (SIZES + n_shared).tolist()
    assert sharing.size(M) == 8
    assert store.shared is None
    np.testing.assert_array_equal(sharing.shared[1], TABLE.shared[1])


def test_the_sample_is_sorted_by_expert(store: ExpertStore) -> None:
    sample = store.sample
    np.testing.assert_array_equal(sample.X, TABLE.X)
    np.testing.assert_array_equal(sample.labels, np.repeat(np.arange(M), SIZES))
    np.testing.assert_array_equal(sample.position, np.arange(N))


def test_a_sample_within_a_budget_has_a_row_of_every_expert(build: Build, monkeypatch) -> None:
    monkeypatch.setattr("gpexperts.experts.build.bytes_of", lambda _: 4 * 16 * 12)  # 12 rows in a quarter
    sample = build().sample
    assert set(sample.labels) == set(range(M))
    np.testing.assert_array_equal(sample.X, TABLE.X[sample.position])
    np.testing.assert_array_equal(sample.labels, np.repeat(np.arange(M), SIZES)[sample.position])
    assert (np.diff(sample.position) > 0).all()


@pytest.mark.parametrize("positions", [[0, 3, 4, 14, 25, N - 1], [20], [], list(range(N))], ids=len)
def test_take_returns_rows_by_position(store: ExpertStore, positions: list[int]) -> None:
    numbers = np.array(positions, dtype=np.int64)
    X, y, _ = store.take(numbers)
    np.testing.assert_array_equal(X, TABLE.X[numbers])
    np.testing.assert_array_equal(y, TABLE.y[numbers])


@pytest.mark.parametrize("max_bytes", [1, 100, 10**9])
def test_row_batches_are_all_rows_in_order(store: ExpertStore, max_bytes: int) -> None:
    for column, expected in ((0, TABLE.X), (1, TABLE.y), (2, NUMBERS)):
        batches = list(store.row_batches(column, max_bytes))
        np.testing.assert_array_equal(np.concatenate(batches), expected)
        if not isinstance(store, LocalExperts):
            assert max(batch.nbytes for batch in batches) <= max(max_bytes, 16)


def test_to_local_gives_the_same_experts(sharing: ExpertStore) -> None:
    local = sharing.to_local(10**9)
    assert isinstance(local, LocalExperts)
    np.testing.assert_array_equal(local.X, TABLE.X)
    np.testing.assert_array_equal(local.y, TABLE.y)
    np.testing.assert_array_equal(local.numbers, NUMBERS)
    np.testing.assert_array_equal(local.offsets, OFFSETS)
    np.testing.assert_array_equal(local.shared[0], TABLE.shared[0])


# ------------------------------------------------------------------------------------------ gather

REQUESTS = {
    "mean and variance": Request(),
    "mean only": Request(variance=False),
    "covariance": Request(covariance=True),
    "covariance, pruned": Request(covariance=True, prune=0.3),
    "local noise": Request(local_noise=True),
    "everything": Request(covariance=True, local_noise=True, prune=0.05),
}
OWN = {
    "own expert": Request(n_neighbors=6),
    "own expert and R": Request(n_neighbors=6, covariance=True),
    "own expert, R and local noise": Request(n_neighbors=40, covariance=True, local_noise=True),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize(("K", "padded"), [(1, False), (3, False), (4, True), (M, False)])
def test_gather_is_the_dense_formula(store: ExpertStore, name: str, K: int, padded: bool) -> None:
    X, index = TABLE.X_new, random_index(len(TABLE.X_new), K, padded)
    moments = store.gather(X, index, REQUESTS[name], ThreadEngine(1))
    assert_moments(moments, dense_moments(X, index, REQUESTS[name], shared=False))


@pytest.mark.parametrize("covariance", [False, True])
def test_gather_with_a_communication_set(sharing: ExpertStore, covariance: bool) -> None:
    X, index = TABLE.X_new, random_index(len(TABLE.X_new), 3, padded=True)
    request = Request(communication=True, covariance=covariance)
    moments = sharing.gather(X, index, request, ThreadEngine(1))
    expected = dense_moments(X, index, request, shared=True)
    assert_moments(moments, expected)


def test_many_queries_are_divided_among_workers(store: ExpertStore) -> None:
    X = np.random.default_rng(1).normal(size=(150, 2))
    index = random_index(150, 2, padded=False)
    moments = store.gather(X, index, Request(covariance=True), ThreadEngine(2))
    assert_moments(moments, dense_moments(X, index, Request(covariance=True), shared=False))


@pytest.mark.parametrize("n", [0, 1])
def test_no_queries_and_one_query(store: ExpertStore, n: int) -> None:
    index = random_index(n, 2, padded=False).reshape(n, 2)
    moments = store.gather(TABLE.X_new[:n], index, Request(covariance=True), ThreadEngine(1))
    assert_moments(moments, dense_moments(TABLE.X_new[:n], index, Request(covariance=True), shared=False))


def test_the_moments_of_a_query_do_not_depend_on_the_other_queries(store: ExpertStore) -> None:
    index = random_index(len(TABLE.X_new), 3, padded=False)
    together = store.gather(TABLE.X_new, index, Request(covariance=True), ThreadEngine(1))
    for q in (0, 7):
        alone = store.gather(TABLE.X_new[[q]], index[[q]], Request(covariance=True), ThreadEngine(1))
        np.testing.assert_allclose(alone.covariance[0], together.covariance[q], rtol=1e-10, atol=1e-13)


# ----------------------------------------------------------------------------------- own experts

M_NEAR = [1, 7, N - 1, N]


def on_a_grid(monkeypatch) -> Table:
    """Rows and queries on the points of a small grid: most distances tie, and many rows are equal."""
    rng = np.random.default_rng(3)
    X, X_new = (rng.integers(-1, 2, size=(n, 2)).astype(float) for n in (N, 15))
    table = TABLE._replace(X=X, X_new=X_new)
    monkeypatch.setattr("tests.experts.test_store.TABLE", table)
    return table


@pytest.mark.parametrize("m", M_NEAR)
@pytest.mark.parametrize("ties", [False, True])
def test_neighbours_are_ordered_by_distance_and_row_number(build: Build, m: int, ties: bool, monkeypatch):
    table = on_a_grid(monkeypatch) if ties else TABLE
    near = build().neighbourhood(table.X_new, m, ThreadEngine(1))
    sq = ((((table.X_new[:, None] - table.X) / [0.8, 1.3]) ** 2).sum(axis=2)).round(9)
    order = np.stack([np.lexsort((NUMBERS, row)) for row in sq])
    np.testing.assert_array_equal(near.position, order[:, :m])
    np.testing.assert_array_equal(near.number, NUMBERS[order[:, :m]])
    np.testing.assert_array_equal(near.X, table.X[order[:, :m]])
    np.testing.assert_array_equal(near.y, table.y[order[:, :m]])
    ranked = np.take_along_axis(sq, order, axis=1)
    np.testing.assert_allclose(near.squared_distance, ranked[:, :m], atol=1e-8)
    np.testing.assert_allclose(near.rim, ranked[:, m] if m < N else np.inf, atol=1e-8)


@pytest.mark.parametrize("ties", [False, True])
def test_the_neighbours_are_the_same_bits_everywhere(build: Build, ties: bool, monkeypatch) -> None:
    table = on_a_grid(monkeypatch) if ties else TABLE
    store = build()
    local = LocalExperts(table.X, table.y, OFFSETS, COVARIANCE, numbers=NUMBERS, factor_budget=10**9)
    for m in M_NEAR:
        ours = store.neighbourhood(table.X_new, m, ThreadEngine(1))
        theirs = local.neighbourhood(table.X_new, m, ThreadEngine(1))
        for name in ("X", "y", "position", "number"):
            a, b = getattr(ours, name), getattr(theirs, name)
            np.testing.assert_array_equal(a, b, strict=True, err_msg=name)
        for name in ("squared_distance", "rim"):  # each shard centres its own rows, which rounds differently
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("K", [0, 1, 4])
def test_own_experts_are_the_same_everywhere(build: Build, name: str, K: int) -> None:
    index = random_index(len(TABLE.X_new), K, padded=K > 1)
    local = LocalExperts(TABLE.X, TABLE.y, OFFSETS, COVARIANCE, numbers=NUMBERS, factor_budget=10**9)
    ours = build().gather(TABLE.X_new, index, OWN[name], ThreadEngine(1))
    assert ours.mean.shape == (len(TABLE.X_new), 1 + K, 2)
    assert_moments(ours, local.gather(TABLE.X_new, index, OWN[name], ThreadEngine(1)))


# ----------------------------------------------------------------------------------------- without


def test_without_forgets_rows_and_leaves_the_store_as_it_was(store: ExpertStore) -> None:
    dropped = np.array([0, 5, 6, 18, N - 1])
    rest = store.without(dropped)
    kept = np.delete(np.arange(N), dropped)
    labels = np.repeat(np.arange(M), SIZES)[kept]
    np.testing.assert_array_equal(rest.sizes, np.bincount(labels, minlength=M))
    np.testing.assert_array_equal(np.concatenate(list(rest.row_batches(0, 10**9))), TABLE.X[kept])
    np.testing.assert_array_equal(rest.sample.X, TABLE.X[kept])
    np.testing.assert_array_equal(rest.sample.labels, labels)
    np.testing.assert_array_equal(rest.sample.position, np.arange(len(kept)))
    np.testing.assert_array_equal(rest.take(np.array([4, 13]))[1], TABLE.y[kept[[4, 13]]])

    index = np.zeros((1, 1), dtype=np.int64)
    own = kept[labels == 0]
    C = SIGNAL(TABLE.X[own]) + NOISE * np.eye(len(own))
    expected = SIGNAL(TABLE.X_new[:1], TABLE.X[own]) @ np.linalg.inv(C) @ TABLE.y[own]
    moments = rest.gather(TABLE.X_new[:1], index, Request(), ThreadEngine(1))
    np.testing.assert_allclose(moments.mean[0], expected, rtol=1e-10)
    before = store.gather(TABLE.X_new[:1], index, Request(), ThreadEngine(1))
    np.testing.assert_allclose(before.mean[0, 0], dense_expert(0, TABLE.X_new[0], False).mean, rtol=1e-10)


# ------------------------------------------------------------------------------------------ jitter


def test_jitter_is_recorded_by_the_number_of_the_expert(build: Build, monkeypatch) -> None:
    """Expert 4 has the same row twice and almost no noise, and is not the first of its shard."""
    X = TABLE.X.copy()
    X[OFFSETS[5] - 6 : OFFSETS[5]] = X[OFFSETS[5] - 1]
    X[OFFSETS[6] :] = X[-1]
    monkeypatch.setattr("tests.experts.test_store.TABLE", TABLE._replace(X=X))
    store = build(covariance=covariance_of(SIGNAL + WhiteKernel(1e-17)))
    assert store.jitter == {}
    index = np.tile([1, 4], (5, 1))
    store.gather(TABLE.X_new[:5], index, Request(), ThreadEngine(1))
    assert set(store.jitter) == {4}
    assert 0 < store.jitter[4] < 1e-3
    store.gather(TABLE.X_new[:5], np.full((5, 1), 6), Request(), ThreadEngine(1))
    assert set(store.jitter) == {4, 6}
    assert store.to_local(10**9).jitter == store.jitter

"""Experts on a cluster: shards, budgets, and fits whose rows or experts stay on the workers."""

from __future__ import annotations

import copy
import pickle
from typing import Any, ClassVar

import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import GridSearchCV

from gpexperts import DistributedGPRegressor, fit_kernel
from gpexperts.aggregation import NPAE
from gpexperts.engines.dask import DaskEngine
from gpexperts.exceptions import ClusterError, MemoryBudgetError
from gpexperts.experts.build import _budget_per_shard
from gpexperts.experts.dask import DaskExperts
from gpexperts.experts.local import LocalExperts
from gpexperts.selection import SELECTORS
from tests.clusters import few_rows_are_many

CORRECTED = NPAE(disagreement=4.0, scale=1.2, local_noise=1.0)
AGGREGATIONS = ["poe", "gpoe", "bcm", "rbcm", "grbcm", "npae", CORRECTED]


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(300)
    return X, y, rng.uniform(-2.2, 2.2, size=(40, 2))


@pytest.fixture
def _few_rows_are_many(monkeypatch) -> None:
    few_rows_are_many(monkeypatch, sample=100, shard=80)


def fixed(**settings: Any) -> DistributedGPRegressor:
    """A model without training: it is fitted quickly, and rounding does not grow."""
    given = {
        "n_experts": 7,
        "kernel": 1.0 * RBF([0.5, 0.8]) + WhiteKernel(0.02),
        "optimizer": None,
        "random_state": 0,
    }
    return DistributedGPRegressor(**(given | settings))


def assert_same(ours: DistributedGPRegressor, theirs: DistributedGPRegressor, X_new: Any) -> None:
    for a, b in zip(
        ours.predict(X_new, return_std=True), theirs.predict(X_new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


# ------------------------------------------------------------------------ aggregations and selectors


@pytest.mark.parametrize("selection", SELECTORS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=str)
def test_every_aggregation_and_selector_is_that_of_threads(client, data, aggregation, selection) -> None:
    X, y, X_new = data
    settings = {"aggregation": aggregation, "selection": selection}
    settings |= {} if selection == "all" else {"n_selected": 3}
    here, there = fixed(**settings).fit(X, y), fixed(**settings, engine=client).fit(X, y)
    assert isinstance(there.model_.experts, DaskExperts)
    assert_same(there, here, X_new)
    np.testing.assert_array_equal(there.select(X_new), here.select(X_new))
    # Weights of experts that hardly differ are far more sensitive to rounding than their weighted mean.
    np.testing.assert_allclose(there.explain(X_new).weight, here.explain(X_new).weight, rtol=0, atol=1e-7)


@pytest.mark.parametrize("n_experts", [1, 2])
def test_fewer_experts_than_workers(client, data, n_experts: int) -> None:
    X, y, X_new = data
    Y = np.stack([y, -2 * y + X[:, 0]], axis=1)
    there = fixed(n_experts=n_experts, engine=client).fit(X, Y)
    assert_same(there, fixed(n_experts=n_experts).fit(X, Y), X_new)


def test_two_models_on_one_cluster_are_independent(client, data) -> None:
    X, y, X_new = data
    first, second = fixed(engine=client).fit(X, y), fixed(engine=client).fit(X, -y)
    np.testing.assert_allclose(first.predict(X_new), -second.predict(X_new), rtol=0, atol=1e-10)


# -------------------------------------------------------------------------------------------- shards


@pytest.mark.parametrize("n_selected", [1, 3])
@pytest.mark.usefixtures("_few_rows_are_many")
def test_gather_skips_shards_without_queries(client, data, monkeypatch, n_selected: int) -> None:
    X, y, _ = data
    model = fixed(engine=client, n_experts=12, partition="balanced", selection="knn", n_selected=n_selected)
    model.fit(da.from_array(X, chunks=(90, 2)), da.from_array(y, chunks=90))
    experts = model.model_.experts
    assert len(experts.shards) > 2
    corner = np.random.default_rng(1).uniform(-2, -1.8, size=(10, 2))
    index = model.select(corner)
    used = experts._shards_of(index)
    assert len(used) < len(experts.shards)
    shards_asked = []
    graph = DaskExperts.graph

    def spied(self, X, index, shards, request):
        shards_asked.append(list(shards))
        return graph(self, X, index, shards, request)

    monkeypatch.setattr(DaskExperts, "graph", spied)
    ours = model.predict(corner, return_std=True)
    assert shards_asked == [used]
    for a, b in zip(ours, model.to_local().predict(corner, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


def test_factors_are_bounded_by_the_budget_and_the_memory_of_a_worker() -> None:
    class Workers:
        worker_memory: int | None = 10**7
        threads_of_workers: ClassVar[dict[str, int]] = {"a": 1, "b": 1}

    engine: Any = Workers()
    assert _budget_per_shard(engine, "auto", 4) == 1_500_000  # 0.3 of a worker, two shards on each
    assert _budget_per_shard(engine, 10**6, 4) == 500_000
    assert _budget_per_shard(engine, 10**9, 4) == 1_500_000
    engine.worker_memory = None
    assert _budget_per_shard(engine, "8MB", 2) == 8_000_000


@pytest.mark.parametrize("memory_budget", ["auto", "1GB"])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.usefixtures("_few_rows_are_many")
def test_a_matrix_larger_than_a_worker_is_refused_before_training(
    client, data, monkeypatch, memory_budget: str, lazy: bool
) -> None:
    X, y, _ = data
    monkeypatch.setattr(DaskEngine, "worker_memory", 1_000)
    monkeypatch.setattr(fit_kernel, "_train_on_blocks", None)
    rows = (da.from_array(X, chunks=(75, 2)), da.from_array(y, chunks=75)) if lazy else (X, y)
    with pytest.raises(MemoryBudgetError, match=r"factor of the largest.*smallest worker has 1.0 kB"):
        fixed(engine=client, n_experts=2, memory_budget=memory_budget).fit(*rows)


def test_nothing_is_sent_back_but_moments(client, data, monkeypatch) -> None:
    """The moments of a query take a few numbers; its weights q and the rows stay on the workers."""
    X, y, X_new = data
    model = fixed(engine=client, selection="knn", n_selected=3, n_neighbors=0).fit(X, y)
    received: list[Any] = []
    compute = DaskEngine.compute

    def spied(self, tasks):
        received.append(compute(self, tasks))
        return received[-1]

    monkeypatch.setattr(DaskEngine, "compute", spied)
    model.predict(X_new)
    (batches,) = received
    arrays = [a for b in batches for a in vars(b.moments).values() if a is not None]
    # K means, variances and covariances with f, K² covariances, K numbers of experts, the prior variance.
    assert sum(a.nbytes for a in arrays) <= 8 * len(X_new) * (3 + 3 + 3 + 9 + 3 + 1)


# --------------------------------------------------------------------------------------- collections


def test_small_collections_are_read_whole(client, data) -> None:
    X, y, X_new = data
    here = fixed().fit(X, y)
    there = fixed(engine=client).fit(da.from_array(X, chunks=(130, 1)), da.from_array(y, chunks=200))
    assert_same(there, here, X_new)
    np.testing.assert_array_equal(there.labels_, here.labels_)


def test_columns_of_a_table_that_dask_divides_differently(client, data, tmp_path) -> None:
    X, y, X_new = data
    names = list("abcdefgh")
    wide = pd.DataFrame(np.hstack([X] * 4), columns=names).assign(y=y)
    for number, rows in enumerate(np.array_split(np.arange(len(X)), 20)):
        wide.iloc[rows].to_parquet(tmp_path / f"{number:02d}.parquet")
    table = dd.read_parquet(tmp_path)
    assert table["y"].optimize().npartitions < table[names].optimize().npartitions
    settings = {"kernel": 1.0 * RBF(1.0) + WhiteKernel(0.02)}
    there = fixed(**settings, engine=client).fit(table[names], table["y"])
    here = fixed(**settings).fit(wide[names], y)
    assert_same(there, here, pd.DataFrame(np.hstack([X_new] * 4), columns=names))


@pytest.mark.usefixtures("_few_rows_are_many")
def test_collections_that_are_refused(client, data) -> None:
    X, y, _ = data
    dX, dy = da.from_array(X, chunks=(120, 2)), da.from_array(y, chunks=120)
    spoilt = X.copy()
    spoilt[250, 0] = np.inf
    with pytest.raises(ValueError, match=r"X \(partition 2\) contains infinity"):
        fixed(engine=client).fit(da.from_array(spoilt, chunks=(120, 2)), dy)
    with pytest.raises(ValueError, match="X has 300 rows and y has 299"):
        fixed(engine=client).fit(dX, y[:-1])
    with pytest.raises(ValueError, match="partition holds labels"):
        fixed(engine=client, n_experts="auto", partition=np.zeros(300, int)).fit(dX, dy)
    with pytest.raises(ValueError, match="Use engine='dask'"):
        fixed().fit(dX, dy)
    with pytest.raises(ValueError, match="the experts are in this process"):
        fixed().fit(X, y).predict(dX)


@pytest.mark.usefixtures("_few_rows_are_many")
def test_rows_on_a_cluster_have_no_labels(client, data) -> None:
    X, y, _ = data
    model = fixed(engine=client).fit(da.from_array(X, chunks=(120, 2)), da.from_array(y, chunks=120))
    with pytest.raises(AttributeError, match="labels_ is not available"):
        model.labels_  # noqa: B018
    assert not hasattr(model, "labels_")


@pytest.mark.slow
def test_data_larger_than_the_memory_of_a_worker() -> None:
    """460 MB of rows on three workers of 400 MB, which hold their libraries too: Dask must spill."""
    n, d = 1_150_000, 49
    rng = da.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, d), chunks=(25_000, d))
    y = da.sin(2 * X[:, 0]) + X[:, 1]
    kernel = 1.0 * RBF([1.0, 1.0] + [1e3] * (d - 2)) + WhiteKernel(0.02)
    model = fixed(kernel=kernel, n_experts="auto", expert_size=500, n_selected=3, partition="random")
    settings = {"n_workers": 3, "threads_per_worker": 1, "memory_limit": "400MB", "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**settings) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        model.set_params(engine=client).fit(X, y)
        assert model.model_.experts.sizes.sum() == n
        X_new = np.random.default_rng(1).uniform(-2, 2, size=(100, d))
        mean = model.predict(X_new)
    assert np.sqrt(np.mean((mean - np.sin(2 * X_new[:, 0]) - X_new[:, 1]) ** 2)) < 0.5


# ------------------------------------------------------------------------------- clients and copies


def test_a_client_as_engine_can_be_cloned_copied_and_pickled(client, data) -> None:
    X, y, X_new = data
    model = fixed(engine=client)
    for twin in (clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.engine.address == client.scheduler.address
    assert isinstance(clone(model).engine, DaskEngine)
    there = model.fit(X, y)
    here = pickle.loads(pickle.dumps(there))
    assert isinstance(here.model_.experts, LocalExperts)
    np.testing.assert_allclose(here.predict(X_new), there.predict(X_new), rtol=0, atol=1e-10)


def test_to_local_leaves_the_model_on_the_cluster(client, data) -> None:
    X, y, X_new = data
    there = fixed(engine=client).fit(X, y)
    choices = {name: str(choice) for name, choice in there.choices_.items()}
    here = there.to_local()
    assert here.engine is None
    assert_same(there, here, X_new)
    here.set_params(n_selected=1).predict(X_new)
    assert isinstance(there.model_.experts, DaskExperts)
    assert {name: str(choice) for name, choice in there.choices_.items()} == choices


def test_an_address_as_engine(client, data) -> None:
    X, y, X_new = data
    assert_same(fixed(engine=client.scheduler.address).fit(X, y), fixed().fit(X, y), X_new)
    with pytest.raises(ClusterError, match=r"No Dask scheduler replied at tcp://127\.0\.0\.1:1 within 1 s"):
        fixed(engine=DaskEngine("tcp://127.0.0.1:1", patience=1.0)).fit(X, y)


def test_grid_search_on_a_cluster(client, data) -> None:
    X, y, _ = data
    search = GridSearchCV(fixed(engine=client, n_selected=1), {"n_experts": [2, 3]}, cv=2).fit(X, y)
    assert search.best_params_["n_experts"] in (2, 3)


# ------------------------------------------------------------------------ categories, gaps and dates


def mixed_table(X: np.ndarray) -> pd.DataFrame:
    n = len(X)
    frame = pd.DataFrame(
        {
            "x": X[:, 0],
            "town": pd.Categorical(np.array(["north", "south", "west"])[np.arange(n) % 3]),
            "code": [f"c{i % 5}" for i in range(n)],
            "when": pd.date_range("2024-01-01", periods=n, freq="5h"),
        }
    )
    frame.loc[frame.index % 25 == 3, "x"] = np.nan
    return frame


@pytest.mark.usefixtures("_few_rows_are_many")
@pytest.mark.parametrize("known", [True, False])
def test_columns_of_partitions_are_encoded_as_those_of_a_table(client, data, known: bool) -> None:
    X, y, X_new = data
    frame = mixed_table(X)
    table = dd.from_pandas(frame.assign(y=y), npartitions=3)
    if not known:
        table["town"] = table["town"].cat.as_unknown()
    settings = {"kernel": 1.0 * RBF(1.0) + WhiteKernel(0.02)}
    there = fixed(**settings, engine=client).fit(table[list(frame.columns)], table["y"])
    here = fixed(**settings).fit(frame, y)
    assert there.model_.encoder == here.model_.encoder
    assert there.choices_["columns"] == here.choices_["columns"]
    new = mixed_table(X_new)
    assert_same(there, here, new)
    lazy = there.predict(dd.from_pandas(new, npartitions=2))
    np.testing.assert_allclose(client.compute(lazy, sync=True), here.predict(new), rtol=0, atol=1e-10)
    mean, lower, upper = there.predict(dd.from_pandas(new, npartitions=2), return_interval=0.9)
    np.testing.assert_allclose(
        client.compute([mean, lower, upper], sync=True), here.predict(new, return_interval=0.9), atol=1e-8
    )


@pytest.mark.usefixtures("_few_rows_are_many")
def test_gaps_of_dask_arrays_are_those_of_arrays(client, data) -> None:
    X, y, X_new = data
    X = X.copy()
    X[::9, 1] = np.nan
    settings = {"kernel": 1.0 * RBF(1.0) + WhiteKernel(0.02)}
    there = fixed(**settings, engine=client).fit(
        da.from_array(X, chunks=(120, 2)), da.from_array(y, chunks=120)
    )
    here = fixed(**settings).fit(X, y)
    assert there.model_.encoder == here.model_.encoder
    assert_same(there, here, X_new)

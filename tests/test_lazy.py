"""Lazy prediction of Dask collections: equal to the eager one, with few tasks, and with the same reports."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import NPAE
from gpexperts.exceptions import RepairWarning
from gpexperts.experts.moments import ExpertMoments, Prediction
from gpexperts.lazy import compute
from gpexperts.lazy_arrays import LimitedArray
from tests.clusters import LIMIT, in_process_client

N_EXPERTS = 12


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(240, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(240)
    return X, y, rng.uniform(-2.2, 2.2, size=(50, 2))


def fitted(client: distributed.Client, rows: Any, **settings: Any) -> DistributedGPRegressor:
    X, y, _ = rows
    given = {
        "n_experts": N_EXPERTS,
        "kernel": 1.0 * RBF([0.5, 0.8]) + WhiteKernel(0.02),
        "optimizer": None,
        "n_selected": 3,
        "n_neighbors": 0,
        "aggregation": NPAE(disagreement=None),
        "random_state": 0,
        "engine": client,
    }
    return DistributedGPRegressor(**(given | settings)).fit(X, y)


def within_limit(condition: Callable[[], bool]) -> None:
    """Wait for a condition; events and released keys are processed some time after a result is here."""
    until = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("aggregation", ["npae", "grbcm", "rbcm"])
@pytest.mark.parametrize("latent", [False, True])
def test_lazy_predictions_are_those_of_arrays(client, rows, aggregation: str, latent: bool) -> None:
    X_new = rows[2]
    model = fitted(client, rows, aggregation=aggregation)
    lazy = model.predict(da.from_array(X_new, chunks=((20, 0, 30), 1)), return_std=True, latent=latent)
    for later, now in zip(lazy, model.predict(X_new, return_std=True, latent=latent), strict=True):
        assert isinstance(later, da.Array)
        assert later.shape == (50,)
        np.testing.assert_allclose(client.compute(later, sync=True), now, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_lazy_intervals_are_those_of_arrays_and_their_waits_are_limited(client, rows, n_outputs: int) -> None:
    X, y, X_new = rows
    y = y if n_outputs == 1 else np.stack([y, -y], axis=1)
    model = fitted(client, (X, y, X_new))
    ends = model.predict_interval(da.from_array(X_new, chunks=((20, 0, 30), 2)), 0.8)
    assert all(isinstance(end, LimitedArray) for end in ends)
    np.testing.assert_allclose(compute(*ends), model.predict_interval(X_new, 0.8), rtol=0, atol=1e-12)


def test_partitions_of_unknown_length_and_without_rows(client, rows) -> None:
    X_new = rows[2]
    model = fitted(client, rows)
    frame = pd.DataFrame(X_new, columns=["a", "b"])
    first, rest = (dd.from_pandas(part, npartitions=1) for part in (frame[:10] + 100, frame[10:]))
    sifted = dd.concat([first, rest])
    sifted = sifted[sifted["a"] < 50]
    mean = model.predict(sifted.to_dask_array())
    assert np.isnan(mean.shape[0])
    np.testing.assert_allclose(client.compute(mean, sync=True), model.predict(X_new[10:]), rtol=0, atol=1e-12)


def test_columns_in_another_order_are_refused(client, rows) -> None:
    X, y, X_new = rows
    model = fitted(client, (pd.DataFrame(X, columns=["a", "b"]), y, None))
    queries = dd.from_pandas(pd.DataFrame(X_new, columns=["a", "b"]), npartitions=2)
    assert client.compute(model.predict(queries), sync=True).shape == (50,)
    with pytest.raises(ValueError, match=r"columns of X are \['b', 'a'\]"):
        model.predict(queries[["b", "a"]])


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (np.full((6, 2), np.inf), r"X \(partition [01]\) contains infinity"),
        (np.zeros((6, 3)), "X has 3 features"),
    ],
)
def test_a_bad_partition_is_an_error_when_it_is_computed(client, rows, spoilt, message: str) -> None:
    lazy = fitted(client, rows).predict(da.from_array(spoilt, chunks=(3, -1)))
    with pytest.raises(ValueError, match=message):
        client.compute(lazy, sync=True)


@pytest.mark.parametrize(
    ("settings", "per_shard", "more"),
    [
        ({}, 1, 8),  # the queries, and two parts of these: inputs and trend
        ({"aggregation": "grbcm"}, 1, 9),
        ({"n_neighbors": 8, "n_selected": 0}, 4, 12),
        ({"n_neighbors": 8, "n_selected": 2}, 4, 12),
    ],
)
def test_tasks_of_a_partition(client, rows, settings: dict[str, Any], per_shard: int, more: int) -> None:
    """There is no task per pair of experts or of shards; neighbours are searched and fetched per shard."""
    model = fitted(client, rows, **settings)
    n_shards = len(model.model_.experts.shards)
    assert n_shards > 2
    tasks = {}
    for n_partitions in (1, 4):
        queries = da.zeros((40, 2), chunks=(40 // n_partitions, 2))
        mean, std = model.predict(queries, return_std=True)
        graph = {**mean.__dask_graph__(), **std.__dask_graph__()}
        tasks[n_partitions] = sum(str(key).startswith("gpexperts ") for key in graph)
    assert (tasks[4] - tasks[1]) / 3 <= per_shard * n_shards + more


def test_lazy_predictions_outlive_the_estimator(client, rows) -> None:
    model = fitted(client, rows)
    expected = model.predict(rows[2])
    lazy = model.predict(da.from_array(rows[2], chunks=(20, 2)))
    del model
    gc.collect()
    np.testing.assert_allclose(client.compute(lazy, sync=True), expected, rtol=0, atol=1e-12)


# ------------------------------------------------------------------------------ reports of the workers


class Repairing(NPAE):
    """Counts the queries with a positive mean as repaired."""

    def combine(self, moments: ExpertMoments) -> Prediction:
        prediction = super().combine(moments)
        return replace(prediction, repaired=int((prediction.mean > 0).sum()))


def repeated_rows(client: distributed.Client) -> DistributedGPRegressor:
    """Every row twice in an expert and hardly any noise: factors need jitter."""
    X = np.repeat(np.random.default_rng(0).uniform(-2, 2, size=(60, 2)), 2, axis=0)
    settings = {
        "kernel": 1.0 * RBF([3.0, 3.0]) + WhiteKernel(1e-17),
        "optimizer": None,
        "partition": np.arange(120) // 30,
        "selection": "all",
        "n_neighbors": 0,
        "aggregation": Repairing(),
        "standardize": False,
        "training": "full",
        "random_state": 0,
        "engine": client,
    }
    with pytest.warns(RepairWarning, match="needed jitter"):
        return DistributedGPRegressor(**settings).fit(X, X[:, 0])


def test_repairs_and_jitter_of_partitions_are_counted(client, rows) -> None:
    model, X_new = repeated_rows(client), rows[2]
    lazy = model.predict(da.from_array(X_new, chunks=(25, 2)), return_std=True)
    assert model.repairs_["queries_repaired"] == 0
    client.compute(lazy, sync=True)

    eager = repeated_rows(client)
    mean, _ = eager.predict(X_new, return_std=True)
    assert eager.repairs_["queries_repaired"] == (mean > 0).sum() > 0
    assert set(eager.repairs_["experts_with_jitter"]) == {0, 1, 2, 3}
    within_limit(lambda: model.repairs_ == eager.repairs_)


def test_jitter_of_partitions_is_warned_of_once(client, rows) -> None:
    model, X_new = repeated_rows(client), rows[2]
    model.predictor_.jitter_was_reported = False  # as if training had needed none
    lazy = model.predict(da.from_array(X_new, chunks=(10, 2)), return_std=True)

    def compute() -> None:
        client.compute(lazy, sync=True)
        within_limit(lambda: model.predictor_.jitter_was_reported)
        client.compute(model.predict(da.from_array(X_new, chunks=(50, 2))), sync=True)

    with pytest.warns(RepairWarning, match="4 experts .* needed jitter") as caught:
        compute()
    assert len([warning for warning in caught if warning.category is RepairWarning]) == 1


def test_nothing_stays_on_the_cluster_after_the_model_is_gone(rows) -> None:
    with in_process_client(n_workers=1) as client:
        model = fitted(client, rows)
        lazy = model.predict(da.from_array(rows[2], chunks=(10, 2)))
        client.compute(lazy, sync=True)
        assert any(client.has_what().values())
        del model, lazy
        gc.collect()
        within_limit(lambda: not any(client.has_what().values()))

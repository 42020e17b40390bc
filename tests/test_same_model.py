"""The same rows and random_state give the same model: as arrays or collections, with threads or on Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from gpexperts import DistributedGPRegressor, fit_experts, pipeline, prepare
from gpexperts.experts.dask import DaskExperts
from gpexperts.experts.local import LocalExperts
from gpexperts.selection import DNNSelector
from gpexperts.training import compare, polish, schedule
from gpexperts.training.nearest import Stage
from tests.clusters import COLLECTIONS, few_rows_are_many, in_process_client, names_of
from tests.problems import in_few_steps

N_ROWS, N_QUERIES = 1320, 90

FIXED: dict[str, Any] = {"optimizer": None, "n_selected": 2, "n_neighbors": 0}
CASES: dict[str, dict[str, Any]] = {
    "defaults": {"kernel": "auto"},
    "full training": {"training": "full", "kernel": "rbf", "n_selected": 2, "n_neighbors": 0},
    "two outputs": FIXED,
    "grbcm": {"aggregation": "grbcm", **FIXED},
    "rbcm": {"aggregation": "rbcm", **FIXED, "n_selected": "auto"},
    "random parts": {"partition": "random", "selection": "all", **FIXED, "n_selected": "auto"},
    "k-means": {"partition": "kmeans", "selection": "knn", **FIXED},
    "dnn": {"selection": DNNSelector(max_iter=10), **FIXED},
    "conformal": {"calibrate": "conformal", **FIXED},
    "own expert": {"optimizer": None, "n_neighbors": 16, "n_selected": 0},
    "own expert beside others": {"optimizer": None, "n_neighbors": 16, "n_selected": 2},
}
ARRAYS = "arrays on Dask"
QUICK = {"defaults": "uneven arrays", "two outputs": "frames", "own expert beside others": ARRAYS}
PLACES = [
    pytest.param(case, place, marks=() if QUICK.get(case, place) == place else pytest.mark.slow)
    for case, place in [("grbcm", place) for place in (ARRAYS, *COLLECTIONS)]
    + [(case, place) for case in CASES if case != "grbcm" for place in (ARRAYS, "uneven arrays")]
    + [("defaults", "frames"), ("two outputs", "frames"), ("conformal", "frames")]
]
"""Training takes a message per step, so that such cases are fitted in one place; `test-slow` has all."""


@pytest.fixture(scope="module", autouse=True)
def _few_rows_are_many() -> Iterator[None]:
    """Sample and divide into shards at sizes that are quick to fit."""
    with pytest.MonkeyPatch.context() as patch:
        few_rows_are_many(patch, sample=600, shard=400)
        patch.setattr(schedule, "EXACT", 0)
        for name in ("FIRST_BLOCKS", "CHOICE_BLOCKS", "FINAL_BLOCKS"):
            patch.setattr(schedule, name, (4, 40))
        patch.setattr(schedule, "NOISE_BLOCKS", (8, 40))
        patch.setattr(polish, "FIRST", Stage(200, 16, 2))
        patch.setattr(polish, "SECOND", Stage(200, 16, 2))
        patch.setattr(polish, "CHECKED", (200, 32))
        patch.setattr(compare, "BLOCKS", ((4, 40, 2), (4, 60, 2)))
        patch.setattr(compare, "NEIGHBOURHOODS", Stage(200, 16, 2))
        patch.setattr(compare, "PREDICTED", (200, 200))
        patch.setattr(prepare, "EXPERTS", (1, 2))
        patch.setattr(prepare, "NEIGHBORS", (16, 32))
        for trainer in (fit_experts, schedule):
            # Each step is a message to the workers, and a few steps show whether all have the same blocks.
            patch.setattr(trainer, "maximise_likelihood", in_few_steps)
        yield


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    scale = [1.0, 10.0, 100.0]
    X = rng.uniform(-3, 3, size=(N_ROWS, 3)) * scale
    y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1] / 10) + X[:, 2] / 200 + 0.1 * rng.standard_normal(N_ROWS)
    return X, y, rng.uniform(-3.3, 3.3, size=(N_QUERIES, 3)) * scale


def unfitted(case: str, **more: Any) -> DistributedGPRegressor:
    settings = {"expert_size": 60, "kernel": "matern32", "random_state": 0} | CASES[case] | more
    return DistributedGPRegressor(**settings)


def targets(case: str, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.stack([y, X[:, 0] - y], axis=1) if case == "two outputs" else y


@pytest.fixture(scope="module")
def reference(rows) -> Callable[[str], DistributedGPRegressor]:
    """The model of each case from arrays, with threads; fitted once."""
    X, y, _ = rows
    fitted: dict[str, DistributedGPRegressor] = {}

    def of(case: str) -> DistributedGPRegressor:
        if case not in fitted:
            fitted[case] = unfitted(case).fit(X, targets(case, X, y))
        return fitted[case]

    return of


def assert_same_fit(ours: DistributedGPRegressor, theirs: DistributedGPRegressor) -> None:
    np.testing.assert_allclose(ours.kernel_.theta, theirs.kernel_.theta, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(ours.model_.experts.offsets, theirs.model_.experts.offsets)
    np.testing.assert_allclose(ours.model_.centroids, theirs.model_.centroids, rtol=0, atol=1e-10)
    if ours.model_.labels is not None:
        np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    assert {n: c.value for n, c in ours.choices_.items()} == {n: c.value for n, c in theirs.choices_.items()}
    assert ours.predictor_.tuning == pytest.approx(theirs.predictor_.tuning)


def assert_close(ours: Any, theirs: Any) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("case", "place"), PLACES)
def test_the_model_does_not_depend_on_where_the_rows_are(client, rows, reference, case, place) -> None:
    X, y, X_new = rows
    theirs = reference(case)
    assert isinstance(theirs.model_.experts, LocalExperts)
    given: tuple[Any, Any] = (X, targets(case, X, y))
    if place in COLLECTIONS:
        given = COLLECTIONS[place](*given)
    ours = unfitted(case, engine=client).fit(*given)
    assert isinstance(ours.model_.experts, DaskExperts)
    assert len(ours.model_.experts.shards) > 2
    assert_same_fit(ours, theirs)

    here, lazy = X_new, da.from_array(X_new, chunks=((50, 0, N_QUERIES - 50), 3))
    if place == "frames":
        here = pd.DataFrame(X_new, columns=names_of(X_new))
        lazy = dd.from_pandas(here, npartitions=2)
    expected = theirs.predict(X_new, return_std=True)
    assert_close(ours.predict(here, return_std=True), expected)
    np.testing.assert_array_equal(ours.select(here), theirs.select(X_new))
    later = ours.predict(lazy, return_std=True)
    assert all(isinstance(values, da.Array) for values in later)
    assert_close(client.compute(later, sync=True), expected)
    if theirs.predictor_.tuning.n_neighbors:
        own, its = ours.explain(here).own, theirs.explain(X_new).own
        numbers = own.rows
        if ours.model_.row_numbers is None:  # of a collection: the rows that experts have seen are counted
            numbers = theirs.model_.row_numbers[own.rows]
        np.testing.assert_array_equal(numbers, its.rows)
        assert_close([own.row_weight, own.targets, own.mean], [its.row_weight, its.targets, its.mean])
    if case == "conformal":
        expected = theirs.predict_interval(X_new, 0.8)
        assert_close(ours.predict_interval(here, 0.8), expected)
        assert_close(client.compute(ours.predict_interval(lazy, 0.8), sync=True), expected)


def test_the_cases_use_samples_and_several_shards(reference, rows) -> None:
    sizes = reference("defaults").model_.experts.sizes
    assert sizes.sum() == N_ROWS > 2 * pipeline.SAMPLE_ROWS
    assert len(sizes) == N_ROWS // 60


def test_the_number_of_workers_does_not_change_the_model(rows, reference) -> None:
    X, y, X_new = rows
    with in_process_client(n_workers=1) as alone:
        ours = unfitted("grbcm", engine=alone).fit(*COLLECTIONS["uneven arrays"](X, y))
        assert_same_fit(ours, reference("grbcm"))
        assert_close([ours.predict(X_new)], [reference("grbcm").predict(X_new)])


def test_experts_brought_to_this_process_predict_the_same(client, rows, reference) -> None:
    X, y, X_new = rows
    ours = unfitted("grbcm", engine=client).fit(*COLLECTIONS["uneven arrays"](X, y)).to_local()
    assert ours.engine is None
    assert isinstance(ours.model_.experts, LocalExperts)
    assert_close(ours.predict(X_new, return_std=True), reference("grbcm").predict(X_new, return_std=True))

"""A Dask cluster of real processes: the same answers, and no fault of a worker changes them."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from concurrent.futures import Future

import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from distributed.client import futures_of
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import GridSearchCV

import gpexperts
from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import NPAE
from gpexperts.cluster import fitting, groups, private
from gpexperts.cluster.groups import factor_budget
from gpexperts.cluster.neighbourhoods import Neighbourhoods
from gpexperts.engines.batches import balanced_batches, in_order
from gpexperts.engines.clients import is_collection
from gpexperts.engines.dask import DaskEngine, engine_for
from gpexperts.exceptions import ClusterError, MemoryBudgetError, RefitRequiredError
from gpexperts.experts import staged
from gpexperts.selection import SELECTORS, DNNSelector
from gpexperts.selection.network import trained_network
from gpexperts.training.likelihood import maximise_likelihood

LIMIT = 120
"""Seconds that any of these tests may take, however busy the machine."""

pytestmark = [
    pytest.mark.filterwarnings("ignore:These hyperparameters ended at a bound"),
]


def start_cluster(n_workers: int, memory_limit: str = "500MB") -> distributed.LocalCluster:
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, memory_limit=memory_limit, dashboard_address=":0"
    )


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    with start_cluster(3) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def small_samples(monkeypatch) -> None:
    """Make a few hundred rows as many as a few hundred thousand."""
    monkeypatch.setattr(fitting, "SAMPLE_ROWS", 300)
    monkeypatch.setattr(fitting, "WHOLE_ROWS", 100)
    monkeypatch.setattr(fitting, "GROUP_ROWS", 150)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(500, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(500)
    return X, y, rng.uniform(-2.2, 2.2, size=(60, 2))


def fixed(**settings) -> DistributedGPRegressor:
    """Trained by nothing: quick to fit, and rounding has nowhere to grow."""
    given = {
        "n_experts": 7,
        "kernel": 1.0 * RBF([0.5, 0.8]) + WhiteKernel(0.02),
        "optimizer": None,
        "random_state": 0,
    }
    return DistributedGPRegressor(**(given | settings))


def assert_same(ours, theirs, X_new: np.ndarray, scale: float = 1.0) -> None:
    for a, b in zip(
        ours.predict(X_new, return_std=True), theirs.predict(X_new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * scale)


# ---------------------------------------------------------------------------------- equal answers


RULES = ["poe", "gpoe", "bcm", "rbcm", "grbcm", "npae", NPAE(widen=4.0, scale=1.2, surprise=1.0)]


@pytest.mark.parametrize("selection", SELECTORS)
@pytest.mark.parametrize("aggregation", RULES, ids=str)
def test_every_rule_and_selector_answers_as_on_this_machine(client, data, aggregation, selection) -> None:
    X, y, X_new = data
    settings = {"aggregation": aggregation, "selection": selection}
    settings |= {} if selection == "all" else {"n_selected": 3}
    here = fixed(**settings).fit(X, y)
    there = fixed(**settings, engine=client).fit(X, y)
    assert_same(there, here, X_new)
    np.testing.assert_array_equal(there.select(X_new), here.select(X_new))
    np.testing.assert_allclose(there.explain(X_new).weight, here.explain(X_new).weight, rtol=0, atol=1e-9)


@pytest.mark.parametrize("calibrate", [pytest.param("scale", marks=pytest.mark.slow), "conformal"])
def test_calibrated_intervals_are_the_same_for_arrays_and_collections(client, data, calibrate) -> None:
    X, y, X_new = data
    here = fixed(calibrate=calibrate).fit(X, y).predict_interval(X_new)
    model = fixed(calibrate=calibrate, engine=client).fit(X, y)
    np.testing.assert_allclose(model.predict_interval(X_new), here, rtol=0, atol=1e-9)
    lazy = model.predict_interval(da.from_array(X_new, chunks=(25, 2)))
    np.testing.assert_allclose(client.compute(lazy, sync=True), here, rtol=0, atol=1e-9)


@pytest.mark.parametrize("training", ["auto", "full"])
def test_training_and_automatic_choices_are_the_same(client, data, training) -> None:
    X, y, X_new = data
    settings = {"n_experts": 5, "training": training, "kernel": "matern52", "random_state": 0}
    here = DistributedGPRegressor(**settings).fit(X, y)
    there = DistributedGPRegressor(**settings, engine="dask").fit(X, y)
    np.testing.assert_allclose(there.kernel_.theta, here.kernel_.theta, rtol=0, atol=1e-9)
    assert there._rule() == here._rule()
    assert_same(there, here, X_new)


def test_a_training_step_moves_hyperparameters_and_gradients_alone(client, data) -> None:
    X, y, _ = data
    model = fixed(engine=client, optimizer="lbfgs", training="full").fit(X, y)
    moved = model.travelled_["training"]
    steps = len(model.trace_)
    assert moved["round_trips"] >= steps
    assert moved["tasks"] <= (1 + moved["round_trips"]) * len(client.nthreads())
    # Seven parts send a likelihood and four slopes each; θ goes to each task, besides the rows once.
    assert moved["fetched"] <= moved["round_trips"] * 7 * 500
    assert moved["sent"] <= X.nbytes + y.nbytes + moved["round_trips"] * 10_000 + 20_000


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing(client, data) -> None:
    X, y, X_new = data
    there = fixed(engine=client).fit(X, y)
    with start_cluster(1) as cluster, distributed.Client(cluster, set_as_default=False) as alone:
        assert_same(fixed(engine=alone).fit(X, y), there, X_new)


def test_more_workers_than_experts_and_several_outputs(client, data) -> None:
    X, y, X_new = data
    Y = np.stack([y, -2 * y + X[:, 0]], axis=1)
    for n_experts in (1, 2):
        assert_same(
            fixed(n_experts=n_experts, engine=client).fit(X, Y), fixed(n_experts=n_experts).fit(X, Y), X_new
        )


@pytest.mark.slow
def test_two_fits_on_one_client_do_not_disturb_each_other(client, data) -> None:
    X, y, X_new = data
    first, second = fixed(engine=client).fit(X, y), fixed(engine=client).fit(X, -y)
    np.testing.assert_allclose(first.predict(X_new), -second.predict(X_new), rtol=0, atol=1e-10)


def test_what_travels_between_experts_is_bounded_and_told(client, data) -> None:
    X, y, X_new = data
    model = fixed(engine=client, selection="knn", n_selected=3).fit(X, y)
    model.predict(X_new)
    largest = int(model._experts.sizes.max())
    # Each query sends at most the weights of all its experts, and each expert its rows to each other one.
    bound = 8 * (len(X_new) * 3 * largest + 7 * 7 * largest * X.shape[1])
    assert 0 < model.travelled_["prediction"]["exchanged"] <= bound
    # Home come K means, K variances, K² covariances and the index of each query.
    home = 8 * len(X_new) * (3 + 3 + 9 + 3 + 1)
    assert home <= model.travelled_["prediction"]["fetched"] <= home + 4_000
    assert model.travelled_["prediction"]["sent"] >= X_new.nbytes
    rows = X.nbytes + y.nbytes
    assert rows <= model.travelled_["rows"]["sent"] <= 2 * rows + 100_000
    assert fixed().fit(X, y).travelled_ == {}


def test_without_a_client_a_cluster_is_started_and_ended_with_the_process(data, tmp_path) -> None:
    script = """if __name__ == "__main__":
    import os
    import distributed
    import numpy as np
    from gpexperts import DistributedGPRegressor

    X = np.linspace(0, 1, 60)[:, None]
    model = DistributedGPRegressor(n_experts=2, kernel="rbf", optimizer=None, random_state=0, engine="dask")
    model.fit(X, X[:, 0]).predict(X)
    model.fit(X, X[:, 0])
    print(*distributed.Client.current().run(os.getpid).values())
"""
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"], capture_output=True, text=True, timeout=LIMIT, check=True
    )
    assert done.stderr.count("found no current Dask client: started a LocalCluster of") == 1
    workers = [int(pid) for pid in done.stdout.split()]
    assert workers
    assert not any(is_running(pid) for pid in workers)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_data_larger_than_the_memory_of_a_worker(data) -> None:
    """460 MB of rows on three workers of 400 MB, which hold their libraries too: Dask must spill."""
    n, d = 1_150_000, 49
    rng = da.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, d), chunks=(25_000, d))
    y = da.sin(2 * X[:, 0]) + X[:, 1]
    assert X.nbytes + y.nbytes > 400e6
    kernel = 1.0 * RBF([1.0, 1.0] + [1e3] * (d - 2)) + WhiteKernel(0.02)
    model = fixed(kernel=kernel, n_experts="auto", expert_size=500, n_selected=3, partition="random")
    with start_cluster(3, "400MB") as cluster, distributed.Client(cluster, set_as_default=False) as client:
        model.set_params(engine=client).fit(X, y)
        assert model._experts.sizes.sum() == n
        X_new = np.random.default_rng(1).uniform(-2, 2, size=(100, d))
        mean = model.predict(X_new)
    assert np.sqrt(np.mean((mean - np.sin(2 * X_new[:, 0]) - X_new[:, 1]) ** 2)) < 0.5


# -------------------------------------------------------------------------------- dask collections


def frame_of(X: np.ndarray, y: np.ndarray | None = None, npartitions: int = 4) -> dd.DataFrame:
    frame = pd.DataFrame(X, columns=["a", "b"])
    return dd.from_pandas(frame if y is None else frame.assign(y=y), npartitions=npartitions)


def test_small_dask_arrays_give_the_model_of_the_same_rows(client, data) -> None:
    X, y, X_new = data
    here = fixed().fit(X, y)
    there = fixed(engine=client).fit(da.from_array(X, chunks=(130, 1)), da.from_array(y, chunks=200))
    assert_same(there, here, X_new)
    np.testing.assert_array_equal(there.labels_, here.labels_)


@pytest.mark.slow
def test_frames_whose_columns_dask_cuts_differently(client, data, tmp_path) -> None:
    X, y, X_new = data
    wide = pd.DataFrame(np.hstack([X] * 4), columns=list("abcdefgh")).assign(y=y)
    for number, rows in enumerate(np.array_split(np.arange(500), 20)):
        wide.iloc[rows].to_parquet(tmp_path / f"{number:02d}.parquet")
    table = dd.read_parquet(tmp_path)
    assert table["y"].optimize().npartitions < table[list("abcdefgh")].optimize().npartitions
    settings = {"kernel": 1.0 * RBF(1.0) + WhiteKernel(0.02), "engine": client}
    there = fixed(**settings).fit(table[list("abcdefgh")], table["y"])
    here = fixed(**settings | {"engine": None}).fit(wide[list("abcdefgh")], y)
    assert_same(there, here, pd.DataFrame(np.hstack([X_new] * 4), columns=list("abcdefgh")))
    several = fixed(**settings).fit(table[list("abcdef")], table[["g", "y"]])
    assert several.predict(wide[list("abcdef")]).shape == (500, 2)


@pytest.mark.parametrize("aggregation", ["npae", "grbcm"])
@pytest.mark.parametrize("partition", ["auto", pytest.param("random", marks=pytest.mark.slow)])
def test_shuffled_rows_make_a_good_model_with_lazy_predictions(
    client, data, small_samples, aggregation, partition
) -> None:
    X, y, X_new = data
    frame = frame_of(X, y)
    model = fixed(engine=client, aggregation=aggregation, partition=partition)
    model.fit(frame[["a", "b"]], frame["y"])
    assert model.n_experts_ == 7
    shared = 0 if model._experts.shared is None else len(model._experts.shared[0])
    assert model._experts.sizes.sum() + shared == len(X)
    truth = np.sin(2 * X_new[:, 0]) + X_new[:, 1]
    assert np.sqrt(np.mean((model.predict(pd.DataFrame(X_new, columns=["a", "b"])) - truth) ** 2)) < 0.2

    lazy = model.predict(frame_of(X_new, npartitions=3), return_std=True)
    eager = model.predict(pd.DataFrame(X_new, columns=["a", "b"]), return_std=True)
    local = model.to_local()
    assert local.engine is None
    at_home = local.predict(pd.DataFrame(X_new, columns=["a", "b"]), return_std=True)
    for a, b, c in zip(lazy, eager, at_home, strict=True):
        assert isinstance(a, da.Array)
        np.testing.assert_allclose(a.compute(), b, rtol=0, atol=1e-10)
        np.testing.assert_allclose(c, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_selected", [1, 3])
def test_groups_of_whom_nobody_asks_and_batches_without_queries(
    client, data, small_samples, n_selected
) -> None:
    X, y, _ = data
    model = fixed(engine=client, n_experts=12, partition="balanced", selection="knn", n_selected=n_selected)
    model.fit(da.from_array(X, chunks=(120, 2)), da.from_array(y, chunks=120))
    assert len(model._experts.groups) > 2
    corner = np.random.default_rng(1).uniform(-2, -1.8, size=(10, 2))  # nobody there knows the other side
    assert len(np.unique(model.select(corner))) < 12
    home = model.to_local().predict(corner, return_std=True)
    for ours, theirs in zip(model.predict(corner, return_std=True), home, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
    frame = dd.concat([frame_of(corner, npartitions=2), frame_of(corner + 1, npartitions=1)])
    sifted = frame[frame["a"] < -1.5].to_dask_array(lengths=True)
    assert sifted.chunks[0][-1] == 0  # the last partition has lost all its rows
    np.testing.assert_allclose(model.predict(sifted).compute(), home[0], rtol=0, atol=1e-10)


def test_a_cluster_s_model_and_its_copy_at_home_learn_apart(client, data) -> None:
    X, y, _ = data
    there = fixed(engine=client).fit(X, y)
    before = copy.deepcopy((there.choices_, there.travelled_))
    home = there.to_local()
    home.choices_["kernel"] = "another"
    home.travelled_.clear()
    assert (there.choices_, there.travelled_) == before


def test_factors_keep_to_the_budget_and_to_the_worker_s_memory() -> None:
    class Workers:
        worker_memory = 10**7
        client = types.SimpleNamespace(nthreads=lambda: {"a": 1, "b": 1})

    engine = Workers()
    assert factor_budget(engine, "auto", 4) == 1_500_000  # three tenths of a worker, two groups on each
    assert factor_budget(engine, 10**6, 4) == 500_000
    assert factor_budget(engine, 10**9, 4) == 1_500_000
    engine.worker_memory = None
    assert factor_budget(engine, "8MB", 2) == 8_000_000


@pytest.mark.parametrize("memory_budget", ["auto", "1GB"])
def test_a_matrix_larger_than_a_worker_is_refused_before_training(
    client, data, small_samples, monkeypatch, memory_budget
) -> None:
    def trained(*arguments, **settings) -> None:
        raise AssertionError("it was trained")

    X, y, _ = data
    monkeypatch.setattr(DaskEngine, "worker_memory", 1_000)
    monkeypatch.setattr(DistributedGPRegressor, "_train_on_blocks", trained)
    monkeypatch.setattr(private, "_trained", trained)
    settings = {"engine": client, "n_experts": 2, "memory_budget": memory_budget}
    for rows in ((X, y), (da.from_array(X, chunks=(125, 2)), da.from_array(y, chunks=125))):
        with pytest.raises(MemoryBudgetError, match=r"factor of the largest.*smallest worker has 1.0 kB"):
            fixed(**settings).fit(*rows)
    with pytest.raises(MemoryBudgetError, match="factor of the largest expert"):
        fixed(**settings, aggregation="rbcm", share_inputs=False).fit(
            da.from_array(X, chunks=(125, 2)), da.from_array(y, chunks=125)
        )


def test_work_that_is_done_as_the_wait_for_it_ends_is_done() -> None:
    """The answer came between the end of one second's wait and the next look: it was thrown away."""

    class JustNow(Future):
        def result(self, timeout=None):
            if timeout is not None:
                self.set_result(["answer"])
                raise TimeoutError
            return super().result()

    assert DaskEngine()._watched(None, JustNow(), []) == ["answer"]

    class OutOfTime(Future):
        def result(self, timeout=None):
            raise TimeoutError("the work's own")

        def done(self):
            return True

    with pytest.raises(TimeoutError, match="the work's own"):
        DaskEngine()._watched(None, OutOfTime(), [])


def test_shuffled_parts_are_trained_where_they_are(client, data, small_samples) -> None:
    X, y, _ = data
    model = DistributedGPRegressor(
        n_experts=5, kernel="rbf", training="full", random_state=0, engine=client
    ).fit(da.from_array(X, chunks=(120, 2)), da.from_array(y, chunks=120))
    # Half of the rows came here, and summaries of five blocks; all met the others of their group once.
    assert 250 * 24 <= model.travelled_["sample"]["fetched"] <= 250 * 24 + 5 * 1000
    assert model.travelled_["rows"]["exchanged"] == 500 * 24
    assert model.travelled_["rows"]["fetched"] <= 5_000
    home = model.to_local()
    parts = np.repeat(np.arange(5), home._experts.sizes)
    again = DistributedGPRegressor(
        kernel="rbf", training="full", random_state=0, partition=parts, standardize=False
    ).fit(home._experts.X, home._experts.y[:, 0])
    # The start is that of a sample's spread, so that the optimum is the same up to the tolerance.
    assert again.log_marginal_likelihood_value_ == pytest.approx(
        model.log_marginal_likelihood_value_, rel=1e-3
    )


WAVES = 60
"""In twice as many rows of a sample: too thin to see them."""


@pytest.fixture
def fine_structure(monkeypatch) -> tuple[da.Array, da.Array]:
    for name in ("FIRST_BLOCKS", "CHOICE_BLOCKS", "FINAL_BLOCKS", "NOISE_BLOCKS"):
        monkeypatch.setattr(staged, name, (2, 50))
    monkeypatch.setattr(staged, "EXACT", 0)
    monkeypatch.setattr(fitting, "SAMPLE_ROWS", 2 * WAVES)
    monkeypatch.setattr(fitting, "WHOLE_ROWS", 100)
    monkeypatch.setattr(fitting, "GROUP_ROWS", 150)
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, size=3000)
    y = np.sin(2 * np.pi * WAVES * x) + 0.1 * rng.standard_normal(3000)
    return da.from_array(x[:, None], chunks=(500, 1)), da.from_array(y, chunks=500)


@pytest.mark.slow
def test_fine_structure_is_learned_whoever_holds_the_rows(client, fine_structure) -> None:
    X, y = fine_structure
    settings = {"kernel": "rbf", "n_experts": 40, "n_selected": 2, "random_state": 0}
    model = DistributedGPRegressor(**settings, engine=client).fit(X, y)
    x = np.linspace(0.01, 0.99, 400)[:, None]
    error = model.predict(x) - np.sin(2 * np.pi * WAVES * x[:, 0])
    assert np.sqrt(np.mean(error**2)) < 0.1
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        again = DistributedGPRegressor(**settings, engine=cluster.scheduler_address).fit(X, y)
        np.testing.assert_allclose(again.kernel_.theta, model.kernel_.theta, rtol=0, atol=1e-10)
        np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=0, atol=1e-10)


def test_nothing_is_drawn_where_nothing_is_trained(client, fine_structure, monkeypatch) -> None:
    monkeypatch.setattr(Neighbourhoods, "__call__", None)
    model = fixed(kernel="rbf", n_selected=2, engine=client).fit(*fine_structure)
    assert len(model.trace_) == 1


@pytest.mark.parametrize("aggregation", ["npae", "grbcm"])
def test_a_model_is_saved_in_batches_and_as_it_would_be_at_home(
    client, data, small_samples, aggregation, tmp_path, monkeypatch
) -> None:
    X, y, X_new = data
    Y = da.from_array(np.stack([y, X[:, 0] - y], axis=1), chunks=(120, 2))
    model = fixed(engine=client, aggregation=aggregation).fit(da.from_array(X, chunks=(120, 2)), Y)
    model.predict(X_new)
    model.to_local().save(tmp_path / "home.gpx")
    batch = 1600  # bytes: a hundred rows of two inputs
    monkeypatch.setattr(groups, "SAVE_BYTES", batch)
    gathered = []
    compute = DaskEngine.compute
    monkeypatch.setattr(
        DaskEngine, "compute", lambda self, tasks: gathered.append(compute(self, tasks)) or gathered[-1]
    )
    size = model.save(tmp_path / "there.gpx")
    assert size == (tmp_path / "there.gpx").stat().st_size
    assert (tmp_path / "there.gpx").read_bytes() == (tmp_path / "home.gpx").read_bytes()
    n_bytes = [sum(piece.nbytes for piece in pieces) for pieces in gathered]
    assert max(n_bytes) <= batch
    assert sum(n_bytes) == 8 * model._experts.sizes.sum() * 4
    loaded = gpexperts.load(tmp_path / "there.gpx")
    np.testing.assert_allclose(loaded.predict(X_new), model.predict(X_new), rtol=0, atol=1e-10)
    factors = model.save(tmp_path / "factors.gpx", include_factors=True)
    assert factors > size + 8 * (model._experts.sizes**2).sum()


@pytest.mark.slow
def test_an_empty_block_and_the_same_seed(client, data, small_samples) -> None:
    X, y, X_new = data
    blocks = [X[:0], X[:200], X[200:200], X[200:]]
    dX = da.concatenate([da.from_array(b, chunks=(max(1, len(b)), 2)) for b in blocks])
    dX = da.concatenate([da.from_array(X[:0], chunks=(1, 2)), dX])
    dy = da.from_array(y, chunks=100)
    models = [fixed(engine=client).fit(dX, dy) for _ in range(2)]
    np.testing.assert_array_equal(models[0].predict(X_new), models[1].predict(X_new))


def test_bad_blocks_are_named(client, data, small_samples) -> None:
    X, y, _ = data
    spoilt = X.copy()
    spoilt[300, 0] = np.nan
    with pytest.raises(ValueError, match=r"X \(block 2\) contains NaN"):
        fixed(engine=client).fit(da.from_array(spoilt, chunks=(120, 2)), da.from_array(y, chunks=120))
    with pytest.raises(ValueError, match="X has 500 rows and y has 499"):
        fixed(engine=client).fit(da.from_array(X, chunks=(120, 2)), y[:-1])
    frame = frame_of(X, y)
    model = fixed(engine=client).fit(frame[["a", "b"]], frame["y"])
    with pytest.raises(ValueError, match=r"columns of X are \['b', 'a'\]"):
        model.predict(frame[["b", "a"]])
    with pytest.raises(ValueError, match="partition holds labels"):
        fixed(engine=client, n_experts="auto", partition=np.zeros(500, int)).fit(
            frame[["a", "b"]], frame["y"]
        )


# ----------------------------------------------------------------------- rows that stay where they are


def test_rows_that_may_not_travel_stay_where_they_were_loaded(client, data) -> None:
    X, y, X_new = data
    dX, dy = da.from_array(X, chunks=(125, 2)), da.from_array(y, chunks=125)
    for aggregation in ("poe", "gpoe", "bcm", "rbcm"):
        settings = {"aggregation": aggregation, "selection": "knn", "n_selected": 2, "n_experts": 4}
        there = fixed(**settings, share_inputs=False, engine=client).fit(dX, dy)
        # One expert per block: the model of these rows and these labels.
        here = fixed(**settings | {"n_experts": "auto"}, partition=np.arange(500) // 125).fit(X, y)
        assert_same(there, here, X_new)
    holders = client.who_has(futures_of(there._experts.groups))
    assert all(len(places) == 1 for places in holders.values())
    assert not hasattr(there, "labels_")
    with pytest.raises(ClusterError, match="may not leave their workers"):
        there.to_local()
    with pytest.raises(Exception, match="may not leave the worker that loaded them"):
        DaskEngine().compute(there._experts.groups)
    with pytest.raises(ValueError, match="covariance of two experts needs the inputs of both"):
        there.set_params(aggregation="npae").predict(X_new)
    # Nor does a setting of today undo what was promised where they were loaded.
    there.set_params(share_inputs=True)
    with pytest.raises(RefitRequiredError, match="whether rows may leave their workers is decided"):
        there.predict(X_new)
    with pytest.raises(ClusterError, match="none can be held out or shown"):
        there._experts.take(np.array([0]))
    with pytest.raises(ClusterError, match="none can be held out or shown"):
        there._experts.gather(
            X_new, np.tile([0, 1], (len(X_new), 1)), covariance=True, communication=False, prune=0.0
        )
    with pytest.raises(RefitRequiredError, match="fitted with True"):
        fixed().fit(X, y).set_params(share_inputs=False, aggregation="rbcm").predict(X_new)


@pytest.mark.parametrize("training", ["auto", "full"])
def test_rows_that_stay_are_trained_by_summed_gradients(client, data, training) -> None:
    X, y, X_new = data
    frame = frame_of(X, y)
    model = DistributedGPRegressor(
        n_experts=6, training=training, kernel="rbf", aggregation="rbcm", share_inputs=False,
        random_state=0, engine=client,
    ).fit(frame[["a", "b"]], frame["y"])  # fmt: skip
    mean = model.predict(frame_of(X_new)).compute()
    truth = np.sin(2 * X_new[:, 0]) + X_new[:, 1]
    assert model.n_experts_ == 6
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.25


def test_training_on_rows_that_stay_is_heard_and_can_start_anew(client, data, capsys, monkeypatch) -> None:
    X, y, _ = data
    starts = []

    def climbed(*arguments, n_restarts, **named):
        starts.append(n_restarts)
        return maximise_likelihood(*arguments, n_restarts=n_restarts, **named)

    monkeypatch.setattr(private, "maximise_likelihood", climbed)
    settings = {"n_experts": 4, "kernel": "rbf", "aggregation": "rbcm", "share_inputs": False}
    model = DistributedGPRegressor(**settings, n_restarts=2, random_state=0, engine=client, verbose=1)
    model.fit(da.from_array(X, chunks=(125, 2)), da.from_array(y, chunks=125))
    said = capsys.readouterr()
    for stage in ("training", "cutting the data into parts"):
        assert stage in said.out + said.err
    assert starts[0] == 2


def test_a_checkpoint_of_other_targets_is_refused_where_rows_stay(client, data, tmp_path) -> None:
    X, y, _ = data
    settings = {"aggregation": "rbcm", "share_inputs": False, "checkpoint": tmp_path / "theta.json"}
    for targets in (y, y):  # the same again continues
        fixed(**settings, engine=client).fit(
            da.from_array(X, chunks=(125, 2)), da.from_array(targets, chunks=125)
        )
    with pytest.raises(ValueError, match="belongs to a fit of other data or settings"):
        fixed(**settings, engine=client).fit(
            da.from_array(X, chunks=(125, 2)), da.from_array(2 * y, chunks=125)
        )


def test_a_network_learns_from_rows_that_stay(client, data) -> None:
    X, y, X_new = data
    order = np.argsort(X[:, 0])  # blocks are slabs, and one expert each
    X, y = X[order], y[order]
    settings = {"aggregation": "rbcm", "selection": DNNSelector(max_iter=20), "n_selected": 2, "n_experts": 4}
    model = fixed(**settings, share_inputs=False, engine=client).fit(
        da.from_array(X, chunks=(125, 2)), da.from_array(y, chunks=125)
    )
    network = model._selector().classifier_
    Z, labels = model._x_scale.transform(X), np.arange(500) // 125
    pooled = trained_network(
        lambda function, argument: list(function(Z, labels, argument)), (2, 50, 4), "softmax",
        max_rows=100_000, max_iter=20, random_state=np.random.RandomState(model._selection_seed),
    )  # fmt: skip
    np.testing.assert_allclose(network.predict_proba(Z), pooled.predict_proba(Z), rtol=0, atol=1e-6)
    assert np.mean(model.select(X)[:, 0] == labels) > 0.9
    # For each step and block a loss and a gradient came home, and nothing that grows with the rows.
    moved = model.travelled_["selection"]
    assert moved["fetched"] <= moved["tasks"] * (8 * len(network.weights) + 500)
    truth = np.sin(2 * X_new[:, 0]) + X_new[:, 1]
    assert np.sqrt(np.mean((model.predict(X_new) - truth) ** 2)) < 0.25
    lazy = model.predict(da.from_array(X_new, chunks=(30, 2)))
    np.testing.assert_allclose(lazy.compute(), model.predict(X_new), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"aggregation": "npae"}, "needs the inputs of both in one place"),
        ({"aggregation": "grbcm"}, "communication set is given to every expert"),
        ({"aggregation": "rbcm", "selection": "ggm"}, "it learns from training rows"),
    ],
)
def test_what_needs_pooled_rows_is_refused_with_the_reason(client, data, settings, why) -> None:
    X, y, _ = data
    model = fixed(**settings, share_inputs=False, engine=client)
    with pytest.raises(ValueError, match=why):
        model.fit(da.from_array(X, chunks=(125, 2)), da.from_array(y, chunks=125))


def test_rows_of_this_process_cannot_be_kept_apart(client, data) -> None:
    X, y, _ = data
    with pytest.raises(ValueError, match="have been pooled already"):
        fixed(aggregation="rbcm", share_inputs=False, engine=client).fit(X, y)
    loaded = da.from_array(X, chunks=(125, 2)).persist()
    with pytest.raises(ValueError, match="has already been loaded"):
        fixed(aggregation="rbcm", share_inputs=False, engine=client).fit(loaded, y)


# ------------------------------------------------------------------------- clients as parameters


def test_a_client_as_engine_can_be_cloned_copied_and_pickled(client, data) -> None:
    X, y, X_new = data
    model = fixed(engine=client)
    for twin in (clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.engine.address == client.scheduler.address
    model.set_params(engine=None).set_params(engine=client)
    assert isinstance(clone(model).engine, DaskEngine)
    fitted = model.fit(X, y)
    home = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_allclose(home.predict(X_new), fitted.predict(X_new), rtol=0, atol=1e-10)


@pytest.mark.slow
def test_grid_search_over_a_client(client, data) -> None:
    X, y, _ = data
    search = GridSearchCV(fixed(engine=client), {"n_experts": [2, 3]}, cv=2).fit(X, y)
    assert search.best_params_["n_experts"] in (2, 3)


def test_an_address_finds_its_scheduler_and_a_wrong_one_is_named(client, data) -> None:
    X, y, X_new = data
    assert_same(fixed(engine=client.scheduler.address).fit(X, y), fixed().fit(X, y), X_new)
    with pytest.raises(ClusterError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:1 within 1 s"):
        fixed(engine=DaskEngine("tcp://127.0.0.1:1", patience=1.0)).fit(X, y)
    with pytest.raises(ValueError, match="'dask', a scheduler's address"):
        engine_for("spark")


def test_the_command_line_finds_a_scheduler(client, data, tmp_path) -> None:
    X, y, X_new = data
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_parquet(tmp_path / "rows.parquet")
    command = [sys.executable, "-c", "from gpexperts.cli import main; main()", "fit", "rows.parquet"]
    command += ["-t", "y", "-o", "there.gpx", "--optimizer", "none", "--kernel", "rbf", "--n-experts", "3"]
    command += ["--engine", "dask", "--scheduler", client.scheduler.address]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=LIMIT)
    settings = {"optimizer": None, "kernel": "rbf", "n_experts": 3, "random_state": 0}
    here = DistributedGPRegressor(**settings).fit(X, y)
    there = gpexperts.load(tmp_path / "there.gpx")
    np.testing.assert_allclose(
        there.predict(pd.DataFrame(X_new, columns=["a", "b"])), here.predict(X_new), rtol=0, atol=1e-10
    )


def test_batches_are_even_and_come_back_in_order() -> None:
    costs = np.random.default_rng(0).uniform(1, 10, size=50).tolist()
    batches = balanced_batches(costs, 4)
    loads = [sum(costs[i] for i in batch) for batch in batches]
    assert max(loads) - min(loads) < 10
    assert in_order(batches, batches) == list(range(50))
    assert balanced_batches([1.0], 4) == [[0]]


def test_workers_use_one_blas_thread(client) -> None:
    counts = DaskEngine().map(blas_threads_now, range(6))
    assert set(counts) <= {0, 1}


def blas_threads_now(_: int) -> int:
    from threadpoolctl import ThreadpoolController

    pools = [lib for lib in ThreadpoolController().info() if lib["user_api"] == "blas"]
    return max((lib["num_threads"] for lib in pools), default=0)


# --------------------------------------------------------------------------------------- faults


class SlowRBF(RBF):
    """Takes its time, so that a worker can be killed at work."""

    def __call__(self, X, Y=None, eval_gradient=False):
        time.sleep(0.05)
        return super().__call__(X, Y, eval_gradient)


class DeadlyRBF(RBF):
    """Ends the worker that evaluates it at a row with a very large input."""

    def __call__(self, X, Y=None, eval_gradient=False):
        if multiprocessing.parent_process() is not None and np.max(X) > 50 and Y is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(X, Y, eval_gradient)


def kill_worker_at(client: distributed.Client, work: str) -> threading.Thread:
    """Send SIGKILL to the first worker that is seen at some work."""

    def watch() -> None:
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            for address, keys in client.processing().items():
                if any(work in str(key) for key in keys):
                    pid = client.run(os.getpid, workers=[address])[address]
                    os.kill(pid, signal.SIGKILL)
                    return
            time.sleep(0.01)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.fixture
def fragile() -> Iterator[distributed.Client]:
    """A cluster of its own, to be broken."""
    with dask.config.set({"distributed.scheduler.allowed-failures": 2}):  # noqa: SIM117
        with start_cluster(3) as cluster, distributed.Client(cluster, set_as_default=False) as client:
            yield client


def slow(kernel: type[RBF] = SlowRBF, **settings) -> DistributedGPRegressor:
    kernel = 1.0 * kernel([0.5, 0.8]) + WhiteKernel(0.02)
    return fixed(**({"kernel": kernel, "partition": "balanced", "selection": "all"} | settings))


@pytest.mark.parametrize(
    "work",
    [
        pytest.param("likelihood", marks=pytest.mark.slow),
        "answers of experts",
        pytest.param("covariances of", marks=pytest.mark.slow),
    ],
)
def test_a_killed_worker_changes_nothing(fragile, data, work) -> None:
    X, y, X_new = data
    settings = {"optimizer": "lbfgs", "training": "full"} if work == "likelihood" else {}
    here = slow(RBF, **settings).fit(X, y)
    killer = kill_worker_at(fragile, work)
    there = slow(engine=fragile, **settings).fit(X, y)
    mean = there.predict(X_new)
    killer.join(LIMIT)
    assert not killer.is_alive()
    np.testing.assert_allclose(mean, here.predict(X_new), rtol=0, atol=1e-6 if settings else 1e-10)


@pytest.fixture
def by_hand() -> Iterator[tuple[distributed.Client, list[subprocess.Popen]]]:
    """A scheduler and three workers started from the command line, whom nobody starts again."""
    with start_cluster(0) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
        command += ["--no-nanny", "--nthreads", "1", "--memory-limit", "500MB", "--no-dashboard"]
        workers = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(3)]
        try:
            client.wait_for_workers(3, timeout=LIMIT)
            yield client, workers
        finally:
            for worker in workers:
                worker.kill()
                worker.wait(LIMIT)


@pytest.mark.slow
def test_workers_that_leave_for_good_are_done_without(by_hand, data) -> None:
    client, workers = by_hand
    X, y, X_new = data
    there = fixed(engine=client).fit(X, y)
    before = there.predict(X_new)
    for worker in workers[:2]:
        worker.kill()
    np.testing.assert_allclose(there.predict(X_new), before, rtol=0, atol=1e-10)
    assert len(client.nthreads()) == 1


def test_frames_of_an_older_dask_are_collections() -> None:
    """Before 2025 they came from a package of their own, and were fetched like any table."""
    assert is_collection(type("DataFrame", (), {"__module__": "dask_expr._collection"})())
    assert not is_collection(pd.DataFrame())


def test_no_workers_at_all_is_an_error_within_the_limit(by_hand, data) -> None:
    client, workers = by_hand
    X, y, X_new = data
    there = fixed(engine=DaskEngine(client.scheduler.address, patience=3.0)).fit(X, y)
    for worker in workers:
        worker.kill()
    began = time.monotonic()
    with pytest.raises(ClusterError, match="no worker for 3 s while"):
        there.predict(X_new)
    assert time.monotonic() - began < 60


@pytest.mark.slow
def test_work_that_ends_its_worker_is_named_by_expert(fragile, data) -> None:
    X, y, X_new = data
    labels = np.arange(len(X)) % 7
    there = slow(DeadlyRBF, engine=fragile, n_experts="auto", partition=labels, standardize=False)
    there.fit(X, y)
    # A row that kills whoever factorises the matrix of its expert, put where expert 3 is.
    experts = there._experts
    home = experts.to_local(10**8)
    home.X[home.offsets[3]] = 60.0
    there._experts = experts.engine.place(home, there.travelled_, "auto")
    began = time.monotonic()
    with pytest.raises(ClusterError, match=r"'expert 3' ended 3 workers in a row"):
        there.predict(X_new)
    assert time.monotonic() - began < LIMIT

"""Saving and loading give the same predictions bit for bit; damaged and foreign files are refused."""

from __future__ import annotations

import io
import json
import pickle
import struct
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import distributed
import joblib
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process.kernels import (
    RBF,
    DotProduct,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.neural_network import MLPClassifier

import gpexperts
from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import AGGREGATORS
from gpexperts.exceptions import (
    CorruptModelError,
    ModelFileError,
    NewerFormatError,
    NotAModelFileError,
    UnsavableModelError,
)
from gpexperts.experts.dask import DaskExperts
from gpexperts.experts.local import LocalExperts
from gpexperts.io import container
from gpexperts.prepare import experts_view
from gpexperts.schema import TableColumn, TableSchema
from gpexperts.selection import SELECTORS, ClassifierSelector, GGMSelector, KNNSelector
from tests.problems import PLAIN

from .forging import with_checksum

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(160, 3))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.05 * RNG.standard_normal(160)
QUERIES = RNG.uniform(-3, 3, size=(40, 3))

CHOSEN = {"n_selected": "auto", "n_neighbors": "auto"}
SETTINGS = {
    "chosen": CHOSEN,
    **{f"selection {name}": {"selection": name} for name in SELECTORS},
    **{f"aggregation {name}": {"aggregation": name, "selection": "knn"} for name in AGGREGATORS},
    "trained": {"kernel": "auto", "optimizer": "lbfgs", **CHOSEN},
    "one expert": {"n_experts": 1, "n_selected": 1},
    "knn, hamming": {"selection": KNNSelector(metric="hamming")},
    "knn, an infinite power": {"selection": KNNSelector(metric="minkowski", p=np.inf)},
    "a classifier": {"selection": MLPClassifier(max_iter=30, random_state=0), "aggregation": "rbcm"},
    "ggm at given inputs": {"selection": GGMSelector(inputs=X[:50]), "aggregation": "gpoe"},
    "a kernel of sums": {"kernel": 1.0 * RationalQuadratic() + DotProduct() + WhiteKernel(0.1)},
    "a pairwise kernel": {
        "kernel": PairwiseKernel(metric="poly", pairwise_kernels_kwargs={"degree": 2}) + WhiteKernel(0.1),
    },
    "kernels with length scales": {"kernel": RBF([1.0, 2.0, 3.0]) + WhiteKernel(0.1)},
    "an isotropic kernel without noise": {"kernel": RBF(1.0)},
    "a fixed kernel": {"kernel": RBF(1.0, "fixed") + WhiteKernel(0.1, "fixed")},
    "given labels": {"n_experts": "auto", "partition": np.arange(160) % 3},
    "not standardised, a RandomState": {"standardize": False, "random_state": np.random.RandomState(3)},
    "scale": {"calibrate": "scale"},
    "own expert": {"n_neighbors": 16, "n_selected": 0},
    "own expert, chosen": {"n_neighbors": "auto", "n_selected": 0},
    "own expert beside others": {"n_neighbors": 16, "n_selected": 2},
    "own expert, conformal": {"n_neighbors": 16, "n_selected": 0, "calibrate": "conformal"},
    "conformal": {"calibrate": "conformal"},
    "kmeans, two threads": {"partition": "kmeans", "n_jobs": 2, "n_selected": 0.5},
}


def fitted(**settings: object) -> DistributedGPRegressor:
    """Nothing is trained and chosen, unless it is among the settings."""
    given = {"n_experts": 4, "random_state": 0, "kernel": "rbf", "optimizer": None}
    given |= {"n_selected": "auto" if settings.get("selection") == "all" else 2, "n_neighbors": 0}
    return DistributedGPRegressor(**(given | settings)).fit(X, Y)


@pytest.fixture(scope="module")
def model() -> DistributedGPRegressor:
    return fitted()


@pytest.fixture(scope="module")
def saved(model: DistributedGPRegressor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model.gpx"
    model.save(path)
    return path


def assert_same_predictions(a: DistributedGPRegressor, b: DistributedGPRegressor) -> None:
    for latent in (False, True):
        for of_a, of_b in zip(
            a.predict(QUERIES, return_std=True, latent=latent),
            b.predict(QUERIES, return_std=True, latent=latent),
            strict=True,
        ):
            np.testing.assert_array_equal(of_a, of_b)
    np.testing.assert_array_equal(a.predict(QUERIES[:1]), b.predict(QUERIES[:1]))
    np.testing.assert_array_equal(a.select(QUERIES), b.select(QUERIES))
    ours, theirs = a.explain(QUERIES), b.explain(QUERIES)
    np.testing.assert_array_equal(ours.weight, theirs.weight)
    assert (ours.own is None) == (theirs.own is None)
    if ours.own is not None:
        np.testing.assert_array_equal(ours.own.rows, theirs.own.rows)
        np.testing.assert_array_equal(ours.own.row_weight, theirs.own.row_weight)
    std = np.ones((9, a.model_.n_outputs)) * np.geomspace(1e-3, 1e3, 9)[:, None]
    np.testing.assert_array_equal(a.interval_width(0.8, std), b.interval_width(0.8, std))


# ------------------------------------------------------------------------------------ round trips


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.GpexpertsWarning")
@pytest.mark.parametrize("name", SETTINGS)
def test_predictions_are_the_same_bits(name: str, tmp_path: Path) -> None:
    model = fitted(**SETTINGS[name])
    size = model.save(tmp_path / "before.gpx")
    assert size == (tmp_path / "before.gpx").stat().st_size
    before = gpexperts.load(tmp_path / "before.gpx")
    assert_same_predictions(model, before)
    model.save(tmp_path / "after.gpx", include_factors=True)
    assert_same_predictions(model, gpexperts.load(tmp_path / "after.gpx"))
    assert vars(before).keys() == vars(model).keys()
    for parameter, value in model.get_params(deep=False).items():
        restored = getattr(before, parameter)
        if isinstance(value, np.random.RandomState):
            value, restored = value.get_state()[1], restored.get_state()[1]
        assert repr(restored) == repr(value), parameter
    assert_same_fitted_attributes(model, before)


def assert_same_fitted_attributes(a: DistributedGPRegressor, b: DistributedGPRegressor) -> None:
    assert repr(a.kernel_) == repr(b.kernel_)
    assert a.choices_ == b.choices_
    for mine, its in zip(a.trace_, b.trace_, strict=True):
        np.testing.assert_array_equal([*mine[:6], mine.stage], [*its[:6], its.stage])
        np.testing.assert_array_equal(mine.theta, its.theta)
    assert a.model_.seeds == b.model_.seeds
    assert a.predictor_.tuning == b.predictor_.tuning
    np.testing.assert_array_equal(a.labels_, b.labels_, strict=True)
    np.testing.assert_array_equal(a.model_.experts.numbers, b.model_.experts.numbers, strict=True)
    np.testing.assert_array_equal(a.centroids_, b.centroids_)
    for mine, its in zip(a.model_.held_out or (), b.model_.held_out or (), strict=True):
        np.testing.assert_array_equal(mine, its)


def test_the_table_of_the_training_rows(model: DistributedGPRegressor, tmp_path: Path) -> None:
    model = gpexperts.load(_saved(model, tmp_path))
    names = ["é", "😀", *"abcdefgh"][: model.n_features_in_]
    model.feature_names_in_ = np.array(names, dtype=object)
    columns = [TableColumn(name, "number", ",.", -2.0, 2.0) for name in names]
    model.table_ = TableSchema(["y"], columns, "t.csv", "0" * 64, 160, 3, -1.0, 1.5, {"n_experts": "4"})
    assert gpexperts.load(_saved(model, tmp_path)).table_ == model.table_


def _saved(model: DistributedGPRegressor, folder: Path, **options: bool) -> Path:
    model.save(folder / "model.gpx", **options)
    return folder / "model.gpx"


def test_several_outputs_and_names(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = DistributedGPRegressor(n_experts=3, random_state=0).fit(frame, np.column_stack([Y, -2 * Y]))
    model.save(tmp_path / "model.gpx")
    loaded = gpexperts.load(tmp_path / "model.gpx")
    np.testing.assert_array_equal(model.predict(frame), loaded.predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame.rename(columns={"a": "z"}))


def test_stored_factors_are_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(n_selected="auto")  # so that the file also holds the residuals of intervals
    small = model.save(tmp_path / "small.gpx")
    large = model.save(tmp_path / "large.gpx", include_factors=True)
    assert large - small > 8 * (model.model_.experts.sizes**2).sum()
    loaded = gpexperts.load(tmp_path / "large.gpx")
    monkeypatch.setattr("gpexperts.experts.local.factorise", None)
    assert_same_predictions(model, loaded)


def test_factors_are_stored_up_to_the_memory_budget(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).uniform(size=(800, 3))
    settings = {"kernel": "rbf", "optimizer": None, "training": "full", "n_selected": 2, "n_neighbors": 0}
    model = DistributedGPRegressor(n_experts=4, memory_budget="1MB", **settings, **PLAIN)
    model.fit(rows, np.sin(rows[:, 0]))
    small = model.save(tmp_path / "small.gpx")
    large = model.save(tmp_path / "large.gpx", include_factors=True)
    one = 8 * 200**2
    assert one < large - small < 2 * one  # half of the budget holds one factor
    assert_same_predictions(model, gpexperts.load(tmp_path / "large.gpx"))


# ---------------------------------------------------------------------------------- on a cluster


@pytest.fixture(scope="module")
def on_cluster() -> Iterator[DistributedGPRegressor]:
    with (
        distributed.LocalCluster(2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield fitted(engine=client, n_neighbors=16, n_selected=2)


def test_a_model_of_a_cluster_is_written_in_batches(
    on_cluster: DistributedGPRegressor, model: DistributedGPRegressor, tmp_path: Path
) -> None:
    experts = on_cluster.model_.experts
    assert not isinstance(experts, LocalExperts)
    for include_factors in (False, True):
        loaded = gpexperts.load(_saved(on_cluster, tmp_path, include_factors=include_factors))
        assert loaded.engine is None
        assert isinstance(loaded.model_.experts, LocalExperts)
        np.testing.assert_array_equal(loaded.model_.experts.X, model.model_.experts.X)
        np.testing.assert_array_equal(loaded.model_.experts.numbers, model.model_.experts.numbers)
        for ours, theirs in zip(
            on_cluster.predict(QUERIES, return_std=True),
            loaded.predict(QUERIES, return_std=True),
            strict=True,
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10)  # shards round distances differently
        np.testing.assert_array_equal(on_cluster.select(QUERIES), loaded.select(QUERIES))
        np.testing.assert_array_equal(on_cluster.explain(QUERIES).own.rows, loaded.explain(QUERIES).own.rows)


def test_rows_of_a_cluster_are_never_all_in_memory(
    on_cluster: DistributedGPRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = []

    def counted(self: DaskExperts, column: int, max_bytes: int) -> Iterator[np.ndarray]:
        for batch in row_batches(self, column, 1000):
            batches.append(batch.nbytes)
            yield batch

    row_batches = DaskExperts.row_batches
    monkeypatch.setattr(DaskExperts, "row_batches", counted)
    monkeypatch.setattr(DaskExperts, "to_local", None)
    path = _saved(on_cluster, tmp_path)
    assert max(batches) <= 1000
    assert sum(batches) == 160 * (3 + 1 + 1) * 8
    monkeypatch.undo()
    assert path.read_bytes() == _saved(on_cluster, tmp_path).read_bytes()


def test_a_selector_of_a_sample_of_the_rows_is_stored(model: DistributedGPRegressor, tmp_path: Path) -> None:
    """As a cluster gives it: other rows would select other experts."""
    model = gpexperts.load(_saved(model, tmp_path))
    predictor = model.predictor_
    view = experts_view(predictor.model, predictor.settings)
    rows = np.arange(0, 160, 7)
    predictor.selector.fit(replace(view, X=view.X[rows], labels=view.labels[rows]))
    vars(predictor.selector).pop("boxes_", None)
    for _ in range(2):
        loaded = gpexperts.load(_saved(model, tmp_path))
        np.testing.assert_array_equal(loaded.predictor_.selector.rows_, view.X[rows])
        assert_same_predictions(model, loaded)
        model = loaded


# ---------------------------------------------------------------------------------- other properties


def test_the_same_model_gives_the_same_file(saved: Path, tmp_path: Path) -> None:
    loaded = gpexperts.load(saved)
    loaded.save(tmp_path / "again.gpx")
    assert (tmp_path / "again.gpx").read_bytes() == saved.read_bytes()


def test_a_loaded_model_can_be_changed_and_fitted_again(saved: Path) -> None:
    loaded = gpexperts.load(saved)
    loaded.set_params(aggregation="rbcm", n_selected=2)
    assert loaded.select(QUERIES).shape == (40, 2)
    loaded.fit(X, Y)
    assert_same_predictions(loaded, fitted(aggregation="rbcm", n_selected=2))


@pytest.mark.parametrize("way", ["pickle", "joblib", "skops"])
def test_the_other_ways_of_saving_keep_working(way: str, model: DistributedGPRegressor) -> None:
    buffer = io.BytesIO()
    if way == "pickle":
        loaded = pickle.loads(pickle.dumps(model))
    elif way == "joblib":
        joblib.dump(model, buffer)
        buffer.seek(0)
        loaded = joblib.load(buffer)
    else:
        sio = pytest.importorskip("skops.io")
        data = sio.dumps(model)
        loaded = sio.loads(data, trusted=sio.get_untrusted_types(data=data))
    assert_same_predictions(model, loaded)


# ------------------------------------------------------------------------------- refused by save


class UsersKernel(RBF):
    pass


class UsersModel(DistributedGPRegressor):
    pass


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        (
            {"selection": RandomForestClassifier(5)},
            r"`selection` is a sklearn.ensemble\S*RandomForestClassifier",
        ),
        (
            {"selection": ClassifierSelector(RandomForestClassifier(5))},
            r"`selection\.estimator` is a sklearn",
        ),
        (
            {"kernel": UsersKernel(1.0) + WhiteKernel(0.1)},
            r"`kernel\.k1` is a .*UsersKernel",
        ),
    ],
)
def test_a_class_of_the_user_is_refused_by_name(
    settings: dict[str, object], part: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsavableModelError, match=part + r".*skops\.io\.dump"):
        fitted(**settings).save(tmp_path / "model.gpx")
    assert list(tmp_path.iterdir()) == []


def test_a_subclass_and_an_unfitted_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsavableModelError, match="UsersModel"):
        UsersModel(n_experts=2).fit(X, Y).save(tmp_path / "model.gpx")
    with pytest.raises(ValueError, match="not fitted"):
        DistributedGPRegressor().save(tmp_path / "model.gpx")


def test_a_failed_save_leaves_the_former_file(
    model: DistributedGPRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.gpx"
    path.write_text("precious")

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        model.save(path)
    assert path.read_text() == "precious"
    assert [p.name for p in tmp_path.iterdir()] == ["model.gpx"]


def test_arrays_are_written_in_batches_and_none_may_be_missing(tmp_path: Path) -> None:
    rows = RNG.normal(size=(7, 3))
    flags = np.array([True, False])
    whole = {"a0": flags, "a1": rows, "a2": np.arange(5, dtype=np.int16)}
    batches = whole | {"a1": container.Streamed((7, 3), lambda: [rows[:2], rows[2:2], rows[2:]])}
    for name, arrays in (("whole", whole), ("batches", batches)):
        assert container.write(tmp_path / name, {}, arrays) == (tmp_path / name).stat().st_size
        _, read = container.read(tmp_path / name)
        for key, array in whole.items():
            np.testing.assert_array_equal(read[key], array, strict=True)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "batches").read_bytes()
    with pytest.raises(RuntimeError, match="has 168 bytes, but its batches have 144"):
        container.write(tmp_path / "short", {}, {"a": container.Streamed((7, 3), lambda: [rows[1:]])})
    assert not (tmp_path / "short").exists()


def test_a_folder_that_is_not_there(model: DistributedGPRegressor, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        model.save(tmp_path / "nowhere" / "model.gpx")
    with pytest.raises(IsADirectoryError, match="give the name of a file"):
        model.save(tmp_path)


# ------------------------------------------------------------------------------- refused by load


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_one_flipped_bit_is_refused(data: st.DataObject, saved: Path, tmp_path: Path) -> None:
    content = bytearray(saved.read_bytes())
    # Half of the examples in the header, which is a small part of the file.
    last = data.draw(st.sampled_from([len(content) - 1, 4000]))
    content[data.draw(st.integers(0, last))] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path / "flipped.gpx"
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        gpexperts.load(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_cut_short_or_grown_is_refused(data: st.DataObject, saved: Path, tmp_path: Path) -> None:
    content = saved.read_bytes()
    path = tmp_path / "cut.gpx"
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(ModelFileError):
        gpexperts.load(path)
    path.write_bytes(content + data.draw(st.binary(min_size=1, max_size=9)))
    with pytest.raises(CorruptModelError, match="cut short or altered"):
        gpexperts.load(path)


def test_a_newer_format_is_refused(
    model: DistributedGPRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(container, "FORMAT", 4)
        model.save(tmp_path / "new.gpx")
    with pytest.raises(NewerFormatError, match=r"in format 4; this version reads up to format 3\. Upgrade"):
        gpexperts.load(tmp_path / "new.gpx")


@pytest.mark.parametrize("content", [b"", b"x", b"a,b\n1,2\n", pickle.dumps([1] * 100), b"\0" * 1000])
def test_something_else_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "else").write_bytes(content)
    with pytest.raises(NotAModelFileError, match="is not a gpexperts model"):
        gpexperts.load(tmp_path / "else")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        gpexperts.load(tmp_path / "none.gpx")


def _tree(saved: Path) -> tuple[dict, dict]:
    header, arrays = container.read(saved)
    del header["format"]
    return header, arrays


@pytest.mark.parametrize(
    "forged",
    [
        {"is": "os.system", "params": {"command": "true"}},
        {"is": "eval", "params": {"source": "1"}},
        {"is": "Popen", "params": {"args": "true"}},
        {"is": "RBF", "params": {"__class__": "x"}},
        {"is": "MLPClassifier", "params": {}},
        {"is": "array", "name": "none", "fortran": False},
        {"is": "python", "code": "import os"},
        {"is": ["a"]},
        {"is": "tuple"},
        {"is": "RandomState", "state": ["MT19937", 3]},
        3,
    ],
)
def test_a_file_can_only_name_known_classes(forged: object, saved: Path, tmp_path: Path) -> None:
    header, arrays = _tree(saved)
    header["model"]["kernel"] = forged
    container.write(tmp_path / "forged.gpx", header, arrays)
    with pytest.raises(CorruptModelError, match="does not describe a model"):
        gpexperts.load(tmp_path / "forged.gpx")


def _claims(claim: str) -> bytes:
    """Small files with large claims, their checksums right."""
    meta, data = json.dumps({"format": 3, "model": {}}), b""
    if claim == "deep":
        meta = '{"format": 3, "model": ' + "[" * 50_000 + "]" * 50_000 + "}"
    if claim == "digits":
        meta = '{"format": 3, "model": ' + "9" * 100_000 + "}"
    header = {"__metadata__": {"gpexperts": "0" * 64 + " " + meta}}
    if claim == "array":
        header["a0"] = {"dtype": "F64", "shape": [10**10 // 8], "data_offsets": [0, 10**10]}
    if claim == "overlap":
        data = b"\0" * 16
        header |= {f"a{i}": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]} for i in range(50)}
    text = json.dumps(header, separators=(",", ":")).encode()
    length = 10**10 if claim == "header" else len(text)
    return with_checksum(struct.pack("<Q", length) + text + data)


@pytest.mark.parametrize("claim", ["header", "array", "overlap", "deep", "digits"])
def test_large_claims_of_a_small_file_cost_nothing(claim: str, tmp_path: Path) -> None:
    path = tmp_path / "claims.gpx"
    path.write_bytes(_claims(claim))
    tracemalloc.start()
    began = time.process_time()
    try:
        with pytest.raises(CorruptModelError):
            gpexperts.load(path)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 2

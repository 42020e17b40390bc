"""Saving and loading: the same predictions bit for bit, and no way for a file to do harm."""

from __future__ import annotations

import io
import json
import pickle
import struct
import time
import tracemalloc
from pathlib import Path

import joblib
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process.kernels import RBF, DotProduct, RationalQuadratic, WhiteKernel
from sklearn.neural_network import MLPClassifier

import gpexperts
from gpexperts import DistributedGPRegressor
from gpexperts.exceptions import (
    CorruptModelError,
    ModelFileError,
    NewerFormatError,
    NotAModelFileError,
    UnsavableModelError,
)
from gpexperts.io import container
from gpexperts.selection import ClassifierSelector, GGMSelector, KNNSelector

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(160, 3))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.05 * RNG.standard_normal(160)
QUERIES = RNG.uniform(-3, 3, size=(40, 3))

SETTINGS = {
    "defaults": {},
    "one expert": {"n_experts": 1},
    "knn, hamming": {"selection": KNNSelector(metric="hamming")},
    "dnn": {"selection": "dnn", "aggregation": "rbcm"},
    "a classifier": {"selection": MLPClassifier(max_iter=30, random_state=0), "aggregation": "rbcm"},
    "ggm": {"selection": GGMSelector(inputs=X[:50]), "aggregation": "gpoe"},
    "all, grbcm": {"selection": "all", "aggregation": "grbcm"},
    "a kernel of sums": {"kernel": 1.0 * RationalQuadratic() + DotProduct() + WhiteKernel(0.1)},
    "an isotropic kernel without noise": {"kernel": RBF(1.0), "optimizer": None},
    "given labels": {"n_experts": "auto", "partition": np.arange(160) % 3},
    "not standardised, a RandomState": {"standardize": False, "random_state": np.random.RandomState(3)},
    "calibrated": {"calibrate": "scale"},
    "kmeans, two threads": {"partition": "kmeans", "n_jobs": 2, "n_selected": 0.5},
}


def fitted(**settings: object) -> DistributedGPRegressor:
    return DistributedGPRegressor(**{"n_experts": 4, "random_state": 0, **settings}).fit(X, Y)


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
    np.testing.assert_array_equal(a.explain(QUERIES).weight, b.explain(QUERIES).weight)


# ------------------------------------------------------------------------------------- the way back


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", SETTINGS)
def test_predictions_are_the_same_bits(name: str, tmp_path: Path) -> None:
    model = fitted(**SETTINGS[name])
    size = model.save(tmp_path / "before.gpx")
    assert size == (tmp_path / "before.gpx").stat().st_size
    before = gpexperts.load(tmp_path / "before.gpx")
    assert_same_predictions(model, before)
    model.save(tmp_path / "after.gpx", include_factors=True)
    assert_same_predictions(model, gpexperts.load(tmp_path / "after.gpx"))
    assert vars(before).keys() == vars(model).keys()  # no fitted attribute is lost
    assert repr(before.kernel_) == repr(model.kernel_)


def test_a_factor_does_not_depend_on_the_batch_that_asked_for_it_first(model: DistributedGPRegressor) -> None:
    """One query asks one expert with all BLAS threads, many queries ask many with one thread each."""
    one = fitted(n_selected=1)
    many = fitted(n_selected=1)
    for query in QUERIES:
        one.predict(query[None], return_std=True)
    many.predict(QUERIES, return_std=True)
    for a, b in zip(
        one.predict(QUERIES, return_std=True), many.predict(QUERIES, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_several_outputs_and_names(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = DistributedGPRegressor(n_experts=3, random_state=0).fit(frame, np.column_stack([Y, -2 * Y]))
    model.save(tmp_path / "model.gpx")
    loaded = gpexperts.load(tmp_path / "model.gpx")
    np.testing.assert_array_equal(model.predict(frame), loaded.predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame.rename(columns={"a": "z"}))


def test_factors_are_there_at_once(model: DistributedGPRegressor, tmp_path: Path) -> None:
    small = model.save(tmp_path / "small.gpx")
    large = model.save(tmp_path / "large.gpx", include_factors=True)
    assert large - small > 8 * (model._experts.sizes**2).sum() * 0.9
    loaded = gpexperts.load(tmp_path / "large.gpx")
    assert sorted(loaded._experts._kept) == [0, 1, 2, 3]
    assert loaded._experts._kept[0].inverse.lower.flags.f_contiguous


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


# -------------------------------------------------------------------------------- what save refuses


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
            {"kernel": UsersKernel(1.0) + WhiteKernel(0.1), "optimizer": None},
            r"`kernel\.k1` is a .*UsersKernel",
        ),
    ],
)
def test_a_part_of_the_users_own_is_refused_by_name(
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


def test_a_failed_save_leaves_what_was_there(
    model: DistributedGPRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.gpx"
    path.write_text("precious")

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(container.os, "fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        model.save(path)
    assert path.read_text() == "precious"
    assert [p.name for p in tmp_path.iterdir()] == ["model.gpx"]


def test_arrays_come_in_pieces_and_none_may_be_missing(tmp_path: Path) -> None:
    rows = RNG.normal(size=(7, 3))
    flags = np.array([True, False])
    whole = {"a0": flags, "a1": rows, "a2": np.arange(5, dtype=np.int16)}
    pieces = whole | {"a1": container.Streamed((7, 3), lambda: [rows[:2], rows[2:2], rows[2:]])}
    for name, arrays in (("whole", whole), ("pieces", pieces)):
        assert container.write(tmp_path / name, {}, arrays) == (tmp_path / name).stat().st_size
        _, read = container.read(tmp_path / name)
        for key, array in whole.items():
            np.testing.assert_array_equal(read[key], array, strict=True)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "pieces").read_bytes()
    with pytest.raises(RuntimeError, match="has 168 bytes, but 144 bytes came"):
        container.write(tmp_path / "short", {}, {"a": container.Streamed((7, 3), lambda: [rows[1:]])})
    assert not (tmp_path / "short").exists()


def test_a_folder_that_is_not_there(model: DistributedGPRegressor, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist; make it first"):
        model.save(tmp_path / "nowhere" / "model.gpx")
    with pytest.raises(IsADirectoryError, match="give the name of a file"):
        model.save(tmp_path)


# -------------------------------------------------------------------------------- what load refuses


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
        patch.setattr(container, "FORMAT", 2)
        model.save(tmp_path / "new.gpx")
    with pytest.raises(NewerFormatError, match=r"in format 2; this version reads up to format 1\. Upgrade"):
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
    "poison",
    [
        {"is": "object", "class": "os.system", "state": {}},
        {"is": "kernel", "class": "builtins.eval", "params": {"source": "1"}},
        {"is": "record", "class": "Popen", "fields": {"args": "true"}},
        {"is": "sklearn", "class": "MLPClassifier", "params": {}, "fitted": {"__class__": "x"}},
        {"is": "record", "class": "Standardizer", "fields": {"shift": 1}},
        {"is": "array", "name": "none", "fortran": False},
        {"is": "number", "dtype": "object", "value": "1"},
        {"is": "strings", "shape": [10**12], "items": ["a"], "object": True},
        {"is": "python", "code": "import os"},
        {"is": ["a"]},
        {"is": "tuple"},
        {"is": "covariance", "kernel": 3},
        {"is": "random", "state": ["MT19937", 3]},
    ],
)
def test_a_file_cannot_name_what_is_not_on_the_list(poison: object, saved: Path, tmp_path: Path) -> None:
    header, arrays = _tree(saved)
    header["model"]["kernel_"] = poison
    container.write(tmp_path / "poisoned.gpx", header, arrays)
    with pytest.raises(CorruptModelError, match="does not describe a model"):
        gpexperts.load(tmp_path / "poisoned.gpx")


def test_a_file_cannot_choose_where_work_is_sent(saved: Path, tmp_path: Path) -> None:
    header, arrays = _tree(saved)
    header["model"]["engine"] = "tcp://evil.example:8786"
    container.write(tmp_path / "model.gpx", header, arrays)
    assert gpexperts.load(tmp_path / "model.gpx").engine is None


@pytest.mark.parametrize("name", ["_centroids", "_x_scale", "n_experts_", "n_features_in_", "_experts"])
def test_parts_that_contradict_each_other_are_refused(name: str, saved: Path, tmp_path: Path) -> None:
    header, arrays = _tree(saved)
    other = {
        "_experts": None,
        "_x_scale": header["model"]["_y_scale"],
        "_centroids": header["model"]["labels_"],
    }
    header["model"][name] = other.get(name, 17)
    container.write(tmp_path / "model.gpx", header, arrays)
    with pytest.raises(CorruptModelError, match="does not describe a model"):
        gpexperts.load(tmp_path / "model.gpx")


def _claims(claim: str) -> bytes:
    """Small files with large claims, their checksums right."""
    meta = json.dumps({"format": 1, "model": {}})
    if claim == "deep":
        meta = '{"format": 1, "model": ' + "[" * 50_000 + "]" * 50_000 + "}"
    if claim == "digits":
        meta = '{"format": 1, "model": ' + "9" * 100_000 + "}"
    header = {"__metadata__": {"gpexperts": "0" * 64 + " " + meta}}
    if claim == "array":
        header["a0"] = {"dtype": "F64", "shape": [10**10 // 8], "data_offsets": [0, 10**10]}
    if claim == "overlap":
        header |= {f"a{i}": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]} for i in range(50)}
    text = json.dumps(header, separators=(",", ":")).encode()
    length = 10**10 if claim == "header" else len(text)
    content = struct.pack("<Q", length) + text + b"\0" * 16
    file = io.BytesIO(content)
    digest = container._digest(file).encode()
    at = container._CHECKSUM_AT
    return content[:at] + digest + content[at + 64 :]


@pytest.mark.parametrize("claim", ["header", "array", "overlap", "deep", "digits"])
def test_large_claims_of_a_small_file_cost_nothing(claim: str, tmp_path: Path) -> None:
    path = tmp_path / "claims.gpx"
    path.write_bytes(_claims(claim))
    tracemalloc.start()
    began = time.perf_counter()
    try:
        with pytest.raises(CorruptModelError):
            gpexperts.load(path)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - began < 2

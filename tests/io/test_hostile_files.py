"""No file makes `load` crash, wait, run code or eat memory: it ends in the named error, or it predicts."""

from __future__ import annotations

import builtins
import json
import os
import pickle
import struct
import subprocess
import sys
import warnings
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import DotProduct, RationalQuadratic, WhiteKernel

import gpexperts
from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import NPAE
from gpexperts.exceptions import (
    CorruptModelError,
    ModelFileError,
    NotPositiveDefiniteError,
    RefitRequiredError,
)
from gpexperts.io import container
from gpexperts.io.checking import FITTED, SETTINGS
from gpexperts.selection import GGMSelector, KNNSelector, NearestRowsSelector
from gpexperts.tables.schema import Column, TableSchema

from .forging import Parts, forged, put_together, raw_file, taken_apart, with_checksum

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(60, 3))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.05 * RNG.standard_normal(60)

MODELS = {
    "knn, with factors": {"selection": KNNSelector(metric="kernel")},
    "dnn, rbcm": {"selection": "dnn", "aggregation": "rbcm", "n_selected": 2},
    "ggm": {"selection": GGMSelector(inputs=X[:20]), "aggregation": "gpoe"},
    "all, grbcm": {"selection": "all", "aggregation": "grbcm", "random_state": np.random.RandomState(3)},
    "hamming, a kernel of sums": {
        "selection": KNNSelector(metric="hamming"),
        "aggregation": NPAE(nugget=1e-6, widen=4.0),
        "kernel": 1.0 * RationalQuadratic() + DotProduct() + WhiteKernel(0.1),
        "optimizer": None,
    },
    "nearest rows": {"selection": NearestRowsSelector(n_candidates=2)},
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("originals")
    paths = {}
    for i, (name, given_settings) in enumerate(MODELS.items()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = DistributedGPRegressor(**{"n_experts": 3, "random_state": 0, **given_settings}).fit(X, Y)
        model.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
        columns = [Column(n, "number", -2.0, 2.0) for n in "abc"]
        model.table_ = TableSchema("y", columns, "t.csv", "0" * 64, 60, 0, -2.0, 2.0, {"n_experts": 3})
        paths[name] = folder / f"{i}.gpx"
        model.save(paths[name], include_factors="factors" in name)
    return paths


class Apart(list[Parts]):
    """Models taken apart; Hypothesis shows what a test was given, and these are long."""

    def __repr__(self) -> str:
        return f"{len(self)} models"


@pytest.fixture(scope="module")
def parts(originals: dict[str, Path]) -> list[Parts]:
    return Apart(taken_apart(path) for path in originals.values())


def survived(path: Path) -> bool:
    """Load a file: False for the named error; a model that loads must predict."""
    try:
        model = gpexperts.load(path)
    except ModelFileError:
        return False
    queries = np.random.default_rng(1).normal(size=(4, model.n_features_in_))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numbers that overflow
        model.__dict__.pop("feature_names_in_", None)
        try:
            mean, std = model.predict(queries, return_std=True)
        except (NotPositiveDefiniteError, RefitRequiredError):
            return True  # a kernel that is none everywhere, a rule for other experts: said by name
        assert mean.shape == std.shape
        assert len(mean) == 4
        index = model.select(queries)
        assert index.min() >= -1
        assert index.max() < model.n_experts_
    return True


# -------------------------------------------------------------------------------------- the fuzzers

_QUICK = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}


def assert_forgeries_do_no_harm(seed: int, parts: list[Parts], folder: Path) -> None:
    path = folder / "forged.gpx"
    path.write_bytes(forged(parts, seed))
    survived(path)


def assert_changed_bytes_do_no_harm(data: st.DataObject, originals: dict[str, Path], folder: Path) -> None:
    """Flip, cut, insert; half of the time with a checksum that is right afterwards."""
    content = bytearray(data.draw(st.sampled_from(sorted(originals.values()))).read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        # Mostly in the headers, which are a small part of the file.
        position = data.draw(st.integers(0, data.draw(st.sampled_from([8, 200, 6000, len(content) - 1]))))
        position = min(position, len(content) - 1)
        how = data.draw(st.sampled_from(["flip", "set", "cut", "insert", "end"]))
        if how == "flip":
            content[position] ^= 1 << data.draw(st.integers(0, 7))
        elif how == "set":
            content[position] = data.draw(st.sampled_from(b'\x00\xff09-"[]{},.eN'))
        elif how == "cut":
            del content[position : position + data.draw(st.integers(1, 30))]
        elif how == "insert":
            content[position:position] = data.draw(st.binary(min_size=1, max_size=9))
        else:
            del content[max(position, 120) :]
        if len(content) < 120:
            break
    path = folder / "bytes.gpx"
    signed = data.draw(st.booleans())
    path.write_bytes(with_checksum(bytes(content)) if signed else bytes(content))
    loaded = survived(path)
    assert signed or not loaded or bytes(content) in {p.read_bytes() for p in originals.values()}


@settings(max_examples=120, **_QUICK)
@given(seed=st.integers(0, 2**32 - 1))
def test_forged_contents(seed: int, parts: list[Parts], tmp_path: Path) -> None:
    assert_forgeries_do_no_harm(seed, parts, tmp_path)


@settings(max_examples=150, **_QUICK)
@given(data=st.data())
def test_changed_bytes(data: st.DataObject, originals: dict[str, Path], tmp_path: Path) -> None:
    assert_changed_bytes_do_no_harm(data, originals, tmp_path)


@pytest.mark.slow
@settings(max_examples=10_000, **_QUICK)
@given(seed=st.integers(0, 2**32 - 1))
def test_forged_contents_at_length(seed: int, parts: list[Parts], tmp_path: Path) -> None:
    assert_forgeries_do_no_harm(seed, parts, tmp_path)


@pytest.mark.slow
@settings(max_examples=10_000, **_QUICK)
@given(data=st.data())
def test_changed_bytes_at_length(data: st.DataObject, originals: dict[str, Path], tmp_path: Path) -> None:
    assert_changed_bytes_do_no_harm(data, originals, tmp_path)


# -------------------------------------------------------------------------------- what is expected


def assert_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bad.gpx"
    path.write_bytes(content)
    with pytest.raises(CorruptModelError, match=words):
        gpexperts.load(path)


@pytest.mark.parametrize("name", FITTED)
def test_an_attribute_that_is_missing_is_named(name: str, parts: list[Parts], tmp_path: Path) -> None:
    header, arrays = deepcopy(parts[0][0]), parts[0][1]
    del header["model"][name]
    assert_refused(tmp_path, put_together(header, arrays), f"does not describe a model: .*{name}")


def test_every_attribute_of_a_fitted_model_is_checked(originals: dict[str, Path]) -> None:
    for path in originals.values():
        checked = {*SETTINGS, *FITTED, "feature_names_in_", "labels_", "table_", "travelled_", "_lock"}
        assert vars(gpexperts.load(path)).keys() <= checked, "add what is new to persistence/checking.py"
    assert SETTINGS.keys() == DistributedGPRegressor().get_params().keys()


@pytest.mark.parametrize(
    "name", ["X", "y", "offsets", "covariance", "shared", "jitter", "first", "factor_budget"]
)
def test_experts_lacking_something(name: str, parts: list[Parts], tmp_path: Path) -> None:
    header, arrays = deepcopy(parts[0][0]), parts[0][1]
    del header["model"]["_experts"]["state"][name]
    assert_refused(tmp_path, put_together(header, arrays), f"does not describe a model: .*{name}")


def _state(header: dict, *path: object) -> dict:
    for key in path:
        header = header[key]
    return header


@pytest.mark.parametrize(
    ("which", "path", "value"),
    [
        (0, ("predict",), 3),
        (0, ("__class__",), "x"),
        (0, ("_aggregator",), None),
        (0, ("n_jobs",), 10**9),
        (0, ("n_jobs",), 0),
        (0, ("n_selected",), 17),
        (0, ("memory_budget",), "much"),
        (0, ("aggregation",), "no such rule"),
        (0, ("selection",), "no such selection"),
        (0, ("_y_ndim",), 3),
        (0, ("_selection_seed",), -1),
        (0, ("_selection_seed",), 10**20),
        (0, ("repairs_",), {"is": "dict", "items": [["queries_mended", "many"]]}),
        (0, ("share_inputs",), "no"),
        (0, ("_fitted_selector", "items", 1, "state", "select"), 1),
        (0, ("_fitted_selector", "items", 1, "state", "metric"), "precomputed"),
        (0, ("_fitted_selector", "items", 1, "state", "p"), 2000.0),
        (0, ("_learned_rule", "items", 1, "fields", "n_selected"), 4),
        (0, ("_learned_rule", "items", 1, "fields", "n_selected"), 0),
        (0, ("_learned_rule", "items", 1, "fields", "prune"), "all"),
        (0, ("_learned_rule", "items", 1, "fields", "scale"), 0.0),
        (0, ("_learned_rule", "items", 0), {"is": "array", "name": "a0", "fortran": False}),
        (0, ("_fitted_selector", "items", 0), {"is": "array", "name": "a0", "fortran": False}),
        (0, ("table_", "fields", "columns"), []),
        (1, ("_fitted_selector", "items", 1, "state", "classes_"), [0, 1, 2]),
        (1, ("_fitted_selector", "items", 1, "state", "classifier_", "params", "activation"), "eval"),
        (1, ("_fitted_selector", "items", 1, "state", "classifier_", "fitted", "n_layers_"), 10**9),
        (1, ("_fitted_selector", "items", 1, "state", "classifier_", "fitted", "out_activation_"), "none"),
        (2, ("selection", "state", "penalty"), -1.0),
        (3, ("_fitted_with_communication",), False),
        (4, ("aggregation", "state", "nugget"), "x"),
        (4, ("aggregation", "state", "widen"), -1),
        (3, ("_fitted_selector", "items", 1, "state", "n_experts_"), 10**9),
        (3, ("random_state", "state", "items", 2), 10**6),
        (3, ("random_state", "state", "items", 1), [1, 2]),
        (5, ("selection", "state", "n_candidates"), 0),
        (5, ("selection", "state", "n_candidates"), "many"),
    ],
)  # fmt: skip
def test_values_that_a_prediction_would_fall_over(
    which: int, path: tuple, value: object, parts: list[Parts], tmp_path: Path
) -> None:
    header, arrays = deepcopy(parts[which][0]), parts[which][1]
    *parent, key = path
    _state(header["model"], *parent)[key] = value
    assert_refused(tmp_path, put_together(header, arrays), "does not describe a model")


@pytest.mark.parametrize("starts", [[0, 20, 40], [0, 50, 40, 60], [0, 20, 40, 61], [1, 20, 40, 60]])
def test_rows_of_a_selector_that_belong_to_nobody(
    starts: list[int], parts: list[Parts], tmp_path: Path
) -> None:
    header, arrays = deepcopy(parts[0][0]), dict(parts[0][1])
    key, by_centroid = _state(header["model"], "_fitted_selector", "items")
    rows = _state(header["model"], "_experts", "state", "X")
    state = {"n_candidates": 2, "by_centroid_": by_centroid, "rows_": rows}
    for name, value in (("right", [0, 20, 40, 60]), ("forged", starts)):
        arrays["starts"] = np.array(value)
        state["starts_"] = {"is": "array", "name": "starts", "fortran": False}
        forged_selector = {**by_centroid, "class": "NearestRowsSelector", "state": state}
        header["model"]["_fitted_selector"] = {"is": "tuple", "items": [key, forged_selector]}
        if name == "right":
            path = tmp_path / "right.gpx"
            path.write_bytes(put_together(header, arrays))
            assert survived(path)
        else:
            assert_refused(
                tmp_path, put_together(header, arrays), "NearestRowsSelector does not fit 3 experts"
            )


def test_experts_further_away_than_the_tree_can_see(parts: list[Parts], tmp_path: Path) -> None:
    header, arrays = parts[0][0], dict(parts[0][1])
    name = _array_name(header, "_fitted_selector", "items", 1, "state", "places_")
    arrays[name] = arrays[name] * 1e300
    assert_refused(tmp_path, put_together(header, arrays), "the KNNSelector does not fit 3 experts")


def _array_name(header: dict, *path: object) -> str:
    return _state(header["model"], *path)["name"]


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "path",
    [
        ("_experts", "state", "X"),
        ("_experts", "state", "y"),
        ("_centroids",),
        ("_x_scale", "fields", "scale"),
        ("_fitted_selector", "items", 1, "state", "places_"),
        "factors",
    ],
    ids=str,
)
def test_numbers_that_are_none(value: float, path: tuple | str, parts: list[Parts], tmp_path: Path) -> None:
    header, arrays = parts[0][0], dict(parts[0][1])
    name = header["factors"][0]["items"][1]["name"] if path == "factors" else _array_name(header, *path)
    arrays[name] = arrays[name].copy()
    arrays[name].flat[-1] = value
    assert_refused(tmp_path, put_together(header, arrays), "does not describe a model")


@pytest.mark.parametrize("expert", [-1, 3, 10**9, "0", None])
def test_factors_of_nobody(expert: object, parts: list[Parts], tmp_path: Path) -> None:
    header, arrays = deepcopy(parts[0][0]), parts[0][1]
    header["factors"][0]["items"][0] = expert
    assert_refused(tmp_path, put_together(header, arrays), "there is no expert")


def test_a_file_cannot_choose_what_the_next_fit_overwrites(parts: list[Parts], tmp_path: Path) -> None:
    header, arrays = deepcopy(parts[0][0]), parts[0][1]
    header["model"]["checkpoint"] = str(tmp_path / "precious")
    path = tmp_path / "model.gpx"
    path.write_bytes(put_together(header, arrays))
    assert gpexperts.load(path).checkpoint is None


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_json_that_is_none(word: str, tmp_path: Path) -> None:
    assert_refused(tmp_path, raw_file(f'{{"format": 1, "model": {{"n_jobs": {word}}}}}'), "cannot be read")


@pytest.mark.parametrize("form", [None, "1", 1.5, [], -(10**400)])
def test_a_format_that_is_none(form: object, tmp_path: Path) -> None:
    assert_refused(tmp_path, raw_file(json.dumps({"format": form, "model": {}})), "damaged|does not describe")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gpx")
    with pytest.raises(ModelFileError, match="not even a file"):
        gpexperts.load(tmp_path / "pipe.gpx")


def test_what_could_not_be_loaded_is_not_saved(originals: dict[str, Path], tmp_path: Path) -> None:
    model = gpexperts.load(originals["knn, with factors"])
    model._experts.y[0] = np.nan
    with pytest.raises(
        gpexperts.exceptions.UnsavableModelError, match="could not be loaded again: y of the experts"
    ):
        model.save(tmp_path / "bad.gpx")
    assert not list(tmp_path.iterdir())


# ----------------------------------------------------------------------------------- code and costs


def test_loading_runs_and_imports_nothing(
    originals: dict[str, Path], parts: list[Parts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "bad.gpx"
    header = deepcopy(parts[0][0])
    header["model"]["kernel_"] = {"is": "kernel", "class": "os.system", "params": {"command": "true"}}
    bad.write_bytes(put_together(header, parts[0][1]))
    for path in originals.values():
        gpexperts.load(path)  # what is imported late is imported now

    class Nothing:
        def find_spec(self, name: str, *_: object) -> None:
            raise AssertionError(f"imports {name}")

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("runs code")

    with monkeypatch.context() as patch:
        patch.setattr(sys, "meta_path", [Nothing()])  # asked about every module that is not loaded yet
        for name in ("eval", "exec", "compile"):
            patch.setattr(builtins, name, forbidden)
        for name in ("loads", "load", "Unpickler"):
            patch.setattr(pickle, name, forbidden)
        for path in originals.values():
            gpexperts.load(path)
        with pytest.raises(CorruptModelError, match=r"os\.system"):
            gpexperts.load(bad)
        with pytest.raises(AssertionError, match="imports antigravity"):
            __import__("antigravity")


def _bombs() -> dict[str, bytes]:
    deep = '{"format": 1, "model": ' + "[" * 200_000 + "]" * 200_000 + "}"
    strings = {
        "is": "strings",
        "shape": [20_001],
        "items": ["a" * 1_000_000, *["b"] * 20_000],
        "object": False,
    }
    claims = {"a0": {"dtype": "F64", "shape": [10**10 // 8], "data_offsets": [0, 10**10]}}
    wraps = {"a0": {"dtype": "F64", "shape": [2**32, 2**32], "data_offsets": [0, 16]}}
    overlap = {f"a{i}": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]} for i in range(50)}
    empty = {f"a{i}": {"dtype": "F64", "shape": [0], "data_offsets": [16, 16]} for i in range(50_000)}
    plain = '{"format": 1, "model": {}}'
    good = raw_file(plain)
    return {
        "nested deeply": raw_file(deep),
        "lists": raw_file('{"format": 1, "model": [' + "[]," * 4_000_000 + "1]}"),
        "as many values as are allowed": raw_file(
            '{"format": 1, "model": {"x": [' + "[]," * 490_000 + "1]}}"
        ),
        "digits": raw_file('{"format": 1, "model": ' + "9" * 1_000_000 + "}"),
        "a string": raw_file(json.dumps({"format": 1, "model": "x" * 20_000_000})),
        "strings of unequal length": raw_file(json.dumps({"format": 1, "model": {"kernel": strings}})),
        "10 GB in an array": raw_file(plain, claims),
        "a size that wraps around": raw_file(plain, wraps),
        "arrays one over the other": raw_file(plain, overlap),
        "arrays of nothing": raw_file(plain, empty),
        "10 GB in the header": struct.pack("<Q", 10**10) + good[8:],
        "2^64 - 1 in the header": struct.pack("<Q", 2**64 - 1) + good[8:],
    }


_MEASURE = """
import resource, sys, time
import gpexperts
from gpexperts.exceptions import ModelFileError
good, *bad = sys.argv[1:]
gpexperts.load(good)
for path in bad:
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        gpexperts.load(path)
        end = "loaded"
    except ModelFileError:
        end = "refused"
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(end, after - before, time.process_time() - began, path)
"""


def test_bombs_cost_little(originals: dict[str, Path], tmp_path: Path) -> None:
    """Each in under a second, all together in less than 200 MB more than the import and one good model."""
    names = []
    for i, (_, content) in enumerate(_bombs().items()):
        names.append(tmp_path / f"{i}.gpx")
        names[-1].write_bytes(content)
    good = originals["knn, with factors"]
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, good, *names], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) == len(names)
    assert {row[0] for row in rows} == {"refused"}, done.stdout
    assert sum(int(row[1]) for row in rows) < 200_000, done.stdout  # kB
    assert max(float(row[2]) for row in rows) < 1.0, done.stdout


def test_a_header_may_not_be_longer_than_is_allowed(tmp_path: Path) -> None:
    assert_refused(
        tmp_path, raw_file(json.dumps({"format": 1, "model": "x" * container._MAX_HEADER})), "claims"
    )

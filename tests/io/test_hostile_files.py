"""No file makes `load` crash, hang, run code or take much memory: it raises an error, or it predicts."""

from __future__ import annotations

import builtins
import json
import os
import pickle
import re
import struct
import sys
import warnings
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels

import gpexperts
from gpexperts.exceptions import (
    CorruptModelError,
    ModelFileError,
    NotPositiveDefiniteError,
    UnsavableModelError,
)
from gpexperts.io import columns
from gpexperts.parameters import PARAMETERS

from .forging import (
    MODELS,
    Parts,
    forged,
    put_together,
    raw_file,
    taken_apart,
    with_checksum,
    write_originals,
)
from .generating import colliding, generated, wide_table
from .watching import Cost, Watch


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_originals(tmp_path_factory.mktemp("originals"))


@pytest.fixture(scope="module")
def watch(originals: dict[str, Path]) -> Iterator[Watch]:
    with Watch(originals["knn, with factors"]) as watch:
        yield watch


class Apart(list[Parts]):
    """Models taken apart; Hypothesis prints the arguments of a test, and these are long."""

    def __repr__(self) -> str:
        return f"{len(self)} models"


@pytest.fixture(scope="module")
def parts(originals: dict[str, Path]) -> list[Parts]:
    return Apart(taken_apart(path) for path in originals.values())


def survived(path: Path) -> bool:
    """Load a file: False for a ModelFileError; a model that loads must predict."""
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
        except NotPositiveDefiniteError:
            return True  # the kernel is positive definite on two rows, but not everywhere
        assert mean.shape == std.shape
        assert len(mean) == 4
        index = model.select(queries)
        assert ((index >= -1) & (index < model.n_experts_)).all()
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


# -------------------------------------------------------------------------------- single values


def assert_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bad.gpx"
    path.write_bytes(content)
    with pytest.raises(CorruptModelError, match=words):
        gpexperts.load(path)


MODEL = (
    "x_scale", "y_scale", "kernel", "raw_inputs", "X", "y", "numbers", "offsets", "shared", "jitter",
    "centroids", "labels", "one_output", "trace", "seeds", "calibrate", "held_out", "choices",
    "noise", "targets", "trend", "target", "y_summary", "columns", "weight_unit", "part_size",
)  # fmt: skip
LEARNED = ("selector", "tuning", "choices")


def test_the_stored_names_are_those_that_are_tested(parts: list[Parts]) -> None:
    for header, _ in parts:
        assert header["model"].keys() == set(MODEL)
        assert header["learned"].keys() == {*LEARNED, "calibration", "residuals"}
        assert header["parameters"].keys() == PARAMETERS.keys() - {"engine"}


@pytest.mark.parametrize("place", [*(("model", n) for n in MODEL), *(("learned", n) for n in LEARNED)])
def test_a_missing_value_is_named(place: tuple[str, str], parts: list[Parts], tmp_path: Path) -> None:
    header, arrays = deepcopy(parts[0][0]), parts[0][1]
    del header[place[0]][place[1]]
    assert_refused(
        tmp_path, put_together(header, arrays), f"does not describe a model: '{place[1]}' is missing"
    )


def test_a_missing_parameter_has_its_default(parts: list[Parts], tmp_path: Path) -> None:
    """A later version with a new parameter reads the files of this one."""
    header, arrays = deepcopy(parts[0][0]), parts[0][1]
    del header["parameters"]["n_restarts"]
    (tmp_path / "older.gpx").write_bytes(put_together(header, arrays))
    assert gpexperts.load(tmp_path / "older.gpx").n_restarts == 0


def _state(header: dict, *path: object) -> dict:
    for key in path:
        header = header[key]
    return header


PAIRWISE = {"gamma": 1.0, "gamma_bounds": "fixed", "metric": "rbf", "pairwise_kernels_kwargs": None}


def pairwise(**params: object) -> dict:
    """A kernel in a file: PairwiseKernel + WhiteKernel."""
    signal = {"is": "PairwiseKernel", "params": PAIRWISE | params}
    return {"is": "Sum", "params": {"k1": signal, "k2": {"is": "WhiteKernel", "params": {}}}}


def threads(n: int) -> dict:
    return {"is": "dict", "items": [["n_jobs", n]]}


def deep_kernel(n: int) -> dict:
    kernel = {"is": "RBF", "params": {}}
    for _ in range(n):
        kernel = {"is": "Sum", "params": {"k1": kernel, "k2": {"is": "RBF", "params": {}}}}
    return kernel


@pytest.mark.parametrize(
    ("which", "path", "value"),
    [
        (0, ("parameters", "predict"), 3),
        (0, ("parameters", "__class__"), "x"),
        (0, ("parameters", "engine"), "tcp://evil.example:8786"),
        (0, ("parameters", "n_jobs"), 10**9),
        (0, ("parameters", "n_jobs"), 0),
        (0, ("parameters", "n_selected"), 17),
        (0, ("parameters", "n_selected"), 1),
        (0, ("parameters", "memory_budget"), "much"),
        (0, ("parameters", "aggregation"), "no such rule"),
        (0, ("parameters", "selection"), "no such selection"),
        (0, ("parameters", "selection"), "dnn"),
        (0, ("parameters", "selection"), "ggm"),
        (0, ("parameters", "selection", "params", "select"), 1),
        (0, ("parameters", "selection", "params", "metric"), "precomputed"),
        (0, ("parameters", "selection", "params"), {"metric": "minkowski", "p": 2000.0}),
        (0, ("parameters", "standardize"), "no"),
        (0, ("parameters", "random_state"), -1),
        (0, ("parameters", "calibrate"), "scale"),
        (0, ("parameters", "kernel"), {"is": "Sum", "params": {"k1": 1, "k2": 2}}),
        (0, ("parameters", "kernel"), pairwise(pairwise_kernels_kwargs=threads(5000))),
        (0, ("parameters", "kernel"), deep_kernel(55)),
        (0, ("model", "kernel"), pairwise(pairwise_kernels_kwargs=threads(5000))),
        (0, ("model", "kernel"), pairwise(metric="precomputed")),
        (0, ("model", "kernel"), deep_kernel(50)),
        (0, ("model", "kernel"), {"is": "WhiteKernel", "params": {}}),
        (0, ("model", "one_output"), 1),
        (0, ("model", "seeds"), [1, -1]),
        (0, ("model", "seeds"), [10**20, 1]),
        (0, ("model", "trace"), []),
        (0, ("model", "choices", "kernel", "reason"), 3),
        (0, ("model", "noise"), [[1.0, 0.0]]),
        (0, ("model", "targets"), [1.0]),
        (0, ("model", "trend"), {"role": "eval", "name": "x", "predictors": []}),
        (0, ("model", "trend"), {"role": "mean", "name": "x", "predictors": [{}]}),
        (0, ("model", "trend"), {"role": "mean", "name": "x", "predictors": [{"linear": {}, "trees": {}}]}),
        (0, ("model", "target"), {"name": "eval"}),
        (0, ("model", "target"), {"name": "yeo-johnson", "power": [1.0], "scale": [1.0]}),
        (0, ("learned", "tuning", "n_selected"), 4),
        (0, ("learned", "tuning", "n_selected"), 10**9),
        (1, ("learned", "tuning", "n_selected"), 0),
        (0, ("learned", "tuning", "n_selected"), True),
        (0, ("learned", "tuning", "n_neighbors"), 61),
        (0, ("learned", "tuning", "n_neighbors"), -1),
        (0, ("learned", "tuning", "n_neighbors"), 8.0),
        (1, ("learned", "tuning", "n_neighbors"), 8),
        (3, ("learned", "tuning", "n_neighbors"), 8),
        (7, ("learned", "tuning", "n_neighbors"), 0),
        (7, ("learned", "tuning", "n_neighbors"), 9),
        (7, ("parameters", "n_neighbors"), 9),
        (7, ("parameters", "n_neighbors"), -8),
        (7, ("parameters", "aggregation"), "grbcm"),
        (8, ("parameters", "aggregation"), "rbcm"),
        (0, ("learned", "tuning", "prune"), "all"),
        (0, ("learned", "tuning", "scale"), 0.0),
        (0, ("learned", "tuning", "local_noise"), 2.0),
        (0, ("learned", "tuning", "disagreement"), "auto"),
        (0, ("learned", "tuning", "more"), 1),
        (0, ("table", "items", 1, 1), []),
        (0, ("feature_names",), ["a", "b"]),
        (0, ("feature_names",), "abc"),
        (1, ("learned", "selector"), None),
        (1, ("learned", "selector", "classes"), [0, 1, 2]),
        (1, ("learned", "selector", "network"), None),
        (1, ("learned", "selector", "network", "params", "activation"), "eval"),
        (1, ("learned", "selector", "network", "coefs"), []),
        (1, ("learned", "selector", "network", "out_activation"), "none"),
        (2, ("learned", "selector"), None),
        (3, ("model", "shared"), None),
        (3, ("parameters", "random_state", "state", "items", 2), 10**6),
        (3, ("parameters", "random_state", "state", "items", 1), [1, 2]),
        (4, ("parameters", "aggregation", "params", "nugget"), "x"),
        (4, ("parameters", "aggregation", "params", "disagreement"), -1),
        (4, ("learned", "selector"), None),
        (5, ("parameters", "selection", "params", "n_candidates"), 0),
        (5, ("parameters", "selection", "params", "n_candidates"), "many"),
        (6, ("model", "held_out"), None),
        (6, ("model", "calibrate"), "scale"),
        (6, ("learned", "calibration"), None),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused(
    which: int, path: tuple, value: object, parts: list[Parts], tmp_path: Path
) -> None:
    header, arrays = deepcopy(parts[which][0]), parts[which][1]
    *parent, key = path
    _state(header, *parent)[key] = value
    assert_refused(tmp_path, put_together(header, arrays), "does not describe a model")


def test_the_rows_of_a_selector_may_be_a_sample(parts: list[Parts], tmp_path: Path) -> None:
    """As those of a model on a cluster are."""
    header, arrays = deepcopy(parts[5][0]), dict(parts[5][1])
    header["learned"]["selector"] = {
        name: {"is": "array", "name": name, "fortran": False} for name in ("X", "labels")
    }
    arrays["X"] = arrays["model.X"][[0, 25, 26]]
    for labels in ([0, 1, 1], [1, 0, 1], [0, 1], [0, 1, 3], [-1, 0, 1]):
        arrays["labels"] = np.array(labels)
        content = put_together(header, arrays)
        if labels == [0, 1, 1]:
            (tmp_path / "right.gpx").write_bytes(content)
            assert survived(tmp_path / "right.gpx")
        else:
            assert_refused(tmp_path, content, "labels of the selector's rows|is not an array")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "name",
    ["model.X", "model.y", "model.centroids", "model.x_scale[1]", "factors[0][0]", "factors[0][1]"],
)
def test_numbers_that_are_not_finite(value: float, name: str, parts: list[Parts], tmp_path: Path) -> None:
    header, arrays = parts[0][0], dict(parts[0][1])
    arrays[name] = arrays[name].copy()
    arrays[name].flat[-1] = value
    assert_refused(tmp_path, put_together(header, arrays), re.escape(f"{name!r} is not an array of finite"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model.offsets", [0, 20, 20, 60]),
        ("model.offsets", [0, 40, 20, 60]),
        ("model.offsets", [0, 20, 40, 61]),
        ("model.offsets", [1, 20, 40, 60]),
        ("model.offsets", [0]),
        ("model.labels", [3] * 60),
        ("model.labels", [-3] * 60),
        ("model.labels", [0] * 59),
        ("model.numbers", [0] * 60),
        ("model.numbers", list(range(1, 61))),
        ("model.numbers", list(range(-1, 59))),
        ("model.numbers", list(range(59))),
        ("model.numbers", [float(i) for i in range(60)]),
        ("model.jitter[0]", [5]),
        ("model.x_scale[1]", [1.0, 0.0, 1.0]),
    ],
)
def test_arrays_that_do_not_fit(name: str, value: list, parts: list[Parts], tmp_path: Path) -> None:
    header, arrays = parts[0][0], parts[0][1] | {name: np.array(value)}
    assert_refused(tmp_path, put_together(header, arrays), "does not describe a model")


def test_an_array_is_used_once(parts: list[Parts], tmp_path: Path) -> None:
    """A hundred kernels that share one large array would take a hundred times its memory."""
    header, arrays = deepcopy(parts[0][0]), parts[0][1]
    header["model"]["centroids"] = header["model"]["X"]
    assert_refused(tmp_path, put_together(header, arrays), r"'model\.X' is missing")


def test_a_long_trace(parts: list[Parts], tmp_path: Path) -> None:
    header, arrays = parts[0][0], dict(parts[0][1])
    for name in [name for name in arrays if name.startswith("model.trace")]:
        shape = (1_000_000, 1) if arrays[name].ndim == 2 else (1_000_000,)
        arrays[name] = np.zeros(shape, dtype=np.int8)
    assert_refused(tmp_path, put_together(header, arrays), "columns of the trace")


def test_an_axis_of_an_empty_array_is_not_long(parts: list[Parts], tmp_path: Path) -> None:
    """It takes no bytes of the file; a kernel has bounds for each of its 10⁹ length scales."""
    header, arrays = deepcopy(parts[0][0]), dict(parts[0][1])
    arrays["scales"] = np.empty((10**9, 0))
    scales = {"is": "array", "name": "scales", "fortran": False}
    header["model"]["kernel"] = {"is": "RBF", "params": {"length_scale": scales}}
    assert_refused(tmp_path, put_together(header, arrays), r"has shape \(1000000000, 0\)")


def test_factors_of_no_expert(parts: list[Parts], tmp_path: Path) -> None:
    header, arrays = deepcopy(parts[0][0]), parts[0][1]
    header["factors"].append(header["factors"][0])
    assert_refused(tmp_path, put_together(header, arrays), "factors of no expert")


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_invalid_json(word: str, tmp_path: Path) -> None:
    assert_refused(tmp_path, raw_file(f'{{"format": 3, "model": {{"n_jobs": {word}}}}}'), "cannot be read")


@pytest.mark.parametrize("form", [None, "1", 1.5, [], -(10**400)])
def test_an_invalid_format_number(form: object, tmp_path: Path) -> None:
    assert_refused(tmp_path, raw_file(json.dumps({"format": form, "model": {}})), "damaged|unreleased")


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gpx")
    with pytest.raises(ModelFileError, match="not a regular file"):
        gpexperts.load(tmp_path / "pipe.gpx")


def test_a_model_that_could_not_be_loaded_is_not_saved(originals: dict[str, Path], tmp_path: Path) -> None:
    model = gpexperts.load(originals["knn, with factors"])
    model.model_.experts.y[0] = np.nan
    with pytest.raises(
        UnsavableModelError, match=r"could not be loaded again: 'model\.y' is not an array of fin"
    ):
        model.save(tmp_path / "bad.gpx")
    assert not list(tmp_path.iterdir())


# ----------------------------------------------------------------------------------- code and costs


def test_loading_runs_and_imports_nothing(
    originals: dict[str, Path], parts: list[Parts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "bad.gpx"
    header = deepcopy(parts[0][0])
    header["model"]["kernel"] = {"is": "os.system", "params": {"command": "true"}}
    bad.write_bytes(put_together(header, parts[0][1]))
    for path in originals.values():
        gpexperts.load(path)  # late imports happen here

    class Nothing:
        def find_spec(self, name: str, *_: object) -> None:
            raise AssertionError(f"imports {name}")

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("runs code")

    with monkeypatch.context() as patch:
        patch.setattr(sys, "meta_path", [Nothing()])  # called for every module that is not loaded yet
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


def _bombs(parts: Parts) -> dict[str, bytes]:
    def changed(place: tuple, value: object) -> bytes:
        header = deepcopy(parts[0])
        *parent, key = place
        _state(header, *parent)[key] = value
        return put_together(header, parts[1])

    claims = {"a0": {"dtype": "F64", "shape": [10**10 // 8], "data_offsets": [0, 10**10]}}
    wraps = {"a0": {"dtype": "F64", "shape": [2**32, 2**32], "data_offsets": [0, 16]}}
    overlap = {f"a{i}": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]} for i in range(50)}
    empty = {f"a{i}": {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]} for i in range(50_000)}
    plain = '{"format": 3, "model": {}}'
    good = raw_file(plain)
    return {
        "nested deeply": raw_file('{"format": 3, "model": ' + "[" * 200_000 + "]" * 200_000 + "}"),
        "lists": raw_file('{"format": 3, "model": [' + "[]," * 4_000_000 + "1]}"),
        "objects": raw_file('{"format": 3, "model": [' + '{"a":1},' * 500_000 + "1]}"),
        "lists, as many as are allowed": raw_file(
            '{"format": 3, "parameters": {"n_experts": [' + "[]," * 54_000 + "1]}}"
        ),
        "digits": raw_file('{"format": 3, "model": ' + "9" * 1_000_000 + "}"),
        "a string": raw_file(json.dumps({"format": 3, "model": "x" * 20_000_000})),
        "a wide string": raw_file('{"format": 3, "model": "' + "x" * 10_000_000 + '\\ud83d\\ude00"}'),
        "10 GB in an array": raw_file(plain, claims, b"\0" * 16),
        "a size that wraps around": raw_file(plain, wraps, b"\0" * 16),
        "arrays one over the other": raw_file(plain, overlap, b"\0" * 16),
        "empty arrays": raw_file(plain, empty),
        "10 GB in the header": struct.pack("<Q", 10**10) + good[8:],
        "2^64 - 1 in the header": struct.pack("<Q", 2**64 - 1) + good[8:],
        "many experts per query": changed(("learned", "tuning", "n_selected"), 10**9),
        "a deep kernel": changed(("model", "kernel"), deep_kernel(50)),
        "kernels without end": changed(("model", "kernel"), [deep_kernel(20)] * 1000),
        "keys of one hash": changed(("model", "choices", "kernel", "evidence"), colliding(40_000)),
        "a size of a megabyte": changed(("parameters", "memory_budget"), "1" * 1_000_000 + "!"),
        "a table of many columns": changed(("table",), wide_table(1_000_000, 20_000)),
        "5,000 threads": changed(("model", "kernel"), pairwise(pairwise_kernels_kwargs=threads(5000))),
        "a large network": changed(
            ("parameters", "selection"), {"is": "DNNSelector", "params": {"hidden_units": 10**9}}
        ),
    }


def test_bombs_cost_little(parts: list[Parts], tmp_path: Path, watch: Watch) -> None:
    """Time, memory and threads of each are limited by the length of its file."""
    path = tmp_path / "bomb.gpx"
    for name, content in _bombs(parts[0]).items():
        path.write_bytes(content)
        cost = watch.load(path)
        assert cost.end == "refused", (name, cost)
        assert cost.excess() == [], (name, cost)


def test_time_zones_are_looked_up_once(
    parts: list[Parts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were read from the system for every date column: a file of 34 kB took 1.9 s."""
    looked_up = []
    monkeypatch.setattr(columns, "available_timezones", lambda: looked_up.append(1) or {"Europe/Berlin"})
    columns._time_zones.cache_clear()
    header, arrays = deepcopy(parts[0][0]), dict(parts[0][1])
    n = 3000
    arrays["columns.gaps"], arrays["columns.fills"] = np.zeros(n, dtype=np.int64), np.zeros(n)
    header["model"]["columns"] |= {
        "names": [f"x{i}" for i in range(n)],
        "kinds": ["date"] * n,
        "levels": [],
        "dates": [[k, "Europe/Berlin", 18_262, []] for k in range(n)],
    }
    assert_refused(tmp_path, put_together(header, arrays), "the columns do not make 3 inputs")
    columns._time_zones.cache_clear()
    assert len(looked_up) == 1


def test_a_slow_kernel_is_evaluated_at_few_inducing_points(
    parts: list[Parts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum of a hundred Bessel functions, at the pairs of a thousand points, would take minutes."""
    header, arrays = deepcopy(parts[list(MODELS).index("sparse trend")])
    trend = header["model"]["trend"]["predictors"][0]
    assert len(arrays[trend["Z"]["name"]]) > 40
    trend["kernel"] = {"is": "Matern", "params": {"length_scale": 1.0, "nu": 2.7}}
    path = tmp_path / "slow.gpx"
    path.write_bytes(put_together(header, arrays))
    sizes, evaluate = [], kernels.Matern.__call__

    def counted(self: kernels.Matern, *args: object, **kwargs: object) -> np.ndarray:
        sizes.append(np.size(gram := evaluate(self, *args, **kwargs)))
        return gram

    monkeypatch.setattr(kernels.Matern, "__call__", counted)
    gpexperts.load(path)
    assert 4 < max(sizes) <= 400
    assert survived(path)


def test_the_watch_sees_what_a_file_costs(originals: dict[str, Path], tmp_path: Path, watch: Watch) -> None:
    small = Cost("loaded", bytes=1_000_000, megabytes=59.0, seconds=1.05, threads=30)
    assert small.excess() == []
    large = Cost("crashed", bytes=1_000_000, megabytes=61.0, seconds=1.15, threads=60)
    assert [line.split(":")[0] for line in large.excess()] == ["end", "memory", "time", "threads"]
    assert watch.load(originals["ggm"]).end == "loaded"
    assert watch.load(tmp_path / "none.gpx").end == "crashed"  # no ModelFileError
    assert watch.load(originals["ggm"]).end == "loaded"  # by another process


@pytest.mark.parametrize("seed", range(40))
def test_generated_files_cost_little(
    seed: int, originals: dict[str, Path], parts: list[Parts], tmp_path: Path, watch: Watch
) -> None:
    path = tmp_path / "generated.gpx"
    path.write_bytes(generated(parts, seed))
    cost = watch.load(path)
    assert cost.excess() == [], cost


def test_a_header_may_not_be_longer_than_is_allowed(tmp_path: Path) -> None:
    content = raw_file(json.dumps({"format": 3, "model": "x" * 33 * 1024**2}))
    assert_refused(tmp_path, content, "the length of its header is")


def test_a_header_is_ascii(tmp_path: Path) -> None:
    header = {"__metadata__": {"gpexperts": "0" * 64 + ' {"format": 3, "model": "é"}'}}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    assert_refused(tmp_path, with_checksum(struct.pack("<Q", len(text)) + text), "is not ASCII")


def test_a_format_that_was_never_released(tmp_path: Path) -> None:
    assert_refused(tmp_path, raw_file('{"format": 1, "model": {}}'), "Fit and save the model again")

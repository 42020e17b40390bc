"""Forged model files: a model is taken apart and changed, and gets the right checksum."""

from __future__ import annotations

import hashlib
import json
import random
import struct
import tempfile
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import DotProduct, RationalQuadratic, WhiteKernel

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import NPAE
from gpexperts.io import container
from gpexperts.schema import TableColumn, TableSchema
from gpexperts.selection import GGMSelector, KNNSelector, NearestRowsSelector

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(60, 3))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.05 * RNG.standard_normal(60)
MIXED = np.column_stack([np.where(X[:, 0] > 1, np.nan, X[:, 0]), X[:, 1], np.round(X[:, 2])])
DATED = pd.DataFrame(X, columns=list("abc")).assign(a=pd.date_range("2020-01-01", periods=60, freq="37h"))

MODELS: dict[str, dict[str, Any]] = {
    "knn, with factors": {"selection": KNNSelector(metric="kernel"), "kernel": "auto", "optimizer": "lbfgs"},
    "dnn, rbcm": {"selection": "dnn", "aggregation": "rbcm", "n_selected": 2},
    "ggm": {"selection": GGMSelector(inputs=X[:20]), "aggregation": "gpoe"},
    "all, grbcm": {"selection": "all", "aggregation": "grbcm", "random_state": np.random.RandomState(3)},
    "hamming, a kernel of sums": {
        "selection": KNNSelector(metric="hamming"),
        "aggregation": NPAE(nugget=1e-6, disagreement=4.0),
        "kernel": 1.0 * RationalQuadratic() + DotProduct() + WhiteKernel(0.1),
    },
    "nearest rows": {"selection": NearestRowsSelector(n_candidates=2)},
    "calibrated": {"calibrate": "conformal"},
    "own expert": {"n_neighbors": 8, "n_selected": 0},
    "own expert beside others": {"n_neighbors": 8, "n_selected": 2},
    "categories and gaps": {"categorical_features": [2], "n_selected": 2},
    "dates": {"n_selected": 2},
    "linear trend, Student noise": {"trend": "linear", "trend_role": "both", "noise": "student"},
    "sparse trend": {"trend": "sparse", "optimizer": "lbfgs"},
    "boosted trees, transformed target": {"trend": "boosting", "target_transform": "yeo-johnson"},
    "weights, leave-one-out scores": {"calibrate": "jackknife"},
}


def write_originals(folder: Path) -> dict[str, Path]:
    """Fit and save a model of every kind; returns the files by name."""
    paths = {}
    for i, (name, given) in enumerate(MODELS.items()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            settings = {"kernel": "rbf", "optimizer": None, "random_state": 0, **given}
            inputs = MIXED if "categories" in name else DATED if "dates" in name else X
            weights = np.linspace(0.5, 2.0, len(Y)) if "weights" in name else None
            model = DistributedGPRegressor(n_experts=3, **settings).fit(inputs, Y, weights)
        model.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
        columns = [TableColumn(n, "number", "", -2.0, 2.0) for n in "abc"]
        model.table_ = TableSchema(["y"], columns, "t.csv", "0" * 64, 60, 0, -2.0, 2.0, {"n_experts": 3})
        paths[name] = folder / f"{i}.gpx"
        model.save(paths[name], include_factors="factors" in name)
    return paths


CHECKSUM_AT = 8 + len('{"__metadata__":{"gpexperts":"')
Parts = tuple[dict[str, Any], dict[str, np.ndarray]]


def taken_apart(path: Path) -> Parts:
    """Return the header of a file and its arrays."""
    header, arrays = container.read(path)
    del header["format"]
    return header, arrays


def put_together(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """Return the file, as if gpexperts had written it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "forged.gpx"
        # What gpexperts refuses to write can still be in a forged file.
        # Nothing is lost with the machine: waiting for the disk takes most of the time.
        with patch.object(container, "_has_too_many_values", return_value=False), patch("os.fsync"):
            container.write(path, header, arrays)
        return path.read_bytes()


def with_checksum(content: bytes) -> bytes:
    """Return a file whose checksum is right, whatever its content."""
    start, end = content[:CHECKSUM_AT], content[CHECKSUM_AT + 64 :]
    return start + hashlib.sha256(start + b"0" * 64 + end).hexdigest().encode() + end


def raw_file(meta: str, tensors: dict[str, Any] | None = None, data: bytes = b"") -> bytes:
    """Return a file with any text as its header and any description of its arrays."""
    header = {"__metadata__": {"gpexperts": "0" * 64 + " " + meta}, **(tensors or {})}
    text = json.dumps(header, separators=(",", ":")).encode()
    return with_checksum(struct.pack("<Q", len(text)) + text + data)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values of a tree."""
    found = [path] if path else []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        found += places(value, (*path, key))
    return found


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 10**6, 2**63, -(10**30), 10**400, 0.0, 0.5, -1.5, 1e-300, 1e308,
    "", "x", "auto", "knn", "dnn", "npae", "grbcm", "hamming", "../../etc/passwd", "MT19937", "\0", "é" * 300,
    [], {}, [[]], [1, 2], {"is": "tuple", "items": []}, {"is": "dict", "items": []},
    {"is": "dict", "items": [[1, 2]]}, {"is": "float", "value": "nan"}, {"is": "float", "value": "inf"},
    {"is": "KNNSelector", "params": {"metric": "hamming"}}, {"is": "LocalExperts", "params": {}},
    {"is": "NPAE", "params": {"nugget": 0.5, "disagreement": 3}},
    {"is": "DNNSelector", "params": {"hidden_units": 10**9}},
    {"is": "GGMSelector", "params": {"max_iter": 10**9}},
    {"is": "RBF", "params": {"length_scale": -1.0}}, {"is": "WhiteKernel", "params": {}},
    {"is": "PairwiseKernel", "params": {"metric": "precomputed", "pairwise_kernels_kwargs": None}},
    {"is": "DotProduct", "params": {"sigma_0": 0.0}},
    {"is": "Sum", "params": {"k1": {"is": "RBF", "params": {}}, "k2": 3}},
    {"is": "MLPClassifier", "params": {}}, {"is": "RandomState", "state": [1, 2, 3, 4, 5]},
    {"precision": 1, "importance": 2}, {"classes": [0, 1], "network": None}, {"X": [], "labels": []},
]  # fmt: skip
"""Values in place of others."""


def forged(originals: list[Parts], seed: int) -> bytes:
    """One to four changes to a model, of its tree or its arrays, and the right checksum."""
    rng = random.Random(seed)
    header, arrays = rng.choice(originals)
    header, arrays = deepcopy(header), dict(arrays)
    for _ in range(rng.randint(1, 4)):
        if rng.random() < 0.5:
            _change_tree(rng, header, sorted(arrays))
        else:
            with np.errstate(all="ignore"):  # numbers that another type cannot hold
                _change_array(rng, arrays)
    return put_together(header, arrays)


def _change_tree(rng: random.Random, header: dict[str, Any], names: list[str]) -> None:
    # Half of the changes near the root, where most of what a prediction needs is.
    paths = places(header)
    if not paths:
        return  # earlier changes have left nothing
    if rng.random() < 0.5:
        paths = [path for path in paths if len(path) < 6] or paths
    *parent, key = rng.choice(paths)
    holder = at(header, tuple(parent))
    how = rng.choice(["junk", "delete", "another", "array"])
    if how == "delete":
        del holder[key]
    elif how == "junk":
        holder[key] = deepcopy(rng.choice(JUNK))
    elif how == "another":
        holder[key] = deepcopy(at(header, rng.choice(paths)))
    else:
        holder[key] = {"is": "array", "name": rng.choice(names), "fortran": rng.random() < 0.5}


def _change_array(rng: random.Random, arrays: dict[str, np.ndarray]) -> None:
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    how = rng.choice(["value", "zero", "negative", "cast", "shape", "cut", "swap", "gone"])
    if how == "value" and array.size and array.dtype.kind == "f":
        array = array.copy()
        array.flat[rng.randrange(array.size)] = rng.choice([np.nan, np.inf, 1e308, -1e150, 1e-300])
    elif how == "zero":
        array = np.zeros_like(array)
    elif how == "negative" and array.dtype.kind in "if":
        array = -array - 1
    elif how == "cast":
        array = array.astype(rng.choice(["float32", "int64", "int8", "uint64", "bool"]))
    elif how == "shape":
        array = np.ascontiguousarray(array.reshape(-1) if rng.random() < 0.5 else array[None])
    elif how == "cut":
        array = np.ascontiguousarray(array[: len(array) // 2] if array.ndim else array)
    elif how == "swap":
        array = arrays[rng.choice(sorted(arrays))]
    elif how == "gone":
        del arrays[name]
        return
    arrays[name] = array

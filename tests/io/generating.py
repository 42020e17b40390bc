"""Generated model files: valid in form, with single parts grown to sizes that no fit would give them."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

import numpy as np

from tests.io.forging import JUNK, Parts, at, places, put_together

_HASH = 2**61 - 1
"""Python's hash of an int is its remainder modulo this prime."""
_LARGEST = 60_000
"""Items of a grown part."""
_MOST_NUMBERS = 2_000_000
"""Of an array."""

Tree = dict[str, Any]
Arrays = dict[str, np.ndarray]


def colliding(n: int) -> Tree:
    """A dict of n keys that all have the same hash."""
    return {"is": "dict", "items": [[i * _HASH, 0] for i in range(n)]}


def wide_table(length: int, n_columns: int) -> Tree:
    """The description of a table with many columns, one of which has a long name."""
    names = ["x" * length, *map(str, range(n_columns))]
    columns = [_dict({"name": name, "kind": "number", "low": None, "high": None}) for name in names]
    values = {
        "targets": ["y"], "columns": columns, "source": "t.csv", "sha256": "0" * 64, "n_rows": 60,
        "n_dropped": 0, "target_low": 0.0, "target_high": 1.0, "config": _dict({}),
    }  # fmt: skip
    return _dict(values)


def _dict(values: dict[str, Any]) -> Tree:
    return {"is": "dict", "items": [[key, value] for key, value in values.items()]}


def generated(originals: list[Parts], seed: int) -> bytes:
    """A model with one to three grown parts, and the right checksum."""
    rng = random.Random(seed)
    header, arrays = rng.choice(originals)
    header, arrays = deepcopy(header), dict(arrays)
    for _ in range(rng.randint(1, 3)):
        # A part may have been replaced by another growth.
        with suppress(TypeError, KeyError, AttributeError, IndexError):
            rng.choice(_GROWTHS)(rng, header, arrays)
    return put_together(header, arrays)


def _size(rng: random.Random, most: int = _LARGEST) -> int:
    return int(most ** rng.random())


def _rows(rng: random.Random, header: Tree, arrays: Arrays) -> None:
    """Many rows, perhaps all equal, of one expert, of few, or each with its own expert."""
    n, d = _size(rng), arrays["model.X"].shape[1] if arrays["model.X"].ndim == 2 else 3
    n = min(n, _MOST_NUMBERS // max(1, d))
    M = rng.choice([1, 3, n])
    rows = np.random.default_rng(rng.randrange(2**32)).normal(size=(n, d)) * rng.choice([0.0, 1.0])
    arrays["model.X"] = np.ascontiguousarray(rows)
    arrays["model.y"] = np.zeros((n, 1))
    arrays["model.numbers"] = np.arange(n)
    arrays["model.offsets"] = np.linspace(0, n, min(M, n) + 1).astype(np.int64)
    arrays["model.centroids"] = np.zeros((min(M, n), d))
    arrays["model.jitter[0]"] = np.arange(min(M, n))
    arrays["model.jitter[1]"] = np.ones(min(M, n))
    header["model"]["labels"] = None
    header["factors"] = []


def _columns(rng: random.Random, header: Tree, arrays: Arrays) -> None:
    """Many inputs of few rows."""
    d = _size(rng)
    n, M = len(arrays["model.X"]), len(arrays["model.centroids"])
    if max(n, M) * d > _MOST_NUMBERS:
        return
    arrays["model.X"], arrays["model.centroids"] = np.ones((n, d)), np.zeros((M, d))
    arrays["model.x_scale[0]"], arrays["model.x_scale[1]"] = np.zeros(d), np.ones(d)
    header["model"]["kernel"] = _kernel(rng, rng.randint(0, 4), d)
    header["feature_names"] = rng.choice([None, [f"x{i}" for i in range(d)]])
    header["table"] = None


def _kernel(rng: random.Random, depth: int, d: int = 1) -> Tree:
    if depth == 0:
        kind, params = rng.choice(
            [
                ("RBF", {"length_scale": rng.choice([1.0, 1e-300, 1e300])}),
                ("Matern", {"length_scale": 1.0, "nu": rng.choice([0.5, 1.5, 2.7, 1e3, 1e9])}),
                ("RationalQuadratic", {}),
                ("ExpSineSquared", {}),
                ("DotProduct", {}),
                ("ConstantKernel", {"constant_value": rng.choice([1.0, 1e300])}),
                ("WhiteKernel", {}),
                (
                    "PairwiseKernel",
                    {
                        "gamma": 1.0,
                        "gamma_bounds": "fixed",
                        "metric": rng.choice(["rbf", "poly", "laplacian", "cosine", "chi2"]),
                        "pairwise_kernels_kwargs": rng.choice([None, _dict({"n_jobs": 5000})]),
                    },
                ),
            ]
        )
        return {"is": kind, "params": params}
    if rng.random() < 0.2:
        exponent = rng.choice([2.0, 1e9, -1.0])
        return {
            "is": "Exponentiation",
            "params": {"kernel": _kernel(rng, depth - 1, d), "exponent": exponent},
        }
    other = _kernel(rng, depth - 1 if rng.random() < 0.3 else 0, d)
    both = {"k1": _kernel(rng, depth - 1, d), "k2": other}
    return {"is": rng.choice(["Sum", "Product"]), "params": both}


def _kernels(rng: random.Random, header: Tree, arrays: Arrays) -> None:
    place = rng.choice(["model", "parameters"])
    header[place]["kernel"] = _kernel(rng, rng.randint(1, 28))


def _evidence(rng: random.Random, header: Tree, arrays: Arrays) -> None:
    n = _size(rng)
    keys: list[Any] = rng.choice(
        [
            [str(i) for i in range(n)],
            [i * _HASH for i in range(n)],
            [{"is": "tuple", "items": [i * _HASH, 1]} for i in range(n // 3)],
            [float(i) for i in range(n)],
        ]
    )
    evidence = {"is": "dict", "items": [[key, 0] for key in keys]}
    header["learned"]["choices"]["kernel"] = {"value": 1, "reason": "x" * _size(rng), "evidence": evidence}


def _choices(rng: random.Random, header: Tree, arrays: Arrays) -> None:
    choice = {"value": 1, "reason": "", "evidence": {"is": "dict", "items": []}}
    header["model"]["choices"] = {f"c{i}": choice for i in range(_size(rng, 8000))}


def _table(rng: random.Random, header: Tree, arrays: Arrays) -> None:
    header["table"] = wide_table(_size(rng, 1_000_000), _size(rng))


def _text(rng: random.Random, header: Tree, arrays: Arrays) -> None:
    """A long text in place of a parameter."""
    name = rng.choice(sorted(header["parameters"]))
    pattern = rng.choice(["1", " ", "x", "1 ", "\\", "\x00", "\U0001f600"])
    header["parameters"][name] = pattern * _size(rng, 300_000) + rng.choice(["", "!", "MB"])


def _trace(rng: random.Random, header: Tree, arrays: Arrays) -> None:
    steps = _size(rng, 20_000)
    for name in [name for name in arrays if name.startswith("model.trace")]:
        wide = arrays[name].ndim == 2
        arrays[name] = np.zeros((steps, _size(rng, 30)) if wide else (steps,), dtype=arrays[name].dtype)


def _network(rng: random.Random, header: Tree, arrays: Arrays) -> None:
    """Many layers of a network, or arrays that nothing uses."""
    selector = header["learned"]["selector"]
    network = selector.get("network") if isinstance(selector, dict) else None
    layers = _size(rng, 1000)
    for i in range(layers):
        arrays[f"layer{i}"] = np.zeros((1, 1))
        arrays[f"offset{i}"] = np.zeros(1)
    if isinstance(network, dict):
        network["coefs"] = [{"is": "array", "name": f"layer{i}", "fortran": False} for i in range(layers)]
        network["intercepts"] = [
            {"is": "array", "name": f"offset{i}", "fortran": False} for i in range(layers)
        ]


def _empty(rng: random.Random, header: Tree, arrays: Arrays) -> None:
    """An array without numbers, but with a huge shape."""
    name = rng.choice(sorted(arrays))
    huge = 10 ** rng.randint(3, 12)
    arrays[name] = np.empty(rng.choice([(0, huge), (huge, 0), (0,), (huge, 0, 1)]), arrays[name].dtype)


def _encoded_columns(rng: random.Random, header: Tree, arrays: Arrays) -> None:
    """Many columns of dates in a time zone, or of categories with many or long levels."""
    d, kind = _size(rng, 20_000), rng.choice(["date", "category"])
    columns = header["model"]["columns"]
    columns["names"], columns["kinds"] = [f"x{i}" for i in range(d)], [kind] * d
    arrays["columns.gaps"], arrays["columns.fills"] = np.zeros(d, dtype=np.int64), np.zeros(d)
    levels = ["a" * _size(rng, 1000) + str(i) for i in range(_size(rng, 60_000 // d + 1))]
    zone, cycles = rng.choice(["Europe/Berlin", "UTC", "+01:00", "x"]), ["hour", "weekday"]
    columns["dates"] = [[k, zone, 18_262, cycles] for k in range(d)] if kind == "date" else []
    columns["levels"] = [[k, levels, 0, 1] for k in range(d)] if kind == "category" else []
    header["feature_names"], header["table"] = rng.choice([None, columns["names"]]), None


def _trees(rng: random.Random, header: Tree, arrays: Arrays) -> None:
    """A tree that is one long branch, or many trees of one leaf each."""
    n, p = _size(rng), arrays["model.y"].shape[1]
    branch = rng.random() < 0.5
    own = np.arange(n)
    ends = own == n - 1 if branch else own >= 0
    named = {
        "start": np.array([0, n]) if branch else np.arange(n + 1),
        "feature": np.where(ends, -1, 0),
        "threshold": np.zeros(n),
        "missing_left": np.zeros(n, dtype=bool),
        "left": np.where(ends, own, own + 1),
        "right": np.where(ends, own, n - 1),
        "value": np.ones(n),
    }
    arrays.update({f"tree.{name}": array for name, array in named.items()})
    trees: Tree = {name: {"is": "array", "name": f"tree.{name}", "fortran": False} for name in named}
    trees |= {"baseline": 0.0, "n_features": arrays["model.X"].shape[1]}
    header["model"]["trend"] = {"role": "mean", "name": "boosting", "predictors": [trees] * p}
    if header["model"]["targets"] is None:
        arrays["model.targets"] = arrays["model.y"].copy()
        header["model"]["targets"] = {"is": "array", "name": "model.targets", "fortran": False}


def _repeated(rng: random.Random, header: Tree, arrays: Arrays) -> None:
    """The same value many times, in place of another."""
    *parent, key = rng.choice(places(header))
    value = deepcopy(rng.choice(JUNK))
    at(header, tuple(parent))[key] = [value] * _size(rng, 5000)


_GROWTHS: list[Callable[[random.Random, Tree, Arrays], None]] = [
    _rows, _columns, _kernels, _evidence, _choices, _table, _text, _trace, _network, _empty, _repeated,
    _encoded_columns, _trees,
]  # fmt: skip

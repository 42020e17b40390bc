"""A model as a tree of plain values and a set of arrays, and back.

Plain JSON values stand for themselves. Anything else is an object with the key "is":

| "is" | stands for |
| --- | --- |
| "array" | a numeric array, by its name among the tensors, and whether it is in Fortran order |
| "strings" | an array of strings |
| "number" | a NumPy scalar, or a float that JSON has no word for |
| "tuple", "dict" | themselves |
| "record", "object", "kernel", "sklearn", "covariance", "class" | an instance (or the class) of `registry` |
| "random" | a RandomState, by its state |

Both directions know these types and no others. Exact types count, not subclasses: what a subclass
changes could not be restored.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from gpexperts.exceptions import CorruptModelError, UnsavableModelError
from gpexperts.io.container import Streamed
from gpexperts.io.registry import KERNELS, RECORDS, SKLEARN, STATEFUL
from gpexperts.kernels.named import Covariance, covariance_of

__all__ = ["Decoder", "Encoder"]

_DTYPES = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float32",
    "float64",
)
_MAX_DEPTH = 60
_MAX_LETTERS = 5_000_000


class Encoder:
    """Turns values into a tree, and collects the arrays it meets in `arrays`."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray | Streamed] = {}
        # An array that is met twice is stored once; the reference keeps its id from being used again.
        self._seen: dict[int, tuple[np.ndarray, dict[str, Any]]] = {}

    def encode(self, value: Any, where: str) -> Any:
        """Return the tree of `value`; `where` names its place in the model, for the error."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"is": "number", "dtype": None, "value": repr(value)}
        if isinstance(value, np.generic) and value.dtype.name in _DTYPES:
            return {"is": "number", "dtype": value.dtype.name, "value": repr(value.item())}
        if type(value) is list:
            return self._items(value, where)
        if type(value) is tuple:
            return {"is": "tuple", "items": self._items(value, where)}
        if type(value) is dict:
            return {"is": "dict", "items": self._pairs(value, where)}
        if type(value) is np.ndarray:
            return self._array(value, where)
        if type(value) is Streamed:
            return {"is": "array", "name": self._added(value), "fortran": False}
        return self._instance(value, where)

    def state(self, state: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the trees of named attributes."""
        prefix = f"{where}." if where else ""
        return {name: self.encode(value, f"{prefix}{name}") for name, value in state.items()}

    def _items(self, values: Any, where: str) -> list[Any]:
        return [self.encode(value, f"{where}[{i}]") for i, value in enumerate(values)]

    def _pairs(self, values: dict[Any, Any], where: str) -> list[Any]:
        return [
            [self.encode(key, f"{where}'s key"), self.encode(value, f"{where}[{key!r}]")]
            for key, value in values.items()
        ]

    def _array(self, value: np.ndarray, where: str) -> dict[str, Any]:
        if value.dtype.kind in "OU":
            items = value.ravel().tolist()
            if not all(type(item) is str for item in items):
                raise _unsavable(where, value, "an array of objects")
            as_objects = value.dtype.kind == "O"
            return {"is": "strings", "shape": list(value.shape), "items": items, "object": as_objects}
        if value.dtype.name not in _DTYPES:
            raise _unsavable(where, value, f"an array of {value.dtype}")
        if id(value) not in self._seen:
            # BLAS rounds differently for the two orders: bit for bit means the same order too.
            fortran = value.ndim > 1 and value.flags.f_contiguous and not value.flags.c_contiguous
            name = self._added(np.ascontiguousarray(value.T if fortran else value))
            self._seen[id(value)] = value, {"is": "array", "name": name, "fortran": fortran}
        return self._seen[id(value)][1]

    def _added(self, array: np.ndarray | Streamed) -> str:
        name = f"a{len(self.arrays)}"
        self.arrays[name] = array
        return name

    def _instance(self, value: Any, where: str) -> dict[str, Any]:
        cls = type(value)
        name = cls.__name__
        if RECORDS.get(name) is cls:
            return {"is": "record", "class": name, "fields": self.state(_fields(value), where)}
        if STATEFUL.get(name) is cls:
            return {"is": "object", "class": name, "state": self.state(value.__getstate__() or {}, where)}
        if KERNELS.get(name) is cls:
            return {"is": "kernel", "class": name, "params": self.state(value.get_params(deep=False), where)}
        if name in SKLEARN and SKLEARN[name][0] is cls:
            params = value.get_params(deep=False)
            fitted = {k: v for k, v in vars(value).items() if k.endswith("_") or k in SKLEARN[name][1]}
            return {
                "is": "sklearn", "class": name,
                "params": self.state(params, where), "fitted": self.state(fitted, where),
            }  # fmt: skip
        if isinstance(value, Covariance) and type(covariance_of(value.kernel)) is cls:
            return {"is": "covariance", "kernel": self.encode(value.kernel, f"{where}.kernel")}
        if cls is np.random.RandomState:
            return {"is": "random", "state": self.encode(value.get_state(legacy=True), where)}
        if isinstance(value, type) and STATEFUL.get(value.__name__) is value:
            return {"is": "class", "class": value.__name__}
        raise _unsavable(where, value, f"a {cls.__module__}.{cls.__qualname__}")


def _fields(record: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(record):
        return {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}
    return dict(record._asdict())


def _unsavable(where: str, value: Any, what: str) -> UnsavableModelError:
    return UnsavableModelError(
        f"This model cannot be saved as .gpx: `{where}` is {what}, which is not a part of gpexperts "
        "(a file that is safe to open can only hold parts it knows). Use a built-in part, or save the "
        "model with skops: skops.io.dump(model, 'model.skops')."
    )


class Decoder:
    """Turns a tree back into values, taking arrays from `arrays`."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays
        self._depth = 0
        self._restored: dict[tuple[str, bool], np.ndarray] = {}
        self._known: dict[str, Callable[[dict[str, Any]], Any]] = {
            "array": self._array,
            "strings": self._strings,
            "number": self._number,
            "tuple": lambda tree: tuple(self._list(tree["items"])),
            "dict": lambda tree: {self.decode(k): self.decode(v) for k, v in tree["items"]},
            "record": lambda tree: RECORDS[tree["class"]](**self.state(tree["fields"])),
            "object": self._object,
            "kernel": lambda tree: KERNELS[tree["class"]](**self.state(tree["params"])),
            "sklearn": self._sklearn,
            "covariance": self._covariance,
            "random": self._random,
            "class": lambda tree: STATEFUL[tree["class"]],
        }

    def decode(self, tree: Any) -> Any:
        """Return the value that `tree` stands for."""
        if self._depth > _MAX_DEPTH:
            raise CorruptModelError(f"values are nested more than {_MAX_DEPTH} deep.")
        self._depth += 1
        try:
            if isinstance(tree, list):
                return self._list(tree)
            if isinstance(tree, dict):
                return self._known[tree["is"]](tree)
            return tree
        finally:
            self._depth -= 1

    def state(self, trees: dict[str, Any]) -> dict[str, Any]:
        """Return named attributes."""
        if not isinstance(trees, dict):
            raise CorruptModelError("attributes are not named.")
        return {name: self.decode(tree) for name, tree in trees.items()}

    def attributes(self, trees: dict[str, Any], cls: type) -> dict[str, Any]:
        """Return attributes of an instance of `cls`, none of them in the place of a method."""
        state = self.state(trees)
        for name in state:
            own = getattr(cls, name, None)
            if callable(own) or isinstance(own, property) or name.startswith("__"):
                raise CorruptModelError(f"{name!r} of {cls.__name__} is not a value.")
        return state

    def _list(self, trees: list[Any]) -> list[Any]:
        return [self.decode(tree) for tree in trees]

    def _array(self, tree: dict[str, Any]) -> np.ndarray:
        key = tree["name"], bool(tree["fortran"])
        if key not in self._restored:
            array = self._arrays[key[0]]
            self._restored[key] = array.T if key[1] else array
        return self._restored[key]

    def _strings(self, tree: dict[str, Any]) -> np.ndarray:
        items = tree["items"]
        if not (isinstance(items, list) and all(isinstance(item, str) for item in items)):
            raise CorruptModelError("an array of strings holds something else.")
        if not tree["object"] and len(items) * max(map(len, items), default=0) > _MAX_LETTERS:
            # NumPy gives every string the room of the longest.
            raise CorruptModelError("an array of strings would take more room than the file.")
        return np.array(items, dtype=object if tree["object"] else str).reshape(tree["shape"])

    def _number(self, tree: dict[str, Any]) -> Any:
        if tree["dtype"] is None:
            return float(tree["value"])
        if tree["dtype"] not in _DTYPES:
            raise CorruptModelError(f"unknown kind of number {tree['dtype']!r}.")
        dtype = np.dtype(tree["dtype"])
        if dtype.kind == "b":
            return np.bool_(tree["value"] == "True")
        return dtype.type(float(tree["value"]) if dtype.kind == "f" else int(tree["value"]))

    def _object(self, tree: dict[str, Any]) -> Any:
        cls = STATEFUL[tree["class"]]
        restored: Any = object.__new__(cls)
        state = self.attributes(tree["state"], cls)
        set_state = getattr(restored, "__setstate__", None)
        if set_state is None:
            restored.__dict__.update(state)
        else:
            set_state(state)
        return restored

    def _sklearn(self, tree: dict[str, Any]) -> Any:
        cls, further = SKLEARN[tree["class"]]
        restored = cls(**self.state(tree["params"]))
        for name, value in self.attributes(tree["fitted"], cls).items():
            if not (name.endswith("_") or name in further):
                raise CorruptModelError(f"{tree['class']} has no fitted attribute {name!r}.")
            setattr(restored, name, value)
        return restored

    def _covariance(self, tree: dict[str, Any]) -> Covariance:
        kernel = self.decode(tree["kernel"])
        if not isinstance(kernel, Kernel):
            raise CorruptModelError("a covariance without a kernel.")
        return covariance_of(kernel)

    def _random(self, tree: dict[str, Any]) -> np.random.RandomState:
        state = self.decode(tree["state"])
        # NumPy trusts a state: a wrong one ends the process, or reads beyond the key.
        name, key, position, has_gauss, gauss = state
        if not (
            name == "MT19937"
            and isinstance(key, np.ndarray)
            and (key.dtype, key.shape) == (np.uint32, (624,))
            and type(position) is type(has_gauss) is int
            and 0 <= position <= 624
            and has_gauss in (0, 1)
            and type(gauss) is float
        ):
            raise CorruptModelError("a random state is none.")
        random_state = np.random.RandomState()
        random_state.set_state(state)
        return random_state

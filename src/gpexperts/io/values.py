"""Parameters and evidence as JSON values and a set of arrays, and back.

None, bool, int, str, finite float and list stand for themselves. Others are objects with the key "is":

| "is" | stands for |
| --- | --- |
| "array" | a numeric array, by the name of its tensor, and whether it is in Fortran order |
| "float" | a float that JSON cannot write |
| "tuple", "dict" | themselves |
| "RandomState" | itself, by its state |
| a name of `CLASSES` | an instance of that class, by the parameters of its constructor |

A name is looked up in `CLASSES` only; nothing is imported or read by name. The names are part of the file
format. Subclasses are not stored, since the class that they extend cannot restore them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels
from sklearn.neural_network import MLPClassifier

from gpexperts.aggregation import AGGREGATORS
from gpexperts.exceptions import CorruptModelError, UnsavableModelError
from gpexperts.io.container import Streamed
from gpexperts.partition import PARTITIONERS
from gpexperts.selection import SELECTORS, ClassifierSelector
from gpexperts.validation import is_number

__all__ = ["CLASSES", "Decoder", "Encoder", "is_int", "require"]

CLASSES: dict[str, Callable[..., Any]] = {
    cls.__name__: cls
    for cls in (
        kernels.ConstantKernel, kernels.DotProduct, kernels.ExpSineSquared, kernels.Exponentiation,
        kernels.Matern, kernels.PairwiseKernel, kernels.Product, kernels.RationalQuadratic, kernels.RBF,
        kernels.Sum, kernels.WhiteKernel, MLPClassifier, ClassifierSelector,
        *AGGREGATORS.values(), *PARTITIONERS.values(), *SELECTORS.values(),
    )
}  # fmt: skip
"""The classes that a file may name. Their constructors store parameters and compute nothing."""

_DTYPES = frozenset("biuf")
_MAX_DEPTH = 60
_MAX_KEYS = 1000
"""Keys of a dict that are not text: numbers can be chosen such that all fall into one place of its table."""
_MAX_KERNELS = 100
"""Kernels in one file: the time to read the hyperparameters of a sum grows faster than its terms."""
_MAX_EMPTY = 10_000
"""Length of an axis of an array without numbers: such an array takes no bytes of the file, however long."""
_METRICS = ("linear", "poly", "polynomial", "rbf", "laplacian", "sigmoid", "cosine")
_METRIC_PARAMETERS = ("degree", "coef0")
"""What a PairwiseKernel may pass on; others, such as n_jobs, decide how much of a machine is used."""


def require(holds: bool, fault: str) -> None:
    """Raise the error that the file is at fault, unless something holds."""
    if not holds:
        raise CorruptModelError(f"{fault}.")


def is_int(value: Any, low: int, high: int) -> bool:
    """Whether a value is an int from `low` to `high`."""
    return type(value) is int and low <= value <= high


class Encoder:
    """Turns values into trees, and collects arrays by name in `arrays`."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray | Streamed] = {}

    def encode(self, value: Any, where: str) -> Any:
        """Return the tree of `value`; `where` is its place in the model, for errors and names of tensors."""
        if isinstance(value, np.generic):
            value = value.item()
        cls = type(value)
        if value is None or cls in (bool, int, str):
            return value
        if cls is float:
            return value if math.isfinite(value) else {"is": "float", "value": repr(value)}
        if cls in (list, tuple):
            items = [self.encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
            return items if cls is list else {"is": "tuple", "items": items}
        if cls is dict:
            pairs = [[self.encode(k, where), self.encode(v, f"{where}[{k!r}]")] for k, v in value.items()]
            return {"is": "dict", "items": pairs}
        if cls in (np.ndarray, Streamed):
            return self.array(value, where)
        if cls is np.random.RandomState:
            return {"is": "RandomState", "state": self.encode(value.get_state(legacy=True), where)}
        name: str = cls.__name__
        if CLASSES.get(name) is cls:
            return {"is": name, "params": self.named(value.get_params(deep=False), where)}
        raise _unsavable(where, f"a {cls.__module__}.{cls.__qualname__}")

    def named(self, values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
        """Return the trees of named values."""
        prefix = f"{where}." if where else ""
        return {name: self.encode(value, f"{prefix}{name}") for name, value in values.items()}

    def array(self, value: np.ndarray | Streamed, where: str) -> dict[str, Any]:
        """Add an array, named after its place, and return its tree."""
        if value.dtype.kind not in _DTYPES or value.dtype.itemsize > 8:
            raise _unsavable(where, f"an array of {value.dtype}")
        fortran = False
        if isinstance(value, np.ndarray):
            # BLAS rounds differently for the two orders, so the order is kept.
            fortran = value.ndim > 1 and value.flags.f_contiguous and not value.flags.c_contiguous
            value = np.asarray(value.T if fortran else value, order="C")
        name = where if where not in self.arrays else f"{where}#{len(self.arrays)}"
        self.arrays[name] = value
        return {"is": "array", "name": name, "fortran": fortran}


def _unsavable(where: str, what: str) -> UnsavableModelError:
    return UnsavableModelError(
        f"This model cannot be saved as .gpx: `{where}` is {what}. A model file can only hold classes of "
        "gpexperts and kernels of scikit-learn, so that it is safe to open. Use one of these, or save the "
        "model with skops: skops.io.dump(model, 'model.skops')."
    )


class Decoder:
    """Turns trees back into values, taking arrays from `arrays`.

    Each array is used once, so that the work is proportional to the length of the file.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray | Streamed]) -> None:
        self._arrays = dict(arrays)
        self._depth = self._n_kernels = 0

    def decode(self, tree: Any) -> Any:
        """Return the value of a tree."""
        require(self._depth < _MAX_DEPTH, f"values are nested more than {_MAX_DEPTH} deep")
        self._depth += 1
        try:
            if isinstance(tree, list):
                return [self.decode(item) for item in tree]
            return self._object(tree) if isinstance(tree, dict) else tree
        finally:
            self._depth -= 1

    def named(self, trees: Any) -> dict[str, Any]:
        """Return named values."""
        require(isinstance(trees, dict), "values are not named")
        return {name: self.decode(tree) for name, tree in trees.items()}

    def array(self, tree: Any, shape: tuple[int | None, ...], dtype: type = np.float64) -> np.ndarray:
        """Return an array of finite numbers of the given shape, where None stands for any length."""
        value = self.decode(tree)
        fits = (
            isinstance(value, np.ndarray)
            and value.dtype == dtype
            and value.ndim == len(shape)
            and all(n in (m, None) for n, m in zip(shape, value.shape, strict=True))
            and bool(np.isfinite(value).all())
        )
        name = tree.get("name") if isinstance(tree, dict) else tree
        require(fits, f"{name!r:.60} is not an array of finite numbers ({dtype.__name__}) of shape {shape}")
        return np.asarray(value)

    def peek(self, tree: Any) -> np.ndarray:
        """Return the array of a tree without using it up."""
        array = self._arrays[tree["name"]]
        require(isinstance(array, np.ndarray), f"{tree['name']!r:.60} is not an array")
        return np.asarray(array)

    def _object(self, tree: dict[str, Any]) -> Any:
        kind = tree["is"]
        if kind == "array":
            array = self._arrays.pop(tree["name"])
            require(array.nbytes > 0 or max(array.shape) <= _MAX_EMPTY, f"an array has shape {array.shape}")
            return array.T if tree["fortran"] and isinstance(array, np.ndarray) else array
        if kind == "float":
            return float(tree["value"])
        if kind == "tuple":
            return tuple(self.decode(item) for item in tree["items"])
        if kind == "dict":
            items = tree["items"]
            plain = len(items) <= _MAX_KEYS or all(isinstance(key, str) for key, _ in items)
            require(plain, f"a dict has more than {_MAX_KEYS} keys that are not text")
            return {self.decode(key): self.decode(value) for key, value in items}
        if kind == "RandomState":
            return _random_state(self.decode(tree["state"]))
        cls = CLASSES.get(kind)
        if cls is None:
            raise CorruptModelError(f"unknown class {kind!r:.60}.")
        params = self.named(tree["params"])
        if not issubclass(cls, kernels.Kernel):  # type: ignore[arg-type]
            return cls(**params)
        self._n_kernels += 1
        require(self._n_kernels <= _MAX_KERNELS, f"there are more than {_MAX_KERNELS} kernels")
        _check_kernel(kind, params)
        return cls(**params)


def _check_kernel(kind: str, params: dict[str, Any]) -> None:
    """Refuse parameters that a kernel does not check."""
    if kind in ("Sum", "Product", "Exponentiation"):
        parts = [params[name] for name in ("kernel", "k1", "k2") if name in params]
        require(all(isinstance(part, kernels.Kernel) for part in parts), f"a part of a {kind} is no kernel")
    if kind == "PairwiseKernel":
        further = params["pairwise_kernels_kwargs"] or {}
        require(
            params["metric"] in _METRICS
            and isinstance(further, dict)
            and all(name in _METRIC_PARAMETERS and is_number(value) for name, value in further.items()),
            f"a PairwiseKernel has the parameters {params!r:.200}",
        )


def _random_state(state: Any) -> np.random.RandomState:
    # NumPy does not check a state: a wrong one ends the process, or reads beyond the key.
    name, key, position, has_gauss, gauss = state
    require(
        name == "MT19937"
        and isinstance(key, np.ndarray)
        and (key.dtype, key.shape) == (np.uint32, (624,))
        and type(position) is type(has_gauss) is int
        and 0 <= position <= 624
        and has_gauss in (0, 1)
        and type(gauss) is float,
        "a RandomState has no valid state",
    )
    random_state = np.random.RandomState()
    random_state.set_state(state)
    return random_state

"""Of which kind a value is: the words in which `checking` says what a model must have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpexperts.exceptions import CorruptModelError

__all__ = ["Kind", "array", "check_kinds", "instance", "keyed", "pair_of", "require", "whole"]

Kind = Callable[[Any], bool]


def whole(low: int, high: int = 2**62) -> Kind:
    """Return whether a value is a whole number from `low` to `high`."""
    return lambda v: (
        isinstance(v, (int, np.integer)) and not isinstance(v, bool) and bool(low <= v) and bool(v <= high)
    )


def instance(*classes: type) -> Kind:
    """Return whether a value is an instance of one of `classes`."""
    return lambda value: isinstance(value, classes)


def array(value: Any, shape: tuple[int | None, ...] | None = None, kinds: str = "f") -> bool:
    """Whether a value is an array of finite numbers; None stands for any length."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind in kinds
        and (value.dtype.kind != "f" or (value.dtype == np.float64 and bool(np.isfinite(value).all())))
        and (
            shape is None
            or (
                value.ndim == len(shape)
                and all(n in (m, None) for n, m in zip(shape, value.shape, strict=True))
            )
        )
    )


def pair_of(second: type) -> Kind:
    """Return whether a value is None, or a pair whose second part is a `second`."""
    return lambda v: v is None or (isinstance(v, tuple) and len(v) == 2 and isinstance(v[1], second))


def keyed(second: type) -> Kind:
    """Return whether a value is None, or a `second` with the settings it was learned for before it."""
    return lambda v: pair_of(second)(v) and (v is None or _is_key(v[0]))


def _is_key(value: Any) -> bool:
    """Whether a value can be compared with a key of settings; an array would be compared number by number."""
    return isinstance(value, (str, type)) or (isinstance(value, tuple) and all(map(_is_key, value)))


def require(holds: bool, fault: str) -> None:
    """Raise the error that the file is at fault, unless something holds."""
    if not holds:
        raise CorruptModelError(f"{fault}.")


def check_kinds(state: Mapping[str, Any], kinds: Mapping[str, Kind], who: str) -> None:
    """Raise an error that names what a state lacks, or what in it is of the wrong kind."""
    lacking = [name for name in kinds if name not in state]
    require(
        not lacking,
        f"{who} lacks {', '.join(lacking)}; perhaps another version of gpexperts has written it, and fitting "
        "and saving it again with this one helps",
    )
    for name, is_right in kinds.items():
        require(is_right(state[name]), f"{name} of {who} is of the wrong kind, or holds NaN or infinity")

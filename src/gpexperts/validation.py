"""Checks of single parameters. Each error names the parameter, the value given and what is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state

__all__ = [
    "check_bool",
    "check_count",
    "check_n_jobs",
    "check_seed",
    "check_word",
    "is_auto",
    "is_number",
    "member",
    "positive_int",
]

Stage = TypeVar("Stage")


def is_auto(value: Any) -> bool:
    """Whether `value` is the string "auto"; `array == "auto"` would be an array."""
    return isinstance(value, str) and value == "auto"


def is_number(value: Any) -> bool:
    """Whether `value` is a real number, NaN and infinity included."""
    return isinstance(value, Real) and not isinstance(value, bool)


def positive_int(value: Any, parameter: str, otherwise: str = "'auto' or ") -> int:
    """Return `value` as an int of at least 1; `otherwise` is what else the parameter accepts."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{parameter} must be {otherwise}a positive int, got {value!r}.")
    if value < 1:
        raise ValueError(f"{parameter} must be at least 1, got {value}.")
    return int(value)


def member(value: Any, named: Mapping[str, type[Stage]], base: Any, parameter: str) -> Stage:
    """Return a new instance of the class named `value`, or `value` itself if it is an instance of `base`.

    Parameters
    ----------
    value : str or instance of `base`
    named : mapping from name to class
    base : type
    parameter : str
        The constructor's parameter, for the error message.
    """
    if isinstance(value, base):
        return value
    known = ", ".join(repr(name) for name in named)
    if isinstance(value, str):
        if value in named:
            return named[value]()
        raise ValueError(f"Unknown {parameter} {value!r}; known names are {known}.")
    raise TypeError(f"{parameter} must be one of {known} or an instance of {base.__name__}, got {value!r}.")


def check_word(value: Any, parameter: str, accepted: tuple[str | None, ...]) -> None:
    """Refuse a value that is not one of the accepted words."""
    if not (value is None or isinstance(value, str)) or value not in accepted:
        listed = ", ".join(map(repr, accepted[:-1])) + f" or {accepted[-1]!r}"
        raise ValueError(f"{parameter} must be {listed}, got {value!r}.")


def check_count(value: Any, parameter: str) -> None:
    """Refuse a value that is not an int of at least 0."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{parameter} must be an int, got {value!r}.")
    if value < 0:
        raise ValueError(f"{parameter} must be at least 0, got {value}.")


def check_bool(value: Any, parameter: str) -> None:
    """Refuse a value that is not True or False: any text, "no" included, is true."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{parameter} must be True or False, got {value!r}.")


def check_n_jobs(value: Any) -> None:
    """Refuse a number of threads that joblib does not understand."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise TypeError(f"n_jobs must be an int or None, got {value!r}.")
    if value == 0:
        raise ValueError("n_jobs must not be 0; None or -1 is all usable cores.")


def check_seed(value: Any) -> None:
    """Refuse a `random_state` that scikit-learn does not understand."""
    try:
        check_random_state(value)
    except ValueError as error:
        raise ValueError(
            f"random_state must be None, an int from 0 to 2³² − 1 or a RandomState, got {value!r}."
        ) from error

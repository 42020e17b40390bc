"""Checks of single parameters. Each error names the parameter, the value given and what is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

__all__ = ["is_auto", "is_number", "member", "positive_int"]

Stage = TypeVar("Stage")


def is_auto(value: Any) -> bool:
    """Whether `value` is the string "auto"; `array == "auto"` would be an array."""
    return isinstance(value, str) and value == "auto"


def is_number(value: Any) -> bool:
    """Whether `value` is a real number, NaN and infinity included."""
    return isinstance(value, Real) and not isinstance(value, bool)


def positive_int(value: Any, parameter: str, otherwise: str = "'auto'") -> int:
    """Return `value` as an int of at least 1; `otherwise` is what else the parameter accepts."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{parameter} must be {otherwise} or a positive int, got {value!r}.")
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

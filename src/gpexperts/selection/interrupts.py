"""Ctrl-C while scikit-learn trains a network: it ends the training and only warns of it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from sklearn.exceptions import ConvergenceWarning

__all__ = ["interrupts_raised"]


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt again when a warning is given in its place; ignore ConvergenceWarning.

    Other warnings are given afterwards. If a later scikit-learn raises the interrupt, nothing changes.
    """
    others: list[tuple[Any, ...]] = []

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if isinstance(sys.exception(), KeyboardInterrupt):  # the warning is given while it is handled
            raise KeyboardInterrupt
        others.append((message, category, filename, lineno))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        warnings.showwarning = show
        yield
    for warning in others:
        warnings.warn_explicit(*warning)

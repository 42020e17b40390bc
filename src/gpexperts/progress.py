"""Progress of a long fit or prediction, and the reporters that are notified of it.

The estimator reports stages and steps to all active reporters. `verbose` activates one that prints, the
command line one that draws bars, and scikit-learn's callbacks (from 1.9) are notified by another.
"""

from __future__ import annotations

import functools
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TextIO, TypeVar

from gpexperts.callbacks import callback_reporter, with_callbacks
from gpexperts.text import printable

__all__ = [
    "PrintReporter",
    "Reporter",
    "Reporters",
    "report_only_to",
    "report_to",
    "reporters",
    "reports_progress",
]


class Reporter(Protocol):
    """Is notified of the progress of a fit or a prediction."""

    def message(self, level: int, text: str) -> None:
        """Report a decision; level 1 is of general interest, 2 is a detail."""

    def start(self, stage: str, total: int | None) -> None:
        """Start a stage, which ends the previous one; `total` is its number of steps, if known."""

    def advance(self, steps: int, note: str) -> None:
        """Finish steps of the stage; `note` is for example the value of the objective."""

    def finish(self) -> None:
        """End the last stage."""


class PrintReporter:
    """Print lines, as for `verbose=1` (every tenth step) and `verbose=2` (every step)."""

    def __init__(self, verbose: int, file: TextIO | None = None) -> None:
        self._verbose, self._file = verbose, file
        self._stage, self._done, self._last_tenth = "", 0, -1
        self._total: int | None = None

    def message(self, level: int, text: str) -> None:
        if self._verbose >= level:
            self._print(
                textwrap.wrap(f"[gpexperts] {printable(text)}", self._width, subsequent_indent="    ")
            )

    @property
    def _width(self) -> int:
        """Columns of the terminal; lines of a file are not cut."""
        file = sys.stdout if self._file is None else self._file
        return max(20, shutil.get_terminal_size().columns) if file.isatty() else 1_000_000

    def _print(self, lines: list[str]) -> None:
        print("\n".join(lines), file=self._file, flush=True)

    def _step(self, level: int, text: str) -> None:
        """Print a line of progress, cut to the width of the terminal."""
        if self._verbose >= level:
            line, width = f"[gpexperts] {printable(text)}", self._width
            self._print([line if len(line) <= width else f"{line[: width - 1]}…"])

    def start(self, stage: str, total: int | None) -> None:
        self._stage, self._total, self._done, self._last_tenth = stage, total, 0, -1
        self._step(1, f"{stage} …")

    def advance(self, steps: int, note: str) -> None:
        self._done += steps
        tenth = self._done // 10 if self._total is None else 10 * self._done // max(1, self._total)
        share = str(self._done) if self._total is None else f"{self._done} of {self._total}"
        self._step(1 if tenth != self._last_tenth else 2, f"{self._stage}: {share}{note and ', '}{note}")
        self._last_tenth = tenth

    def finish(self) -> None:
        pass


class Reporters:
    """Notify each of several reporters."""

    def __init__(self, members: tuple[Reporter, ...]) -> None:
        self._members = members

    def message(self, level: int, text: str) -> None:
        for member in self._members:
            member.message(level, text)

    def start(self, stage: str, total: int | None = None) -> None:
        for member in self._members:
            member.start(stage, total)

    def advance(self, steps: int = 1, note: str = "") -> None:
        for member in self._members:
            member.advance(steps, note)

    def finish(self) -> None:
        for member in self._members:
            member.finish()


_active: ContextVar[tuple[Reporter, ...]] = ContextVar("gpexperts_reporters", default=())


def reporters() -> Reporters:
    """Return all active reporters."""
    return Reporters(_active.get())


@contextmanager
def report_to(*more: Reporter) -> Iterator[None]:
    """Activate further reporters while inside."""
    token = _active.set((*_active.get(), *more))
    try:
        yield
    finally:
        _active.reset(token)


@contextmanager
def report_only_to(reporter: Reporter) -> Iterator[None]:
    """Replace all reporters by one while inside."""
    token = _active.set((reporter,))
    try:
        yield
    finally:
        _active.reset(token)


Method = TypeVar("Method", bound=Callable[..., Any])


def reports_progress(method: Method) -> Method:
    """Decorate an estimator's `fit`, `predict` or `explain`: activate the reporters that it is set to.

    `verbose` prints; callbacks of scikit-learn are notified of `fit` only.
    """
    is_fit = method.__name__ == "fit"

    @functools.wraps(method)
    def reporting(self: Any, *args: Any, **kwargs: Any) -> Any:
        own: list[Reporter] = [PrintReporter(self.verbose)] if self.verbose else []
        if is_fit and (callbacks := callback_reporter(self)) is not None:
            own.append(callbacks)
        with report_to(*own):
            result = method(self, *args, **kwargs)
            reporters().finish()
            return result

    return with_callbacks(reporting) if is_fit else reporting  # type: ignore[return-value]

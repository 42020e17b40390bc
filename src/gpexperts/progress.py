"""What a long fit or prediction tells while it works, and who may listen.

The estimator announces stages and steps; it does not know who listens. `verbose` adds a listener that
prints, the command line one that draws bars, and scikit-learn's callbacks (from 1.9) another.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TextIO, TypeVar

__all__ = [
    "CallbackSupport",
    "Listener",
    "Printing",
    "Several",
    "announced",
    "listeners",
    "listening",
    "only",
]


class Listener(Protocol):
    """Hears what is being done."""

    def say(self, level: int, message: str) -> None:
        """Hear of a decision; level 1 matters to most, 2 to the curious."""

    def start(self, stage: str, total: int | None) -> None:
        """Hear that a stage begins, which ends the one before; `total` is its steps, if known."""

    def advance(self, steps: int, note: str) -> None:
        """Hear that steps of the stage are done; `note` tells the objective's value, say."""

    def finish(self) -> None:
        """Hear that the last stage has ended."""


class Printing:
    """Prints lines, as `verbose=1` (every tenth step) and `verbose=2` (every step) ask for."""

    def __init__(self, verbose: int, file: TextIO | None = None) -> None:
        self._verbose, self._file = verbose, file
        self._stage, self._done, self._told = "", 0, -1
        self._total: int | None = None

    def say(self, level: int, message: str) -> None:
        if self._verbose >= level:
            print(f"[gpexperts] {message}", file=self._file, flush=True)

    def start(self, stage: str, total: int | None) -> None:
        self._stage, self._total, self._done, self._told = stage, total, 0, -1
        self.say(1, f"{stage} …")

    def advance(self, steps: int, note: str) -> None:
        self._done += steps
        tenth = self._done // 10 if self._total is None else 10 * self._done // max(1, self._total)
        share = str(self._done) if self._total is None else f"{self._done} of {self._total}"
        self.say(1 if tenth != self._told else 2, f"{self._stage}: {share}{note and ', '}{note}")
        self._told = tenth

    def finish(self) -> None:
        pass


class Several:
    """Passes on to each of several listeners."""

    def __init__(self, members: tuple[Listener, ...]) -> None:
        self._members = members

    def say(self, level: int, message: str) -> None:
        for member in self._members:
            member.say(level, message)

    def start(self, stage: str, total: int | None = None) -> None:
        for member in self._members:
            member.start(stage, total)

    def advance(self, steps: int = 1, note: str = "") -> None:
        for member in self._members:
            member.advance(steps, note)

    def finish(self) -> None:
        for member in self._members:
            member.finish()


Several.message = Several.say
_listening: ContextVar[tuple[Listener, ...]] = ContextVar("gpexperts_listening", default=())


def listeners() -> Several:
    """Return all who listen here and now."""
    return Several(_listening.get())


@contextmanager
def listening(*more: Listener) -> Iterator[None]:
    """Let further listeners hear what is announced inside."""
    token = _listening.set((*_listening.get(), *more))
    try:
        yield
    finally:
        _listening.reset(token)


@contextmanager
def only(listener: Listener) -> Iterator[None]:
    """Let nobody but one listener hear what is announced inside."""
    token = _listening.set((listener,))
    try:
        yield
    finally:
        _listening.reset(token)


# ------------------------------------------------------------------------- scikit-learn's callbacks

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks
except ImportError:  # scikit-learn before 1.9 has no callbacks

    class CallbackSupport:  # type: ignore[no-redef]
        """Stands in for scikit-learn's mixin, which `set_callbacks` comes from."""

    def with_callbacks(method: Any) -> Any:
        return method


class Callbacks:
    """Tells scikit-learn's callbacks: `fit` is the task, its stages are subtasks, their steps leaves.

    A callback's wish to stop is not heard: a step of the optimiser is not a model to stop at.
    """

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator
        self._fit = estimator._init_callback_context(max_subtasks=None)
        self._fit.call_on_fit_task_begin(estimator=estimator)
        self._stage: Any = None

    def say(self, level: int, message: str) -> None:
        pass

    def start(self, stage: str, total: int | None) -> None:
        self._end_stage()
        self._stage = self._fit.subcontext(task_name=stage, max_subtasks=None)
        self._stage.call_on_fit_task_begin(estimator=self._estimator)

    def advance(self, steps: int, note: str) -> None:
        step = self._stage.subcontext(task_name=note)
        step.call_on_fit_task_begin(estimator=self._estimator)
        step.call_on_fit_task_end(estimator=self._estimator)

    def finish(self) -> None:
        self._end_stage()
        self._fit.call_on_fit_task_end(estimator=self._estimator)

    def _end_stage(self) -> None:
        if self._stage is not None:
            self._stage.call_on_fit_task_end(estimator=self._estimator)
            self._stage = None


Method = TypeVar("Method", bound=Callable[..., Any])


def announced(method: Method) -> Method:
    """Let an estimator's `fit`, `predict` or `explain` be heard: by whom `verbose` and callbacks say."""
    is_fit = method.__name__ == "fit"

    @functools.wraps(method)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        heard: list[Listener] = [Printing(self.verbose)] if self.verbose else []
        if is_fit and (hasattr(self, "_skl_callbacks") or hasattr(self, "_parent_callback_ctx")):
            heard.append(Callbacks(self))
        with listening(*heard):
            result = method(self, *args, **kwargs)
            listeners().finish()
            return result

    return with_callbacks(told) if is_fit else told  # type: ignore[return-value]

reporters = listeners

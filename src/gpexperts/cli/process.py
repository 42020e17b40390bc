"""The process of a command: its signals, and standard streams that are closed."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

__all__ = ["ended_by_signals", "flushed_streams", "opened_streams"]

_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_REPEATED = 2.0
"""Seconds in which a further signal is the same request: the kernel and the shell both send SIGHUP."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does, with the exit code 128 + signal.

    Nothing is left behind then: they raise KeyboardInterrupt, and temporary files are removed. A signal that
    the caller ignores, as `nohup` does, stays ignored.
    """
    received: list[int] = []
    last = -_REPEATED

    def interrupt(number: int, _: Any) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _REPEATED:  # it would interrupt the removal of files
            return
        last = now
        received.append(number)
        raise KeyboardInterrupt

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        before = {number: handler for number, handler in before.items() if handler == signal.SIG_DFL}
    try:
        for number in before:
            signal.signal(number, interrupt)
        yield
    except BaseException:
        if not received:
            raise
        raise SystemExit(128 + received[0]) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def flushed_streams() -> Iterator[None]:
    """Flush what was printed, in the end; what cannot be written then does not change the exit code."""
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):  # a terminal that is gone, a full disk
                with suppress(OSError, ValueError):
                    nowhere = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(nowhere, stream.fileno())
                    os.close(nowhere)


class _Closed:
    """Standard output that the caller has closed: a command that prints results fails."""

    encoding = "utf-8"

    def write(self, _: str) -> int:
        raise _closed()

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False

    @property
    def buffer(self) -> Any:
        raise _closed()

    def fileno(self) -> int:
        raise _closed()


def _closed() -> OSError:
    return OSError(errno.EBADF, "Standard output is closed")


@contextmanager
def opened_streams() -> Iterator[None]:
    """Stand in for standard streams that are closed.

    A file that is opened later would get the descriptor of such a stream, and messages could be written into
    it. Python has None in place of the stream, and prints messages for None on standard output.
    """
    before: tuple[TextIO, TextIO] = sys.stdout, sys.stderr
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, this one
    try:
        if sys.stdout is None:
            sys.stdout = _Closed()
        if sys.stderr is None:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
        yield
    finally:
        sys.stdout, sys.stderr = before

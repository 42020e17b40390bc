"""Standard input that Ctrl-C interrupts.

Arrow reads in its own thread while the main thread waits for it, and Python handles signals in the main
thread only: Ctrl-C would have no effect until more input comes. Python's signal handler therefore writes to
a pipe, and reading waits for input and for that pipe.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import threading
from typing import Any

from gpexperts.tables.arrow import pa

__all__ = ["arrow_may_be_reading", "standard_input"]

_opened = False


def arrow_may_be_reading() -> bool:
    """Whether a thread of Arrow may be waiting for standard input, which it reads by calling Python."""
    return _opened


def standard_input() -> Any:
    """Return a stream of bytes with `read` and `close`."""
    stream = sys.stdin.buffer
    try:
        descriptor = stream.fileno()
    except io.UnsupportedOperation:  # replaced by an object in memory
        return stream
    in_main_thread = threading.current_thread() is threading.main_thread()
    return _Interruptible(descriptor) if in_main_thread and os.name == "posix" else stream


class _Interruptible:
    def __init__(self, descriptor: int) -> None:
        global _opened
        _opened = True
        self._input = descriptor
        self._signals, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        pa.enable_signal_handlers(False)  # the handler of Arrow would replace Python's

    def read(self, n: int) -> bytes:
        """Return n bytes, or fewer at the end."""
        pieces: list[bytes] = []
        while n > 0:
            ready, _, _ = select.select([self._input, self._signals], [], [])
            if self._signals in ready:
                raise KeyboardInterrupt
            piece = os.read(self._input, n)
            if not piece:
                break
            pieces.append(piece)
            n -= len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        pass

"""Standard input and texts in other encodings, copied to an unnamed temporary file.

The reader threads of Arrow must not call Python: a bad row, Ctrl-C or the end of the process while a thread
waits for input could abort or block the process. An ordinary file is read by Arrow alone.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpexperts.exceptions import TableError
from gpexperts.tables.arrow import pa

__all__ = ["as_utf8", "standard_input"]

_PIECE = 1024**2


def standard_input() -> Any:
    """Read standard input to its end and return it as a file of Arrow that can seek."""
    if sys.stdin is None:
        raise TableError("Standard input is closed; give a file, or pipe the table to the command.")
    try:
        source = sys.stdin.buffer.fileno()
    except io.UnsupportedOperation:  # replaced by an object in memory
        return _copied(iter(lambda: sys.stdin.buffer.read(_PIECE), b""))
    return _copied(_pieces(source))


def as_utf8(stream: Any, encoding: str, source: str) -> Any:
    """Return the rest of a stream of bytes in another encoding as a file of Arrow in UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)()

    def pieces() -> Iterator[bytes]:
        while piece := stream.read(_PIECE):
            yield decoder.decode(piece).encode()
        yield decoder.decode(b"", final=True).encode()

    try:
        return _copied(pieces())
    except (UnicodeError, AttributeError) as error:  # AttributeError: a codec that gives no text
        raise TableError(
            f"{source} cannot be read as {encoding}: {error}. Give its encoding, such as --encoding latin-1."
        ) from error


def _copied(pieces: Iterator[bytes]) -> Any:
    # The name is chosen before the file exists, so that it is removed after any interrupt.
    path = os.path.join(tempfile.gettempdir(), f"gpexperts-{uuid.uuid4().hex}")
    try:
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as copy:
            copy.writelines(pieces)
        return pa.OSFile(path)
    finally:
        Path(path).unlink(missing_ok=True)  # the open file remains readable


def _pieces(source: int) -> Iterator[bytes]:
    """Read a descriptor to its end; Ctrl-C is never lost.

    A signal that arrives just before a blocking read would be noticed only when more input comes. Python's
    handler therefore writes to a pipe, and reading waits for input and for that pipe.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        while piece := os.read(source, _PIECE):
            yield piece
        return
    signals, write_end = os.pipe()
    os.set_blocking(write_end, False)
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        while True:
            ready, _, _ = select.select([source, signals], [], [])
            if signals in ready:
                os.read(signals, _PIECE)
                continue  # the handler itself runs here, and raises KeyboardInterrupt for SIGINT
            if not (piece := os.read(source, _PIECE)):
                return
            yield piece
    finally:
        signal.set_wakeup_fd(before)
        os.close(signals)
        os.close(write_end)

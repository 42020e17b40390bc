"""Ends all processes that have a text in their environment, once standard input is closed.

A test holds the other end of the pipe. It is closed when the test has ended, also if the test was killed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


def marked(mark: bytes) -> list[int]:
    """Processes that have the text in their environment, which their children inherit."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue  # it has ended, or belongs to another user
    return found


def end(mark: bytes, seconds: float) -> list[int]:
    """Kill processes until none is left; return those that are left after some seconds."""
    until = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < until:
        for number in left:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.2)
    return left


if __name__ == "__main__":
    sys.stdin.read()
    left = end(sys.argv[1].encode(), 60.0)
    sys.exit(f"processes {left} are left behind" if left else 0)

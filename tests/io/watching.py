"""Load files in a process of its own, and watch its time, memory and threads."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

_CHILD = """
import ctypes, gc, re, resource, sys, time, warnings
import gpexperts
from gpexperts.exceptions import ModelFileError

def memory(name):
    with open("/proc/self/status") as file:
        return int(re.search(name + r":\\s+(\\d+) kB", file.read())[1])

resource.setrlimit(resource.RLIMIT_AS, (8 * 10**9,) * 2)  # spare the machine
warnings.simplefilter("ignore")  # of numbers that overflow
gpexperts.load(sys.argv[1])
gc.collect()
gc.freeze()
for line in sys.stdin:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # memory of earlier files would hide what this one takes
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts anew
    before, began = memory("VmRSS"), time.process_time()
    try:
        gpexperts.load(line.rstrip("\\n"))
        end = "loaded"
    except ModelFileError:
        end = "refused"
    print(end, memory("VmHWM") - before, time.process_time() - began, flush=True)
"""

_POLL = 0.005
_HANGS = 300.0
"""Seconds after which a file counts as one that never ends, on a busy machine."""
_MOST_SECONDS = 30.0
"""Of CPU time, after which it counts as one too."""
_THREADS = 50


class Cost(NamedTuple):
    """What a file took to load."""

    end: str
    """"loaded", "refused", "crashed" (any other error, or the end of the process) or "hangs"."""
    bytes: int
    """Length of the file."""
    megabytes: float
    """Memory at most, beyond what the process had before."""
    seconds: float
    """Of CPU time."""
    threads: int
    """At most."""

    def excess(self) -> list[str]:
        """What is over its limit: 1 s + 1 s per 10 MB, 50 MB + 10 × the file, 50 threads."""
        size = self.bytes / 1e6
        over = {
            f"end: {self.end}": self.end not in ("loaded", "refused"),
            f"memory: {self.megabytes:.0f} MB": self.megabytes > 50 + 10 * size,
            f"time: {self.seconds:.2f} s": self.seconds > 1 + size / 10,
            f"threads: {self.threads}": self.threads > _THREADS,
        }
        return [name for name, is_over in over.items() if is_over]


class Watch:
    """A process that loads one file after the other; it is started again after a crash.

    Parameters
    ----------
    good : Path
        A file that loads, for the imports before the first measurement.
    """

    def __init__(self, good: Path) -> None:
        self._good = good
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def load(self, path: Path) -> Cost:
        """Load a file and return what it took.

        A file over a limit is loaded again in a new process, and what that took is returned: other processes
        of a busy machine, or what the process did before, must not count.
        """
        cost = self._loaded(path)
        if cost.excess():
            self._end()
            cost = self._loaded(path)
        return cost

    def _loaded(self, path: Path) -> Cost:
        size = path.stat().st_size if path.exists() else 0
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        threads, until = 1, time.monotonic() + _HANGS
        most = self._cpu_seconds(process.pid) + _MOST_SECONDS
        while not select.select([process.stdout], [], [], _POLL)[0]:
            threads = max(threads, self._threads(process.pid))
            if time.monotonic() > until or self._cpu_seconds(process.pid) > most:
                self._end()
                return Cost("hangs", size, 0.0, _MOST_SECONDS, threads)
        line = process.stdout.readline()
        if not line:
            self._end()
            return Cost("crashed", size, 0.0, 0.0, threads)
        end, kilobytes, seconds = line.split()
        return Cost(end, size, int(kilobytes) / 1e3, float(seconds), threads)

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CHILD, self._good],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    @staticmethod
    def _cpu_seconds(pid: int) -> float:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def _threads(pid: int) -> int:
        try:
            found = re.search(r"Threads:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        except OSError:  # it has ended
            return 0
        return int(found[1]) if found else 0

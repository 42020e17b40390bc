"""No process of a test is left behind, even if the test is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.federated import watchdog

PARENT = """
import os, subprocess, sys
pipe = subprocess.Popen([sys.executable, sys.argv[1], "MARK=" + sys.argv[2]], stdin=subprocess.PIPE)
child = subprocess.Popen(
    ["sleep", "600"], env={**os.environ, "MARK": sys.argv[2]}, start_new_session=True
)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")
def test_processes_end_with_a_test_that_is_killed() -> None:
    mark = uuid.uuid4().hex
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, watchdog.__file__, mark], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert watchdog.marked(f"MARK={mark}".encode()) == [child]
    parent.kill()
    parent.communicate()
    while watchdog.marked(f"MARK={mark}".encode()):  # ends, or the time limit of the test ends it
        os.sched_yield()

"""How a worker keeps freed memory."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import os, resource
import numpy as np
from gpexperts.engines.worker import keep_freed_memory

def pages() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(300):
        np.ones((250, 250))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with keep_freed_memory():
    pages()
    print(pages())
print(pages())
os.environ["MALLOC_TRIM_THRESHOLD_"] = "131072"
with keep_freed_memory():
    print(pages())
"""
"""Count the new pages of 300 matrices of 122 pages each, one after the other."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="Dask sets the threshold of glibc only")
def test_memory_is_kept_only_inside_and_not_if_the_user_has_set_a_threshold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"},  # as Dask's nanny sets it
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    inside, after, user_set = map(int, done.stdout.split())
    assert inside < 300
    assert after > 30_000
    assert user_set > 30_000

"""How a worker does a piece of work."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import os, resource
import numpy as np
from gpexperts.engines.worker import _keep_memory_at_hand, worked

def pages() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(300):
        np.ones((250, 250))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

found, os.environ["MALLOC_TRIM_THRESHOLD_"] = os.environ["MALLOC_TRIM_THRESHOLD_"], "somebody's choice"
print(worked(pages))
_keep_memory_at_hand.cache_clear()
os.environ["MALLOC_TRIM_THRESHOLD_"] = found
worked(pages)
print(worked(pages))
"""
"""Counts the pages that are new for 300 matrices of 122 pages each, one after the other."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="Dask tells only glibc to give memory back")
def test_memory_stays_at_hand_unless_somebody_wants_it_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"},  # as Dask's nanny sets it
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    before, after = map(int, done.stdout.split())
    assert before > 30_000
    assert after < 300

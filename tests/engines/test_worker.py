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
from gpexperts.engines.worker import memory_at_hand

def pages() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(300):
        np.ones((250, 250))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with memory_at_hand():
    pages()
    print(pages())
print(pages())
os.environ["MALLOC_TRIM_THRESHOLD_"] = "131072"
with memory_at_hand():
    print(pages())
"""
"""Counts the pages that are new for 300 matrices of 122 pages each, one after the other."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="Dask tells only glibc to give memory back")
def test_memory_is_kept_inside_alone_and_not_against_somebodys_choice() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"},  # as Dask's nanny sets it
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    inside, after, by_choice = map(int, done.stdout.split())
    assert inside < 300
    assert after > 30_000
    assert by_choice > 30_000

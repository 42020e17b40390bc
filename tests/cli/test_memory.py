"""Memory does not grow with the length of a table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.cli_throughput import small_model, write_table

COMMAND = """
import resource, sys
from gpexperts.cli import main
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def peak_megabytes(folder: Path, n: int, ending: str) -> float:
    table, out = folder / f"{n}.{ending}", folder / f"out.{ending}"
    write_table(table, n)
    small_model().save(folder / "model.gpx")
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "predict", folder / "model.gpx", table, "-o", out, "--quiet"],
        capture_output=True, text=True, check=True, env={**os.environ, "MALLOC_ARENA_MAX": "2"},
    )  # fmt: skip
    return int(done.stderr.split()[-1]) / 1024


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_million_rows_take_the_memory_of_two_hundred_thousand(ending: str, tmp_path: Path) -> None:
    few, many = (peak_megabytes(tmp_path, n, ending) for n in (200_000, 1_000_000))
    print(f"{ending}: {few:.0f} MB for 200,000 rows, {many:.0f} MB for 1,000,000")
    assert abs(many - few) < 50


@pytest.mark.slow
def test_more_batches_take_no_more_memory(tmp_path: Path) -> None:
    """The same in small: columns of 400,000 rows would take 34 MB, and their predictions 13 MB."""
    few, many = (peak_megabytes(tmp_path, n, "parquet") for n in (140_000, 400_000))
    assert many - few < 25

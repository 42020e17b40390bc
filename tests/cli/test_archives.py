"""Compressed tables: bad rows end a command with a message, and archives do not fill the memory."""

from __future__ import annotations

import bz2
import gzip
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpexperts.tables import unpacked
from tests.cli.bad_input import COMMANDS, GOOD, not_matching, refusals
from tests.cli.houses import COMMAND, write_as

# A length scale at its bound is reported, which is no failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")


def _zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


PACK: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "zst": _zstd, "bz2": bz2.compress}
ROW = b"h5,50,2,west,100\n"
BAD = {
    "a word": (b"h6,large,2,west,100\n", "invalid value 'large'|holds numbers, but also 1 of"),
    "a short row": (b"h6,1\n", "Expected 5 columns, got 2"),
    "another encoding": (b"h6,50,2,w\xe9st,100\n", "not UTF-8"),
}


@pytest.mark.parametrize("ending", PACK)
def test_compressed_tables_are_read(run, ending: str) -> None:
    Path(f"t.csv.{ending}").write_bytes(PACK[ending](GOOD))
    assert run(*COMMANDS["predict"](f"t.csv.{ending}")).code == 0
    assert len(Path("out.csv").read_text().splitlines()) == 5
    ended = run("predict", "houses.gpx", f"t.csv.{ending}", "-o", f"out.csv.{ending}")
    assert ended.code == 0, ended


@pytest.mark.parametrize(
    ("ending", "bad"),
    [
        pytest.param(ending, bad, marks=() if (ending, bad) == ("gz", "a word") else pytest.mark.slow)
        for ending in PACK
        for bad in BAD
    ],
)
def test_a_bad_row_far_below_is_one_message(run, ending: str, bad: str) -> None:
    row, words = BAD[bad]
    content = GOOD + ROW * 65_000 + row + ROW * 10  # beyond the first megabyte
    Path(f"bad.csv.{ending}").write_bytes(PACK[ending](content))
    messages = refusals(run, f"bad.csv.{ending}", ("fit", "predict", "evaluate"))
    assert not_matching(words, messages) == []


# -------------------------------------------------------------------------------------------- bombs


@pytest.fixture
def bombs(run) -> list[str]:
    """Tables of a megabyte and more in files of a few kB."""
    n = 60_000
    for ending, pack in PACK.items():
        Path(f"bomb.csv.{ending}").write_bytes(pack(GOOD + ROW * n))
    n = 400_000
    columns = {
        "id": ["h"] * n,
        "area": [50.0] * n,
        "rooms": [2] * n,
        "town": ["west"] * n,
        "price": [1.0] * n,
    }
    table = pa.table(columns)
    pq.write_table(table, "runs.parquet")
    pq.write_table(table, "zeros.parquet", use_dictionary=False, compression="zstd")
    with pa.ipc.new_file(
        "bomb.feather", table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as w:
        w.write_table(table)
    with pa.ipc.new_stream(
        "bomb.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
    ) as w:
        w.write_table(table)
    return [
        *(f"bomb.csv.{ending}" for ending in PACK),
        "runs.parquet",
        "zeros.parquet",
        "bomb.feather",
        "bomb.arrow",
    ]


def test_archives_that_fill_the_memory_are_refused(run, bombs: list[str], monkeypatch) -> None:
    monkeypatch.setattr(unpacked, "_FREE", 500_000)
    for name in bombs:
        messages = refusals(run, name, ("fit", "evaluate"))
        words = rf"{name} takes [\d.]+ \w+ and unpacks to at least [\d.]+ \w+, [\d,]+ times as much"
        assert not_matching(words, messages) == []
        os.remove(name)


def test_batches_that_are_unpacked_whole_are_refused(run, bombs: list[str], monkeypatch) -> None:
    monkeypatch.setattr(unpacked, "_FREE", 500_000)
    for name in ("zeros.parquet", "bomb.feather", "bomb.arrow"):
        ended = run("predict", "houses.gpx", name, "-o", "out.csv")
        assert ended.code == 2, ended
        assert "times as much" in ended.err


def test_tables_within_the_ratio_are_read(run, monkeypatch) -> None:
    monkeypatch.setattr(unpacked, "_FREE", 0)
    table = pa.table({"id": ["a", "b"], "area": [1.0, 2.0], "rooms": [1, 2], "town": ["west", "west"]})
    for name in ("t.csv.gz", "t.csv.bz2", "t.parquet", "t.feather", "t.arrow"):
        write_as(table.append_column("price", pa.array([1.0, 2.0])), name)
        assert run(*COMMANDS["evaluate"](name)).code == 0
        assert run(*COMMANDS["predict"](name)).code == 0


def test_the_lengths_of_arrow_arrays_are_those_of_arrow(tmp_path: Path) -> None:
    """Independent truth: the bytes that Arrow itself holds after reading."""
    n = 10_000
    table = pa.table({"a": pa.array(range(n), pa.int64()), "b": pa.array([1.5] * n), "c": ["x" * 30] * n})
    for name, is_file in (("t.feather", True), ("t.arrow", False)):
        for compression in (None, "zstd", "lz4"):
            options = pa.ipc.IpcWriteOptions(compression=compression)
            open_writer = pa.ipc.new_file if is_file else pa.ipc.new_stream
            with open_writer(str(tmp_path / name), table.schema, options=options) as writer:
                writer.write_table(table)
            counted = unpacked.arrow_bytes(str(tmp_path / name), is_file)
            assert counted == pytest.approx(table.nbytes, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["fit", "predict", "evaluate"])
def test_three_megabytes_that_unpack_to_three_gigabytes(run, command: str) -> None:
    """Read in bounded memory, or refused: never more than 1.5 GB of address space beyond what is mapped."""
    with gzip.open("bomb.csv.gz", "wb", compresslevel=9) as file:
        file.write(GOOD)
        for _ in range(300):
            file.write(ROW * 600_000)
    assert Path("bomb.csv.gz").stat().st_size < 15_000_000
    process = subprocess.Popen(
        [*COMMAND, *COMMANDS[command]("bomb.csv.gz")], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert process.stderr is not None
    with process:
        try:
            _, message = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:  # `predict` goes on, in bounded memory
            assert command == "predict"
            peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
            assert int(peak[1]) < 800_000
            process.terminate()
            process.communicate(timeout=60)
            assert process.returncode == 143
            return
        assert process.returncode == 2
        assert b"times as much" in message
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 800_000, sys.platform

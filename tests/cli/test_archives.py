"""Compressed tables: bad rows end a command with a message, and archives do not fill the memory."""

from __future__ import annotations

import bz2
import gzip
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpexperts.exceptions import TableError
from gpexperts.tables import unpacked
from gpexperts.tables.reading import open_table
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
        pytest.param(ending, bad, marks=() if (ending, bad) == ("gz", "a short row") else pytest.mark.slow)
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


def test_an_archive_that_fills_the_memory_is_refused_by_the_commands(run, monkeypatch) -> None:
    monkeypatch.setattr(unpacked, "_FREE", 500_000)
    Path("bomb.csv.gz").write_bytes(gzip.compress(GOOD + ROW * 60_000))
    words = r"bomb.csv.gz takes [\d.]+ kB and unpacks to at least 1.0 MB, [\d,]+ times as much; more than 100"
    assert not_matching(words, refusals(run, "bomb.csv.gz", ("fit", "evaluate", "report"))) == []


@pytest.fixture
def bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Tables of 16 MB in small files, by their names."""
    monkeypatch.setattr(unpacked, "_FREE", 4_000_000)
    table = pa.table({"a": np.zeros(2_000_000)})
    paths = {
        name: str(tmp_path / name) for name in ("z.csv.zst", "r.parquet", "z.parquet", "z.feather", "z.arrow")
    }
    Path(paths["z.csv.zst"]).write_bytes(_zstd(b"a\n" + b"0.000000\n" * 1_000_000))
    pq.write_table(table, paths["r.parquet"])  # a run of equal values
    pq.write_table(table, paths["z.parquet"], use_dictionary=False, compression="zstd")
    for name, opener in (("z.feather", pa.ipc.new_file), ("z.arrow", pa.ipc.new_stream)):
        with opener(paths[name], table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)
    return paths


def test_bombs_of_all_formats_are_refused_where_rows_are_kept(bombs: dict[str, str]) -> None:
    for path in bombs.values():
        with pytest.raises(TableError, match="times as much; more than 100 times is refused"):
            open_table(path).read(["a"])
        with pytest.raises(TableError, match="times as much"):
            next(open_table(path).batches(["a"], {"a": pa.float64()}, 1000, in_memory=True))


def test_batches_that_are_unpacked_whole_are_refused(bombs: dict[str, str]) -> None:
    for name, path in bombs.items():
        batches = open_table(path).batches(["a"], {"a": pa.float64()}, 1000)
        if name in ("z.csv.zst", "r.parquet"):  # unpacked piece by piece
            assert next(batches).num_rows == 1000
            continue
        with pytest.raises(TableError, match="times as much"):
            next(batches)


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
            with pa.OSFile(str(tmp_path / name)) as file:
                file.seek(8 if is_file else 0)
                counted = unpacked.arrow_bytes(file, 10**9)
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

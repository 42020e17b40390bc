"""Damaged binary and compressed tables are read or refused; they neither crash nor take much memory.

    python -m tests.cli.test_hostile_tables FIRST LAST FOLDER

reads the tables of these seeds and prints how many were read and refused.
"""

from __future__ import annotations

import bz2
import gzip
import random
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from gpexperts.exceptions import TableError
from gpexperts.tables.reading import open_table
from gpexperts.tables.training import read_understood
from gpexperts.tables.understand import Plan


@cache
def _originals() -> dict[str, bytes]:
    """A table of numbers, texts, codes and dates in every format."""
    rng, n = np.random.default_rng(0), 80
    days = np.datetime64("2020-01-01") + np.arange(n) * np.timedelta64(1, "D")
    plain = pa.table(
        {
            "id": [f"h{i}" for i in range(n)],
            "area": rng.uniform(30, 200, n),
            "rooms": rng.integers(1, 7, n),
            "town": rng.choice(["north", "south", "west"], n),
            "day": days,
            "price": rng.normal(size=n),
        }
    )
    coded = plain.set_column(3, "town", plain["town"].dictionary_encode())
    found = {}
    for name, compression in (("plain.feather", "uncompressed"), ("packed.feather", "lz4")):
        sink = pa.BufferOutputStream()
        feather.write_feather(coded, sink, compression=compression)
        found[name] = sink.getvalue().to_pybytes()
    for name, more in (("a.parquet", {}), ("b.parquet", {"use_dictionary": False, "compression": "zstd"})):
        sink = pa.BufferOutputStream()
        pq.write_table(coded, sink, **more)
        found[name] = sink.getvalue().to_pybytes()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, coded.schema) as writer:
        writer.write_table(coded)
    found["stream.arrow"] = sink.getvalue().to_pybytes()
    sink = pa.BufferOutputStream()
    pacsv.write_csv(plain, sink)
    text = sink.getvalue().to_pybytes()
    return {**found, "a.csv.gz": gzip.compress(text, mtime=0), "a.csv.bz2": bz2.compress(text)}


def damaged(seed: int) -> tuple[str, bytes]:
    """Return the name and the content of a table with one to three changes."""
    rng = random.Random(seed)
    name = rng.choice(sorted(_originals()))
    content = bytearray(_originals()[name])
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(content))
        if rng.random() < 0.5:  # the descriptions of columns are at the end
            at = max(0, len(content) - 1 - rng.randrange(2500))
        how = rng.choice(["flip", "cut", "hole", "double", "append", "number"])
        if how == "flip":
            content[at] ^= 1 << rng.randrange(8)
        elif how == "cut":
            del content[max(1, at) :]
        elif how == "hole":
            content[at : at + 64] = bytes(rng.choice([0, 255]) for _ in range(rng.randint(1, 64)))
        elif how == "double":
            content[at:at] = content[at : at + rng.randint(1, 200)]
        elif how == "append":
            content += rng.randbytes(rng.randint(1, 50))
        else:
            content[at : at + 4] = rng.choice([b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff" * 4, b"\1\0\0\0"])
    return name, bytes(content)


def read(path: Path) -> str:
    """Read a table at once and in batches: "read" or "refused"."""
    try:
        reader = open_table(str(path))
        read_understood(reader, Plan(targets=["price"]))
        for batch in open_table(str(path)).batches(reader.names, {}, 7):
            assert all(len(column.unique()) <= 7 for column in batch.columns)  # touches every value
    except TableError:
        return "refused"
    return "read"


def main(first: int, last: int, folder: Path) -> None:
    """Print the seed before each table, so that the last one is that of a crash."""
    ends: Counter[str] = Counter()
    for seed in range(first, last):
        name, content = damaged(seed)
        path = folder / name
        path.write_bytes(content)
        print(seed, file=sys.stderr, flush=True)
        ends[read(path)] += 1
    print(*(f"{count:,} {end}" for end, count in sorted(ends.items())), sep=", ")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [150, pytest.param(20_000, marks=pytest.mark.slow)])
def test_damaged_tables_do_no_harm(count: int, tmp_path: Path) -> None:
    """In a process of its own, whose address space is limited."""
    limit = "import resource as r; r.setrlimit(r.RLIMIT_AS, (6 * 10**9,) * 2); "
    code = "import sys; from pathlib import Path; from tests.cli.test_hostile_tables import main; "
    ended = subprocess.run(
        [sys.executable, "-c", f"{limit}{code}main(0, {count}, Path(sys.argv[1]))", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "refused" in ended.stdout


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))

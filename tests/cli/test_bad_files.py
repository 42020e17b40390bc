"""Missing, locked, special, full or changing files: one paragraph, code 2, and old files stay."""

from __future__ import annotations

import errno
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from gpexperts.tables import csv_reader, reading
from tests.cli.bad_input import COMMANDS, GOOD, ROWS, not_matching, refusals

# A length scale at its bound is reported, which is no failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")


def test_folder_pipe_and_missing_file(run) -> None:
    os.mkdir("folder.csv")
    os.mkfifo("pipe.csv")
    assert not_matching("folder.csv is a folder, not a file", refusals(run, "folder.csv")) == []
    assert not_matching("pipe.csv is not a file", refusals(run, "pipe.csv")) == []
    assert not_matching("none.csv does not exist", refusals(run, "none.csv")) == []


@contextmanager
def other_user() -> Iterator[None]:
    """Run as a user without the permissions of root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_no_permission(run) -> None:
    for name in ("locked.csv", "locked.parquet"):
        Path(name).write_bytes(GOOD)
        os.chmod(name, 0)
    os.chmod(".", 0o755)
    run(*COMMANDS["evaluate"]("test_houses.csv"))  # the other user may not be able to import
    with other_user():
        for name in ("locked.csv", "locked.parquet"):
            ended = run(*COMMANDS["evaluate"](name))
            assert ended.code == 2
            assert re.fullmatch(rf"gpexperts: {name} cannot be read: .*Permission denied.*\n", ended.err)
        ended = run("predict", "houses.gpx", "new_houses.csv", "-o", "mine.csv")
        assert ended.code == 2
        assert re.fullmatch(r"gpexperts: \[Errno 13\] Permission denied: 'mine.csv'\n", ended.err)
    assert not Path("mine.csv").exists()


@pytest.mark.parametrize("device", ["/dev/null", "pipe"])
@pytest.mark.parametrize("command", ["fit", "predict", "report"])
def test_devices_and_pipes_are_not_replaced_by_files(run, command: str, device: str) -> None:
    if device == "pipe":
        os.mkfifo("pipe")
    mode = os.stat(device).st_mode
    table = "new_houses.csv" if command == "predict" else "test_houses.csv"
    *args, _ = COMMANDS[command](table)
    ended = run(*args, device, *(("--out-format", "csv") if command == "predict" else ()))
    assert ended.code == 2
    assert "is a pipe or a device" in ended.err
    assert os.stat(device).st_mode == mode


def test_link_is_kept(run) -> None:
    os.mkdir("elsewhere")
    os.symlink("elsewhere/real.csv", "out.csv")
    assert run(*COMMANDS["predict"]("new_houses.csv")).code == 0
    assert os.path.islink("out.csv")
    assert Path("elsewhere/real.csv").read_text().startswith('"id","mean"')


WRITES = [
    ("fit", "out.gpx"),
    *(("predict", f"out.{ending}") for ending in ("csv", "csv.gz", "csv.zst", "parquet", "feather")),
    ("report", "out.html"),
]


@pytest.fixture
def assert_kept(run) -> Callable[[str, str], None]:
    """Run a command that should fail to overwrite a file, which should stay."""

    def write(command: str, out: str) -> None:
        Path(out).write_text("precious")
        before = sorted(os.listdir())
        *args, _ = COMMANDS[command]("test_houses.csv")
        ended = run(*args, out)
        assert ended.code == 2, ended
        assert re.search(r"^gpexperts: .*(No space left on device|File too large)", ended.err), ended
        assert "unexpected" not in ended.err
        assert ended.err.count("\n") == 1
        assert sorted(os.listdir()) == before
        assert Path(out).read_text() == "precious"

    return write


@pytest.mark.parametrize(("command", "out"), WRITES)
def test_refused_write(assert_kept, command: str, out: str) -> None:
    """With a limit on the size of files the same calls fail as with a full disk."""
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, hard))
    try:
        assert_kept(command, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize(("command", "out"), WRITES)
@pytest.mark.parametrize(
    "point", ["os.fsync", "pathlib.Path.replace", "pathlib.Path.chmod", "pathlib.Path.touch"]
)
def test_full_disk_at_any_point(assert_kept, monkeypatch, command: str, out: str, point: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(point, fail)
    assert_kept(command, out)


FORKS = """
import os, sys
import gpexperts.cli.app
from gpexperts.cli import main
for line in sys.argv[1:]:
    if os.fork() == 0:  # each in a process of its own, without importing everything again
        sys.argv = ["gpexperts", *line.split()]
        main()
    _, status = os.wait()
    print(f"ended with {os.waitstatus_to_exitcode(status)}", file=sys.stderr, flush=True)
"""


def test_full_standard_output(run) -> None:
    commands = ("predict houses.gpx new_houses.csv -o -", "info houses.gpx --json", "--version")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", FORKS, *commands], stdout=full, stderr=subprocess.PIPE, text=True
        )
    lines = done.stderr.splitlines()
    assert lines[1::2] == ["ended with 2"] * 3
    assert all(re.fullmatch("gpexperts: .*No space left on device", line) for line in lines[::2])


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(ROWS)


def _other_columns(path: Path) -> None:
    path.write_bytes(b"price,town,rooms,area,id\n1,west,2,3,h1\n")


def _replace(path: Path) -> None:
    Path("new").write_bytes(GOOD)
    os.replace("new", path)


def _remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("change", [_cut, _empty, _grow, _other_columns, _replace, _remove])
@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_file_that_changes_while_it_is_read(run, monkeypatch, change, ending: str) -> None:
    table = pacsv.read_csv("test_houses.csv")
    name = f"table.{ending}"
    if ending == "csv":
        content, looked = Path("test_houses.csv").read_bytes(), "read_head"
    else:
        sink, looked = pa.BufferOutputStream(), "_check_description"
        if ending == "parquet":
            pq.write_table(table, sink)
        else:
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        content = sink.getvalue().to_pybytes()
    place = csv_reader if ending == "csv" else reading
    look = getattr(place, looked)

    def check_and_change(*args: object) -> object:
        seen = look(*args)
        change(Path(name))
        return seen

    monkeypatch.setattr(place, looked, check_and_change)
    for command in COMMANDS:
        Path(name).write_bytes(content)
        Path("out.csv").write_text("precious")
        ended = run(*COMMANDS[command](name))
        assert ended.code == 2, ended
        assert re.search(f"{name} was changed while it was being read|{name} cannot be read", ended.err), (
            ended
        )
        assert "unexpected" not in ended.err
        assert Path("out.csv").read_text() == "precious"
        assert not list(Path().glob(".*.part"))
    if ending == "csv":
        assert "was changed while" in ended.err

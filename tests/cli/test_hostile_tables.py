"""Bad tables and bad luck with files: one paragraph, exit code 2, and what was there stays there."""

from __future__ import annotations

import errno
import gzip
import os
import re
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import gpexperts
from gpexperts.tables import reading

pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")

OPTIONS = ("-t", "price", "--drop", "id", "--one-hot", "auto", "--optimizer", "none", "--n-experts", "2")
COMMANDS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "fit": lambda table: ("fit", table, *OPTIONS, "-o", "out.gpx"),
    "predict": lambda table: ("predict", "houses.gpx", table, "--keep", "id", "-o", "out.csv"),
    "evaluate": lambda table: ("evaluate", "houses.gpx", table),
    "report": lambda table: ("report", "houses.gpx", table, "-o", "out.html"),
}
OUTPUTS = ("out.gpx", "out.csv", "out.html")

HEADER = b"id,area,rooms,town,price\n"
ROWS = b"h1,50.5,2,north,100.5\nh2,60.5,3,south,120.5\nh3,70.5,4,west,140.5\nh4,80.5,1,west,150\n"
GOOD = HEADER + ROWS


def refusals(run, name: str, commands: tuple[str, ...] = tuple(COMMANDS)) -> list[str]:
    """What every command says of the table: one line, after which all files are as they were."""
    for output in OUTPUTS:
        Path(output).write_text("precious")
    before = {file: os.stat(file).st_size for file in os.listdir()}
    said = []
    for command in commands:
        ended = run(*COMMANDS[command](name))
        assert ended.code == 2, (command, ended)
        assert ended.err.startswith("gpexperts: "), (command, ended)
        assert "unexpected" not in ended.err, (command, ended)
        assert ended.err.count("\n") == 1
        assert ended.err.strip().isprintable()
        assert len(ended.err) < 2100
        assert {file: os.stat(file).st_size for file in os.listdir()} == before
        assert all(Path(output).read_text() == "precious" for output in OUTPUTS)
        said.append(ended.err)
    return said


def lacking(words: str, said: list[str]) -> list[str]:
    """Those of the lines that do not match `words`."""
    return [line for line in said if not re.search(words, line)]


# ----------------------------------------------------------------------------------- the contents

TEXTS: dict[str, tuple[bytes, str]] = {
    "UTF-16 with a mark": (GOOD.decode().encode("utf-16"), "is UTF-16, and a CSV is read as UTF-8.*iconv"),
    "UTF-16 without": (GOOD.decode().encode("utf-16-be"), "is not text: it holds NUL bytes.*UTF-16"),
    "UTF-32": (GOOD.decode().encode("utf-32"), "is UTF-32"),
    "Latin-1": (GOOD.replace(b"west", b"w\xe9st"), "is not UTF-8: row 4 holds other bytes. Save it as UTF-8"),
    "Latin-1 names": (GOOD.replace(b"town", b"t\xf6wn"), "is not UTF-8: row 1"),
    "random bytes": (np.random.default_rng(0).bytes(5000), "is not text|is not UTF-8"),
    "a NUL byte": (GOOD.replace(b"h2", b"h\x002"), "is not text"),
    "nothing but NUL bytes": (b"\0" * 5000, "is not text"),
    "a row too long": (GOOD + b"h9,1,2,north,3,4,5\n", "Expected 5 columns, got 7"),
    "a row too short": (GOOD + b"h9,1\n", "Expected 5 columns, got 2"),
    "an open quotation mark": (HEADER + b'h0,"1,2,north,3\n' + ROWS, "Expected 5 columns|never closed"),
    "a field without end": (HEADER + b"h" * 3_000_000 + b",1,2,north,3\n", "a row is too long"),
    "an empty file": (b"", "is empty: it has no columns"),
    "an empty line": (b"\n", "is empty: it has no columns"),
    "blanks": (b"  \n  \n", "has no column"),
    "commas": (b",,,\n,,,\n", r"several columns of the same name: \(no name\)"),
    "a name twice": (b"id,area,area,rooms,town,price\nh1,1,2,3,west,4\n", "of the same name: area"),
    "a name of 100,000 letters": (GOOD.replace(b"id,area", b"x" * 100_000), "has no column|Expected"),
    "semicolons": (GOOD.replace(b",", b";"), "seems to be separated by ';'"),
    "tabs": (GOOD.replace(b",", b"\t"), r"seems to be separated by '\\t'"),
    "decimal commas": (GOOD.replace(b"50.5", b'"50,5"'), "commas.*1234.5|1234.5, without commas"),
    "thousands": (GOOD.replace(b"50.5", b'"1,050.5"'), "commas.*1234.5|1234.5, without commas"),
    "a word among numbers": (GOOD.replace(b"50.5", b"large"), "'large'"),
    "a number that is none in Latin-1": (GOOD.replace(b"50.5", b"50\xb75"), "is not UTF-8: row 2"),
    "infinity": (GOOD.replace(b"50.5", b"1e999"), "Column area of .* holds infinity in 1 rows"),
    "5,000 digits": (GOOD.replace(b"50.5", b"9" * 5000), "holds infinity in 1 rows"),
    "letters that steer a terminal": (b"\x1b[2J\x07" + GOOD.replace(b"area", b"b"), "has no column"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_that_are_no_table(run, kind: str) -> None:
    content, words = TEXTS[kind]
    Path("bad.csv").write_bytes(content)
    assert lacking(words, refusals(run, "bad.csv")) == []


def _latin_late() -> bytes:
    return GOOD + b"h5,50,2,west,100\n" * 70_000 + b"h6,50,2,w\xe9st,100\n"


def test_what_is_not_utf8_far_below_the_first_rows(run) -> None:
    Path("late.csv").write_bytes(_latin_late())
    assert lacking("column town.* is not UTF-8|not UTF-8 in the column town", refusals(run, "late.csv")) == []


@pytest.mark.parametrize("content", [HEADER, HEADER.strip(), b"\xef\xbb\xbf" + HEADER])
def test_a_header_without_rows(run, content: bytes) -> None:
    Path("header.csv").write_bytes(content)
    said = refusals(run, "header.csv", ("fit", "evaluate", "report"))
    assert lacking("has no rows|has no complete rows", said) == []
    ended = run("predict", "houses.gpx", "header.csv", "-o", "none.csv")
    assert (ended.code, ended.err) == (0, "0 rows predicted.\n")
    assert Path("none.csv").read_text() == '"mean","std","lower","upper"\n'


@pytest.mark.parametrize(
    ("value", "words"), [(b'"100,5"', "commas, such as '100,5'"), (b"cheap", "1 of 4 values.*'cheap'")]
)
def test_a_target_that_is_no_number_is_shown(run, value: bytes, words: str) -> None:
    Path("target.csv").write_bytes(GOOD.replace(b"100.5", value))
    assert lacking(words, refusals(run, "target.csv", ("fit",))) == []
    said = refusals(run, "target.csv", ("evaluate",))
    assert lacking(f"column price.*invalid value '{value.decode().strip(chr(34))}'", said) == []


def test_numbers_in_disguise_are_categories_only_where_the_user_says_so(run) -> None:
    Path("codes.csv").write_bytes(GOOD.replace(b"50.5", b'"50,5"'))
    assert lacking("--one-hot area", refusals(run, "codes.csv", ("fit",))) == []
    args = ("fit", "codes.csv", "-t", "price", "--drop", "id", "-o", "codes.gpx", "--optimizer", "none")
    ended = run(*args)
    assert "These columns hold text" in ended.err
    assert "area holds numbers written with commas" in ended.err
    assert run(*args, "--one-hot", "town,area").code == 0
    assert "area=50,5" in gpexperts.load("codes.gpx").table_.feature_names


@pytest.mark.parametrize(
    "content",
    [GOOD.replace(b"\n", b"\r\n"), GOOD.replace(b"\n", b"\r"), b"\xef\xbb\xbf" + GOOD, GOOD.strip()],
    ids=["CRLF", "CR", "a mark", "no last newline"],
)
def test_harmless_differences_do_not_matter(run, content: bytes) -> None:
    Path("odd.csv").write_bytes(content)
    ended = run(*COMMANDS["predict"]("odd.csv"))
    assert ended.code == 0, ended.err
    assert pacsv.read_csv("out.csv")["id"].to_pylist() == ["h1", "h2", "h3", "h4"]


def _binary_tables() -> dict[str, tuple[bytes, str]]:
    table = pacsv.read_csv(pa.BufferReader(GOOD))
    sink, arrow = pa.BufferOutputStream(), pa.BufferOutputStream()
    pq.write_table(table, sink)
    with pa.ipc.new_file(arrow, table.schema) as writer:
        writer.write_table(table)
    parquet, ipc, packed = sink.getvalue().to_pybytes(), arrow.getvalue().to_pybytes(), gzip.compress(GOOD)
    middle = len(ipc) // 2
    return {
        "cut.parquet": (parquet[:-100], "cannot be read"),
        "magic.parquet": (parquet[:-4] + b"XXXX", "cannot be read"),
        "hole.parquet": (parquet[:40] + b"\xff" * 200 + parquet[240:], "cannot be read"),
        "footer.parquet": (parquet[:-8] + b"\xff\xff\xff\x7fPAR1", "cannot be read"),
        "empty.parquet": (b"", "cannot be read"),
        "text.parquet": (GOOD, "cannot be read"),
        "cut.arrow": (ipc[:-50], "cannot be read"),
        "half.feather": (ipc[:middle], "cannot be read"),
        "text.arrow": (GOOD, "cannot be read"),
        "empty.arrow": (b"", "cannot be read"),
        "text.csv.gz": (GOOD, "cannot be read"),
        "cut.csv.gz": (packed[:-12], "cannot be read"),
        "parquet.csv": (parquet, "is not text.*--format"),
    }


@pytest.mark.parametrize("name", _binary_tables())
def test_broken_binary_tables(run, name: str) -> None:
    content, words = _binary_tables()[name]
    Path(name).write_bytes(content)
    assert lacking(words, refusals(run, name)) == []


def test_lists_and_structures_are_no_numbers(run) -> None:
    columns = {"id": ["a", "b"], "area": [1.0, 2.0], "rooms": [1, 2], "price": [1.0, 2.0]}
    pq.write_table(pa.table({**columns, "town": [["x"], ["y"]]}), "list.parquet")
    said = refusals(run, "list.parquet")
    assert lacking(r"town \(list|Column town should hold text; it holds list", said) == []
    pq.write_table(
        pa.table({**columns, "town": ["west", "west"], "price": [{"a": 1}, {"a": 2}]}), "s.parquet"
    )
    assert lacking("price.*struct", refusals(run, "s.parquet", ("fit", "evaluate", "report"))) == []


def test_brackets_in_names_are_not_markup(run) -> None:
    Path("brackets.csv").write_text(
        "a,[/],[red]b,price\n" + "".join(f"{i},{i % 3},{i % 2},{i}\n" for i in range(9))
    )
    assert run("fit", "brackets.csv", "-t", "price", "--optimizer", "none", "-o", "b.gpx").code == 0
    ended = run("info", "b.gpx")
    assert ended.code == 0, ended.err
    assert "[/]" in ended.out
    assert "[red]b" in ended.out


# -------------------------------------------------------------------------------------------- size


def test_a_million_columns_cost_next_to_nothing(run) -> None:
    names = b",".join(b"column%d" % i for i in range(1_000_000))
    Path("wide.csv").write_bytes(names + b"\n" + b"1," * 999_999 + b"1\n")
    del names
    # Sparse files: what they say of themselves is at their ends, and is looked at first.
    for name, end in {"wide.parquet": (131_000_000, b"PAR1"), "wide.arrow": (48_000_000, b"ARROW1")}.items():
        with Path(name).open("wb") as file:
            file.write(end[1])
            file.truncate(end[0] + 100)
            file.seek(0, os.SEEK_END)
            file.write(end[0].to_bytes(4, "little") + end[1])
    run("info", "houses.gpx")  # imports are not what is measured
    tracemalloc.start()
    began = time.perf_counter()
    try:
        said = refusals(run, "wide.csv")
        assert lacking("first row of wide.csv is longer than 1,048,576 bytes", said) == []
        for name in ("wide.parquet", "wide.arrow"):
            said = refusals(run, name)
            assert lacking("so many columns that describing them takes .* up to 100,000 columns", said) == []
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - began < 20  # twelve commands


def test_more_columns_than_are_read_and_short_names(run) -> None:
    Path("wide.csv").write_text("," * 200_000 + "\n")
    assert lacking("has 200,001 columns; tables of up to 100,000", refusals(run, "wide.csv")) == []


# -------------------------------------------------------------------------------------- bad places


def test_folders_pipes_and_what_is_not_there(run) -> None:
    os.mkdir("folder.csv")
    os.mkfifo("pipe.csv")
    assert lacking("folder.csv is a folder, not a file", refusals(run, "folder.csv")) == []
    assert lacking("pipe.csv is not a file", refusals(run, "pipe.csv")) == []
    assert lacking("none.csv does not exist", refusals(run, "none.csv")) == []


@contextmanager
def somebody_else() -> Iterator[None]:
    """Be a user whom permissions bind: they do not bind root."""
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
    run(*COMMANDS["evaluate"]("test_houses.csv"))  # imports what a stranger may not be able to
    with somebody_else():
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


def test_a_link_stays_a_link(run) -> None:
    os.mkdir("elsewhere")
    os.symlink("elsewhere/real.csv", "out.csv")
    assert run(*COMMANDS["predict"]("new_houses.csv")).code == 0
    assert os.path.islink("out.csv")
    assert Path("elsewhere/real.csv").read_text().startswith('"id","mean"')


# --------------------------------------------------------------------------------------- full disks

WRITES = [
    ("fit", "out.gpx"),
    *(("predict", f"out.{ending}") for ending in ("csv", "csv.gz", "csv.zst", "parquet", "feather")),
    ("report", "out.html"),
]


@pytest.fixture
def assert_kept(run) -> Callable[[str, str], None]:
    """Write with a command that should fail, over a file that should stay."""

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
def test_a_write_that_the_system_refuses(assert_kept, command: str, out: str) -> None:
    """A limit on the size of files stands in for a full disk: the same calls fail."""
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
def test_a_disk_that_is_full_at_any_point(
    assert_kept, monkeypatch, command: str, out: str, point: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(point, fail)
    assert_kept(command, out)


def test_a_standard_output_that_is_full(run) -> None:
    command = [sys.executable, "-c", "from gpexperts.cli import main; main()"]
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [*command, "predict", "houses.gpx", "new_houses.csv", "-o", "-"],
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert ended.returncode == 2
    assert re.fullmatch(rb"gpexperts: .*No space left on device\n", ended.stderr)


# ------------------------------------------------------------------------- a file that changes


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
def test_a_file_that_changes_while_it_is_read(run, monkeypatch, change, ending: str) -> None:
    table = pacsv.read_csv("test_houses.csv")
    name = f"table.{ending}"
    if ending == "csv":
        content, looked = Path("test_houses.csv").read_bytes(), "names_in"
    else:
        sink, looked = pa.BufferOutputStream(), "_check_description"
        if ending == "parquet":
            pq.write_table(table, sink)
        else:
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        content = sink.getvalue().to_pybytes()
    look = getattr(reading, looked)

    def look_and_change(*args: object) -> object:
        seen = look(*args)
        change(Path(name))
        return seen

    monkeypatch.setattr(reading, looked, look_and_change)
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

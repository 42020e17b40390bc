"""Bad tables are refused in one paragraph with code 2, and no file is changed."""

from __future__ import annotations

import gzip
import json
import os
import re
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import gpexperts
from tests.cli.bad_input import COMMANDS, GOOD, HEADER, OPTIONS, ROWS, not_matching, refusals
from tests.cli.houses import write_as

# A length scale at its bound is reported, which is no failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")


TEXTS: dict[str, tuple[bytes, str]] = {
    "UTF-16 without": (GOOD.decode().encode("utf-16-be"), "is not text: it holds NUL bytes.*UTF-16"),
    "random bytes": (np.random.default_rng(0).bytes(5000), "is not text|is not UTF-8"),
    "a NUL byte": (GOOD.replace(b"h2", b"h\x002"), "is not text"),
    "nothing but NUL bytes": (b"\0" * 5000, "is not text"),
    "a row too long": (GOOD + b"h9,1,2,north,3,4,5\n", "Expected 5 columns, got 7"),
    "a row too short": (GOOD + b"h9,1\n", "Expected 5 columns, got 2"),
    "an open quotation mark": (HEADER + b'h0,"1,2,north,3\n' + ROWS, "Expected 5 columns|not closed"),
    "a field without end": (HEADER + b"h" * 3_000_000 + b",1,2,north,3\n", "a row is too long"),
    "an empty file": (b"", "is empty: it has no columns"),
    "an empty line": (b"\n", "is empty: it has no columns"),
    "blanks": (b"  \n  \n", "has no column"),
    "commas": (b",,,\n,,,\n", r"several columns of the same name: \(no name\)"),
    "a name twice": (b"id,area,area,rooms,town,price\nh1,1,2,3,west,4\n", "of the same name: area"),
    "a name of 100,000 letters": (GOOD.replace(b"id,area", b"x" * 100_000), "has no column|Expected"),
    "no known encoding": (GOOD.replace(b"west", b"w\x81st"), "cannot be read as cp1252.*--encoding"),
    "letters that steer a terminal": (b"\x1b[2J\x07" + GOOD.replace(b"area", b"b"), "has no column"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TEXTS)
def test_text_that_is_not_a_table(run, kind: str) -> None:
    content, words = TEXTS[kind]
    Path("bad.csv").write_bytes(content)
    assert not_matching(words, refusals(run, "bad.csv")) == []


def _latin_late() -> bytes:
    return GOOD + b"h5,50,2,west,100\n" * 70_000 + b"h6,50,2,w\xe9st,100\n"


def test_other_encoding_far_below_the_first_rows(run) -> None:
    Path("late.csv").write_bytes(_latin_late())
    assert (
        not_matching("column town.* is not UTF-8|not UTF-8 in the column town", refusals(run, "late.csv"))
        == []
    )


@pytest.mark.parametrize("content", [HEADER, HEADER.strip(), b"\xef\xbb\xbf" + HEADER])
def test_a_header_without_rows(run, content: bytes) -> None:
    Path("header.csv").write_bytes(content)
    messages = refusals(run, "header.csv", ("fit", "evaluate", "report"))
    assert not_matching("has no rows", messages) == []
    ended = run("predict", "houses.gpx", "header.csv", "-o", "none.csv")
    assert (ended.code, ended.err) == (0, "0 rows predicted.\n")
    assert Path("none.csv").read_text() == '"mean","std","lower","upper","outside"\n'


UNREADABLE = {
    "a word": (b"large", "'large'"),
    "a number that is none in Latin-1": (b"50\xb75", "'50·5'"),
    "infinity": (b"1e999", "'1e999'"),
    "5,000 digits": (b"9" * 5000, "'9999999"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_rows_with_unreadable_numbers_are_kept_without_prediction(run, kind: str) -> None:
    value, words = UNREADABLE[kind]
    Path("odd.csv").write_bytes(GOOD.replace(b"60.5", value))
    ended = run(*COMMANDS["predict"]("odd.csv"))
    assert ended.code == 0, ended.err
    assert f"3 rows predicted. 1 row cannot be predicted (area is {words}" in ended.err
    assert "in row 3" in ended.err
    out = pacsv.read_csv("out.csv")
    assert out["id"].to_pylist() == ["h1", "h2", "h3", "h4"]
    for name in ("mean", "std", "lower", "upper"):
        assert out[name].is_null().to_pylist() == [False, True, False, False]
    ended = run(*COMMANDS["evaluate"]("odd.csv"), "--json")
    assert json.loads(ended.out)["n"] == 3
    assert f"area is {words}" in ended.err


@pytest.mark.parametrize("column", ["area", "price"])
def test_numbers_and_words_in_one_column_are_to_be_decided(run, column: str) -> None:
    value = {"area": b"50.5", "price": b"100.5"}[column]
    Path("odd.csv").write_bytes(GOOD.replace(value, b"large"))
    words = f"Column {column} holds numbers, but 25% of its values are not, such as 'large'"
    assert not_matching(words, refusals(run, "odd.csv", ("fit",))) == []
    args = COMMANDS["fit"]("odd.csv")
    ended = run(*args, "--type", f"{column}=number")
    assert ended.code == 0, ended.err
    assert f"{column}: 1 value is no finite number, such as 'large' in row 2: read as missing" in ended.err


UNDERSTOOD = {
    "UTF-16 with a mark": GOOD.decode().encode("utf-16"),
    "UTF-32": GOOD.decode().encode("utf-32"),
    "semicolons": GOOD.replace(b",", b";"),
    "tabs": GOOD.replace(b",", b"\t"),
    "bars": GOOD.replace(b",", b"|"),
    "decimal commas": GOOD.replace(b",", b";").replace(b".", b","),
    "decimal commas in quotation marks": re.sub(rb"(\d+)\.(\d)", rb'"\1,\2"', GOOD),
    "signs": re.sub(rb",(\d+\.5)", rb",\1 %", GOOD),
}


@pytest.mark.parametrize("kind", UNDERSTOOD)
def test_the_same_table_written_in_another_way(run, kind: str) -> None:
    Path("good.csv").write_bytes(GOOD)
    Path("other.csv").write_bytes(UNDERSTOOD[kind])
    assert run(*COMMANDS["fit"]("other.csv"), "-q").code == 0
    other = gpexperts.load("out.gpx").table_
    assert run(*COMMANDS["fit"]("good.csv"), "-q").code == 0
    assert gpexperts.load("out.gpx").table_.sha256 == other.sha256
    assert run(*COMMANDS["predict"]("other.csv")).code == 0
    out = Path("out.csv").read_bytes()
    assert run(*COMMANDS["predict"]("good.csv")).code == 0
    assert Path("out.csv").read_bytes() == out


def test_latin_1_is_recognised(run) -> None:
    Path("latin.csv").write_bytes(GOOD.replace(b"town", b"t\xf6wn").replace(b"west", b"w\xe9st"))
    assert run(*COMMANDS["fit"]("latin.csv"), "-q").code == 0
    column = gpexperts.load("out.gpx").model_.encoder.columns[2]
    assert (column.name, column.levels) == ("töwn", ("wést",))  # the only one with two rows


@pytest.mark.parametrize(
    "content",
    [GOOD.replace(b"\n", b"\r\n"), GOOD.replace(b"\n", b"\r"), b"\xef\xbb\xbf" + GOOD, GOOD.strip()],
    ids=["CRLF", "CR", "a mark", "no last newline"],
)
def test_line_endings_and_byte_order_mark_are_accepted(run, content: bytes) -> None:
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
    assert not_matching(words, refusals(run, name)) == []


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "stream"])
@pytest.mark.parametrize("damage", ["offsets", "codes", "text"])
def test_damaged_arrays_of_arrow_files(run, damage: str, is_file: bool) -> None:
    """Arrow reads outside of its memory if it follows these numbers."""
    codes = pa.array([0, 1, 2, 0] * 8, pa.int32())
    towns = pa.DictionaryArray.from_arrays(codes, ["west", "north", "south"])
    columns = {"id": ["h"] * 32, "area": np.arange(32.0), "rooms": [1, 2] * 16, "town": towns}
    table = pa.table({**columns, "price": np.arange(32.0) % 7})
    sink, open_writer = pa.BufferOutputStream(), pa.ipc.new_file if is_file else pa.ipc.new_stream
    with open_writer(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue().to_pybytes()
    before, after = {
        "offsets": (
            np.array([0, 4, 9, 14], np.int32).tobytes(),
            np.array([0, 4, 9, 2**30], np.int32).tobytes(),
        ),
        "codes": (np.array(codes).tobytes(), np.full(32, 2**30, np.int32).tobytes()),
        "text": (b"westnorthsouth", b"westn\xff\xffthsouth"),
    }[damage]
    assert content.count(before) == 1
    Path("damaged.arrow").write_bytes(content.replace(before, after))
    assert not_matching("damaged.arrow cannot be read: ", refusals(run, "damaged.arrow")) == []
    ended = run("inspect", "damaged.arrow")
    assert (ended.code, "cannot be read" in ended.err) == (2, True)


@pytest.mark.parametrize("unit", ["day", "s", "ms", "us", "text"])
def test_dates_that_no_calendar_has(run, unit: str) -> None:
    """Years beyond 9999, and the year 0, are no dates: such a value is missing, and named."""
    n, day = 120, np.datetime64("2020-01-01", "D") + np.arange(120)
    if unit == "text":
        days = pa.array([*map(str, day[:-1]), "0000-01-01"])
    elif unit == "day":
        days = pa.array([*(day[:-1].astype(int)), 2**31 - 1], pa.int32()).cast(pa.date32())
    else:
        moments = day.astype(f"datetime64[{unit}]").astype(np.int64)
        moments[-1] = 2**62
        days = pa.array(moments).cast(pa.timestamp(unit, "UTC"))
    write_as(pa.table({"a": np.sin(np.arange(n)), "day": days, "y": np.arange(n) % 7.0}), "far.arrow")
    ended = run("inspect", "far.arrow", "-t", "y")
    assert ended.code == 0, ended.err
    assert "1 value is no date, such as" in " ".join(ended.out.split())
    assert run("fit", "far.arrow", "-t", "y", "--config", "untrained.toml", "-o", "out.gpx").code == 0
    ended = run("predict", "out.gpx", "far.arrow", "--keep", "a", "-o", "out.csv")
    assert (ended.code, "day" in ended.err) == (0, True), ended.err
    assert pacsv.read_csv("out.csv")["mean"].null_count == 1


def test_a_target_whose_squared_error_overflows_is_named(run) -> None:
    Path("far.csv").write_bytes(GOOD + b"h5,50,2,west,-2e200\n")
    messages = refusals(run, "far.csv", ("evaluate", "report"))
    assert not_matching(r"Row 6 of far.csv: the target is 2e\+200 in magnitude", messages) == []


def test_lists_and_structures_are_refused(run) -> None:
    columns = {"id": ["a", "b"], "area": [1.0, 2.0], "rooms": [1, 2], "price": [1.0, 2.0]}
    pq.write_table(pa.table({**columns, "town": [["x"], ["y"]]}), "list.parquet")
    messages = refusals(run, "list.parquet", ("predict", "evaluate", "report"))
    assert not_matching("Column town of list.parquet should hold text.*it holds list", messages) == []
    ended = run("fit", "list.parquet", *OPTIONS, "-o", "out.gpx")
    assert "Left out: town (holds list<element: string>)" in ended.err
    ended = run("fit", "list.parquet", *OPTIONS, "-o", "out.gpx", "--features", "town,area")
    assert "Column town holds list<element: string>, which is no number, text or date" in ended.err
    pq.write_table(
        pa.table({**columns, "town": ["west", "west"], "price": [{"a": 1}, {"a": 2}]}), "s.parquet"
    )
    assert not_matching("price.*struct", refusals(run, "s.parquet", ("fit", "evaluate", "report"))) == []


def test_brackets_in_names_are_no_markup(run) -> None:
    Path("brackets.csv").write_text(
        "a,[/],[red]b,price\n" + "".join(f"{i},{i % 3},{i % 2},{i}\n" for i in range(9))
    )
    assert run("fit", "brackets.csv", "-t", "price", "--config", "untrained.toml", "-o", "b.gpx").code == 0
    ended = run("info", "b.gpx")
    assert ended.code == 0, ended.err
    assert "[/]" in ended.out
    assert "[red]b" in ended.out


def test_million_columns_are_refused_quickly(run) -> None:
    names = b",".join(b"column%d" % i for i in range(1_000_000))
    Path("wide.csv").write_bytes(names + b"\n" + b"1," * 999_999 + b"1\n")
    del names
    # Sparse files: the description is at their end and is read first.
    for name, end in {"wide.parquet": (131_000_000, b"PAR1"), "wide.arrow": (48_000_000, b"ARROW1")}.items():
        with Path(name).open("wb") as file:
            file.write(end[1])
            file.truncate(end[0] + 100)
            file.seek(0, os.SEEK_END)
            file.write(end[0].to_bytes(4, "little") + end[1])
    run("info", "houses.gpx")  # imports are not measured
    tracemalloc.start()
    began = time.process_time()
    try:
        messages = refusals(run, "wide.csv")
        assert not_matching("first row of wide.csv is longer than 1,048,576 bytes", messages) == []
        for name in ("wide.parquet", "wide.arrow"):
            messages = refusals(run, name)
            assert (
                not_matching("so many columns that describing them takes .* up to 100,000 columns", messages)
                == []
            )
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 20  # twelve commands


def test_too_many_columns_with_short_names(run) -> None:
    Path("wide.csv").write_text("," * 200_000 + "\n")
    assert not_matching("has 200,001 columns; tables may have up to 100,000", refusals(run, "wide.csv")) == []

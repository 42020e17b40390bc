"""What commands write: never over an input, nothing that steers a terminal, no formulas if asked."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

import gpexperts
from tests.cli.bad_input import OPTIONS
from tests.cli.houses import COMMAND

# A length scale at its bound is reported, which is no failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")

EVIL = "\x1b]0;owned\x07\x9b31m\u202etxt"


def read_and_written() -> dict[str, tuple[tuple[str, ...], str]]:
    """The arguments of each command, and the input that its output would replace."""
    predict = ("predict", "houses.gpx", "new_houses.csv")
    report = ("report", "houses.gpx", "test_houses.csv")
    fit = ("fit", "houses.csv", *OPTIONS)
    return {
        "fit, table": (fit, "houses.csv"),
        "fit, configuration": (fit, "untrained.toml"),
        "predict, table": (predict, "new_houses.csv"),
        "predict, model": ((*predict, "--out-format", "csv"), "houses.gpx"),
        "report, table": (report, "test_houses.csv"),
        "report, model": (report, "houses.gpx"),
    }


@pytest.mark.parametrize("case", read_and_written())
@pytest.mark.parametrize("name", [None, "link.csv", "hard.csv"])
def test_an_output_that_is_an_input_is_refused(run, case: str, name: str | None) -> None:
    args, source = read_and_written()[case]
    os.symlink(source, "link.csv")
    os.link(source, "hard.csv")
    before = Path(source).read_bytes()
    ended = run(*args, "-o", name or source)
    assert ended.code == 2, ended
    assert f"The output would replace an input: {source} is read" in ended.err
    assert Path(source).read_bytes() == before


@pytest.mark.slow
def test_redirected_streams_are_inputs_and_outputs(run) -> None:
    rows = Path("new_houses.csv").read_bytes()
    with open("new_houses.csv", "rb") as source:
        done = subprocess.run(
            [*COMMAND, "predict", "houses.gpx", "-", "-o", "new_houses.csv"],
            stdin=source,
            capture_output=True,
        )
    assert (done.returncode, b"would replace an input" in done.stderr) == (2, True)
    with open("new_houses.csv", "ab") as appended:
        done = subprocess.run(
            [*COMMAND, "predict", "houses.gpx", "new_houses.csv", "-o", "-"],
            stdout=appended,
            stderr=subprocess.PIPE,
        )
    assert (done.returncode, b"would replace an input" in done.stderr) == (2, True)
    assert Path("new_houses.csv").read_bytes() == rows


# ----------------------------------------------------------------------------------------- terminals


@pytest.fixture
def evil_model(run) -> str:
    """A model whose column, target and file names hold control characters."""
    lines = [f"{EVIL},b,price{EVIL}", *(f"{i},{i % 3},{i}" for i in range(12))]
    table = f"t{EVIL}.csv"
    Path(table).write_text("\n".join(lines) + "\n")
    ended = run("fit", table, "-t", f"price{EVIL}", "--config", "untrained.toml", "-o", f"m{EVIL}.gpx", "-vv")
    assert ended.code == 0, ended
    assert all(line.isprintable() for line in ended.err.splitlines())
    return f"m{EVIL}.gpx"


def test_no_command_prints_control_characters(run, evil_model: str) -> None:
    table = f"t{EVIL}.csv"
    for args in (
        ("info", evil_model),
        ("info", evil_model, "--json"),
        ("evaluate", evil_model, table, "-v"),
        ("evaluate", evil_model, "new_houses.csv"),
        ("evaluate", evil_model, "new_houses.csv", "--debug"),
        ("predict", evil_model, table, "-o", f"out{EVIL}.csv", "-v"),
        ("report", evil_model, "-o", f"out{EVIL}.html"),
    ):
        ended = run(*args)
        # Colours are rich's own, and only on a terminal.
        assert all(line.isprintable() for line in (ended.out + ended.err).split("\n")), (args, ended)
        if args[0] == "info":
            assert "\\u202etxt" in ended.out
    assert EVIL in gpexperts.load(evil_model).table_.feature_names


def on_terminal(*args: str) -> str:
    """Return what a command prints on a terminal."""
    ours, theirs = pty.openpty()
    subprocess.run([*COMMAND, *args], stdout=theirs, stderr=theirs, check=True)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # the end of a terminal
        pass
    os.close(ours)
    return shown.decode()


@pytest.mark.slow
def test_predictions_on_a_terminal_are_escaped_and_in_a_pipe_exact(run, evil_model: str) -> None:
    args = ("predict", evil_model, f"t{EVIL}.csv", "--keep", EVIL, "-o", "-", "-q")
    piped = subprocess.run([*COMMAND, *args], capture_output=True, check=True).stdout.decode()
    assert piped.startswith(f'"{EVIL}","mean"')
    shown = on_terminal(*args)
    assert EVIL not in shown
    assert "\x07" not in shown
    assert "\\x1b]0;owned\\x07" in shown


# ------------------------------------------------------------------------------------------ formulas


def test_formulas_are_quoted_on_request(run) -> None:
    cells = ["=HYPERLINK(1)", "+1+1", "-2+3", "@SUM(1)", " =1", "-1.5", "+2e3", "plain", "a=b"]
    lines = ["=id,area,rooms,town", *(f"{cell},50,2,west" for cell in cells)]
    Path("formulas.csv").write_text("\n".join(lines) + "\n")
    args = ("predict", "houses.gpx", "formulas.csv", "--keep", "=id,area", "-o", "out.csv")

    def written() -> list[str]:
        return [line.split(",")[0].strip('"') for line in Path("out.csv").read_text().splitlines()]

    assert run(*args).code == 0
    assert written() == ["=id", *cells]
    assert run(*args, "--quote-formulas").code == 0
    assert written() == ["'=id", *(f"'{cell}" for cell in cells[:5]), *cells[5:]]

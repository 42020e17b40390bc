"""The command line in its own process: examples of the help, pipes, interrupts, bars, completion."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.houses import COMMAND, FIT

# A length scale at its bound is reported, which is no failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")


@pytest.mark.parametrize("command", ["inspect", "fit", "predict", "evaluate", "info", "report"])
def test_example_in_help_runs(run, command: str) -> None:
    out = run(command, "--help").out
    (example,) = re.findall(rf"^ *gpexperts ({command} .*?) *$", out, flags=re.MULTILINE)
    ended = run(*example.split())
    assert ended.code == 0, ended.err
    for written in re.findall(r"-o (\S+)", example):
        assert Path(written).stat().st_size > 0


def test_pipe(run) -> None:
    done = subprocess.run(
        [*COMMAND, "predict", "houses.gpx", "-", "-o", "-", "--keep", "id"],
        input=Path("new_houses.csv").read_bytes(), capture_output=True, check=True,
    )  # fmt: skip
    assert done.stderr == b""  # no bar and no message when piped
    assert len(done.stdout.splitlines()) == 21


@pytest.mark.parametrize(
    "args",
    [
        ("evaluate", "houses.gpx", "test_houses.csv", "--json"),
        ("info", "houses.gpx", "--json"),
        ("report", "houses.gpx", "test_houses.csv", "-o", "page.html"),
    ],
    ids=lambda args: args[0],
)
def test_output_goes_to_stdout_only_with_json(run, args: tuple[str, ...]) -> None:
    done = run(*args)
    assert done.code == 0
    if "--json" in args:
        assert done.err == ""
        assert json.loads(done.out)
    else:
        assert done.out == ""
        assert Path("page.html").read_text().startswith("<!DOCTYPE html>")


def test_interrupt_ends_with_130_and_leaves_no_file(run) -> None:
    before = sorted(os.listdir())
    process = subprocess.Popen(
        [*COMMAND, "predict", "houses.gpx", "-", "-o", "out.csv"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    with process, process.stderr:
        process.stdin.write(b"area,rooms,town\n" + b"50,2,west\n" * 500_000)  # blocks until it is read
        process.stdin.flush()
        process.send_signal(signal.SIGINT)  # while the process waits for more input
        assert process.wait(timeout=100) == 130
        assert b"Traceback" not in process.stderr.read()
    assert sorted(os.listdir()) == before


def test_bad_row_on_standard_input_ends_the_process_with_a_message(run) -> None:
    """A thread of Arrow that reads through Python could abort the process, exit code 134, or block it."""
    process = subprocess.Popen(
        [*COMMAND, "predict", "houses.gpx", "-", "-o", "out.csv"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    with process, process.stderr:
        rows = memoryview(b"area,rooms,town\n50,2,west\n50,2,west,east\n" + b"50,2,west\n" * 200_000)
        with contextlib.suppress(BrokenPipeError):  # the process may have ended
            while rows:
                rows = rows[process.stdin.write(rows) :]
        process.stdin.close()
        assert process.wait(timeout=100) == 2
        message = process.stderr.read().decode()
    assert "Expected 3 columns, got 4: 50,2,west,east" in message
    assert message.count("\n") == 1
    assert not Path("out.csv").exists()


def test_bars_are_shown_on_a_terminal(run) -> None:
    ours, theirs = pty.openpty()
    shown = b""
    with subprocess.Popen([*COMMAND, *FIT, "--drop", "id,town"], stderr=theirs) as process:
        os.close(theirs)
        # Read meanwhile: the process would wait for ever at a terminal that is full.
        with contextlib.suppress(OSError):  # the end of a terminal
            while piece := os.read(ours, 65536):
                shown += piece
    os.close(ours)
    assert process.returncode == 0
    for word in ("reading houses.csv", "log likelihood", "saving"):
        assert word in shown.decode()


@pytest.mark.slow
def test_script_of_completion() -> None:
    script = subprocess.run(
        COMMAND, env={**os.environ, "_GPEXPERTS_COMPLETE": "source_bash"}, capture_output=True, text=True
    )
    assert "complete -o default -F" in script.stdout


def test_completion(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_GPEXPERTS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "gpexperts fit --kernel mat")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert run().out.split() == ["matern12", "matern32", "matern52"]


# --------------------------------------------------------------------------------- signals, streams


def waiting_for_input() -> subprocess.Popen[bytes]:
    """A command that has begun to read its standard input."""
    process = subprocess.Popen(
        [*COMMAND, "predict", "houses.gpx", "-", "-o", "out.csv"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(b"area,rooms,town\n" + b"50,2,west\n" * 500_000)  # blocks until it is read
    process.stdin.flush()
    return process


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow)]
)
def test_signals_end_a_command_like_an_interrupt(run, number: int, code: int) -> None:
    before = sorted(os.listdir())
    with waiting_for_input() as process:
        process.send_signal(number)
        process.send_signal(number)  # the kernel and the shell both send SIGHUP
        assert process.wait(timeout=100) == code
        assert b"Traceback" not in process.stderr.read()
    assert sorted(os.listdir()) == before


def test_handlers_of_the_caller_are_kept(run) -> None:
    """An ignored signal stays ignored, as `nohup` wants it, and afterwards all is as before."""
    with pytest.MonkeyPatch.context() as patch:
        hup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        term = signal.getsignal(signal.SIGTERM)
        seen = []

        def look(*_: object) -> None:
            seen.append((signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGTERM)))

        patch.setattr("gpexperts.cli.info._facts", lambda path: look() or {})
        try:
            assert run("info", "houses.gpx", "--json").code == 0
            assert seen[0][0] == signal.SIG_IGN
            assert callable(seen[0][1])
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) == term
        finally:
            signal.signal(signal.SIGHUP, hup)


def closed(args: tuple[str, ...], descriptors: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose standard streams are closed by the shell."""
    script = 'exec "$@" ' + " ".join(f"{fd}>&-" for fd in descriptors)
    return subprocess.run(["sh", "-c", script, "sh", *COMMAND, *args], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("args", "descriptors", "code", "message"),
    [
        (("predict", "houses.gpx", "-", "-o", "out.csv"), "0", 2, "Standard input is closed"),
        pytest.param(("info", "houses.gpx"), "1", 2, "Standard output is closed", marks=pytest.mark.slow),
        (("predict", "houses.gpx", "new_houses.csv", "-o", "-"), "01", 2, "Standard output is closed"),
        pytest.param(
            ("predict", "houses.gpx", "new_houses.csv", "-o", "out.csv"), "012", 0, "", marks=pytest.mark.slow
        ),
    ],
)
def test_closed_streams(run, args: tuple[str, ...], descriptors: str, code: int, message: str) -> None:
    model, table = Path("houses.gpx").read_bytes(), Path("new_houses.csv").read_bytes()
    done = closed(args, descriptors)
    assert done.returncode == code, done
    assert message in done.stderr
    assert "unexpected" not in done.stderr
    # A message must not be written to a file that got the descriptor of a closed stream.
    assert (Path("houses.gpx").read_bytes(), Path("new_houses.csv").read_bytes()) == (model, table)
    if code == 0:
        assert len(Path("out.csv").read_text().splitlines()) == 21

"""Code that the commands share: options, progress, output, and errors."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any

import typer

from gpexperts.files import check_not_an_input
from gpexperts.progress import PrintReporter, Reporters, report_only_to, report_to, reporters
from gpexperts.text import printable, printable_json

__all__ = [
    "Debug",
    "Format",
    "Quiet",
    "Verbose",
    "check_output",
    "one_bar",
    "print_json",
    "print_note",
    "progress",
    "reporting_errors",
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Verbose = Annotated[
    int, typer.Option("--verbose", "-v", count=True, show_default=False, help="Print stages; -vv every step.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Format of TABLE if its name has no known ending: csv, parquet, feather or arrow.",
        autocompletion=lambda: ["csv", "parquet", "feather", "arrow"],
    ),
]


_MAX_MESSAGE = 2000
"""Characters of a message."""


def print_note(message: str, quiet: bool = False) -> None:
    """Print a message on standard error; standard output is for results."""
    if not quiet:
        print(printable(message), file=sys.stderr)


def print_json(value: Any) -> None:
    """Print JSON on standard output."""
    print(printable_json(value))


def check_output(output: str | os.PathLike[str], *inputs: str | os.PathLike[str] | None) -> None:
    """Refuse an output that is one of the inputs; "-" is standard output or input, perhaps redirected."""
    check_not_an_input(1 if output == "-" else output, *(0 if source == "-" else source for source in inputs))


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Print an error as one paragraph and exit with code 2; `--debug` prints its traceback first."""
    with warnings.catch_warnings():
        warnings.showwarning = _print_warning
        try:
            yield
        except Exception as error:
            if "--debug" in sys.argv:
                lines = traceback.format_exc().splitlines()
                print(*map(printable, lines), sep="\n", file=sys.stderr)
            expected = isinstance(error, (ValueError, TypeError, OSError, ImportError, MemoryError))
            hint = "" if expected else f"unexpected {type(error).__name__} (--debug shows where): "
            print(f"gpexperts: {hint}{_paragraph(error)}", file=sys.stderr)
            raise SystemExit(2) from None


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    if "--quiet" not in sys.argv and "-q" not in sys.argv:
        print(f"gpexperts: note: {_paragraph(message)}", file=sys.stderr)


def _paragraph(message: BaseException | str) -> str:
    """Return one printable line of limited length."""
    text = " ".join(str(message).split()) or type(message).__name__
    text = text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]} …"
    return printable(text)


@contextmanager
def progress(quiet: bool, verbose: int) -> Iterator[Reporters]:
    """Show bars on a terminal, or lines with -v; nothing if standard error is piped or --quiet is given."""
    with ExitStack() as stack:
        if verbose:
            stack.enter_context(report_to(PrintReporter(verbose, sys.stderr)))
        elif not quiet and sys.stderr.isatty():
            from gpexperts.cli.bars import Bars

            stack.enter_context(report_to(stack.enter_context(Bars())))
        yield reporters()


class _StepsOnly:
    """Passes on steps and messages, but no stages: all batches share one bar."""

    def __init__(self, to: Reporters) -> None:
        self._to = to

    def message(self, level: int, text: str) -> None:
        self._to.message(level, text)

    def start(self, stage: str, total: int | None) -> None:
        pass

    def advance(self, steps: int, note: str) -> None:
        self._to.advance(steps, note)

    def finish(self) -> None:
        pass


@contextmanager
def one_bar(stages: Reporters, stage: str, total: int | None) -> Iterator[None]:
    """Show one bar for all predictions inside."""
    stages.start(stage, total)
    with report_only_to(_StepsOnly(stages)):
        yield
    stages.finish()

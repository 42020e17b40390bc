"""What the commands share: options, progress bars, tables of numbers, and how errors are told."""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Annotated, Any

import typer

from gpexperts.progress import Printing, Several, listeners, listening, only

__all__ = [
    "Debug",
    "DropMissing",
    "Format",
    "Quiet",
    "Verbose",
    "leaving_at_once",
    "one_bar",
    "print_json",
    "progress",
    "split",
    "tell",
    "telling_errors",
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Verbose = Annotated[int, typer.Option("--verbose", "-v", count=True, help="Say more; twice for every step.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Format of TABLE where its name does not tell: csv, parquet, feather or arrow.",
        autocompletion=lambda: ["csv", "parquet", "feather", "arrow"],
    ),
]


_LONGEST = 2000
"""Letters of a message."""


def tell(message: str, quiet: bool = False) -> None:
    """Say something on standard error, which leaves standard output to results."""
    if not quiet:
        print(message, file=sys.stderr)


def split(names: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


def print_json(value: Any) -> None:
    """Print JSON on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


@contextmanager
def telling_errors() -> Iterator[None]:
    """Turn an error into one paragraph and exit code 2; `--debug` shows its traceback first."""
    with warnings.catch_warnings():
        warnings.showwarning = _tell_warning
        try:
            yield
        except Exception as error:
            if "--debug" in sys.argv:
                traceback.print_exc()
            expected = isinstance(error, (ValueError, TypeError, OSError, ImportError, MemoryError))
            hint = "" if expected else f"unexpected {type(error).__name__} (--debug shows where): "
            print(f"gpexperts: {hint}{_paragraph(error)}", file=sys.stderr)
            raise SystemExit(2) from None


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """End the process where it stands after an error or an interrupt, if Arrow still reads standard input.

    Its thread would call into a Python that is being taken down, which aborts the process; or it would
    keep it waiting for input that nobody needs any more. Whatever was to be tidied up has been by now.
    """
    try:
        yield
    except SystemExit as end:
        reading = sys.modules.get("gpexperts.tables.standard_input")
        if end.code and reading is not None and reading.arrow_may_be_reading():
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError):  # whoever read it may be gone
                    stream.flush()
            os._exit(end.code if isinstance(end.code, int) else 1)
        raise


def _tell_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    if "--quiet" not in sys.argv and "-q" not in sys.argv:
        print(f"gpexperts: note: {_paragraph(message)}", file=sys.stderr)


def _paragraph(message: BaseException | str) -> str:
    """One line of it; what a table says may not steer the terminal that shows it."""
    text = " ".join(str(message).split()) or type(message).__name__
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@contextmanager
def progress(quiet: bool, verbose: int) -> Iterator[Several]:
    """Show bars on a terminal, or lines where -v asks for them; nothing of it when piped or quiet."""
    with ExitStack() as stack:
        if verbose:
            stack.enter_context(listening(Printing(verbose, sys.stderr)))
        elif not quiet and sys.stderr.isatty():
            from gpexperts.cli.bars import Bars

            stack.enter_context(listening(stack.enter_context(Bars())))
        yield listeners()


class RowsOnly:
    """Passes on how many rows are done, and leaves the stages to the command: one bar for all batches."""

    def __init__(self, to: Several) -> None:
        self._to = to

    def say(self, level: int, message: str) -> None:
        self._to.say(level, message)

    def start(self, stage: str, total: int | None) -> None:
        pass

    def advance(self, steps: int, note: str) -> None:
        self._to.advance(steps, note)

    def finish(self) -> None:
        pass


@contextmanager
def one_bar(heard: Several, stage: str, total: int | None) -> Iterator[None]:
    """Show one bar for the many predictions made inside."""
    heard.start(stage, total)
    with only(RowsOnly(heard)):
        yield
    heard.finish()

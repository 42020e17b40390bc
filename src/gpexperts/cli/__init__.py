"""The command line: one module per command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run `gpexperts`; without the extra [cli], print how to install it.

    The exit code is 0, 2 after an error, 130 after an interrupt, 143 after SIGTERM and 129 after SIGHUP.
    """
    from gpexperts.cli.process import ended_by_signals, flushed_streams, opened_streams

    with opened_streams(), flushed_streams(), ended_by_signals():
        _run()


def _run() -> None:
    try:
        from gpexperts.cli.app import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "gpexperts":
            raise
        from gpexperts.exceptions import MissingExtraError

        print(f"gpexperts: {MissingExtraError('The command line', 'cli')}", file=sys.stderr)
        raise SystemExit(2) from error
    from gpexperts.cli.common import reporting_errors

    with reporting_errors():
        try:
            app(prog_name="gpexperts")
        except SystemExit as end:
            if not end.code:
                sys.stdout.flush()  # an error of the last write is one of the command
            raise

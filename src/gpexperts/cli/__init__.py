"""The command line, thin over the library: one module per command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run `gpexperts`; without the extra [cli], say how to get it.

    Ends with 0, with 2 after an error, with 130 after an interrupt.
    """
    try:
        from gpexperts.cli.app import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "gpexperts":
            raise
        from gpexperts.exceptions import MissingExtraError

        print(f"gpexperts: {MissingExtraError('The command line', 'cli')}", file=sys.stderr)
        raise SystemExit(2) from error
    from gpexperts.cli.common import leaving_at_once, telling_errors

    with leaving_at_once(), telling_errors():
        app(prog_name="gpexperts")

"""The Typer application with all commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gpexperts import __version__
from gpexperts.cli.datasets import datasets
from gpexperts.cli.demo import demo
from gpexperts.cli.evaluate import evaluate
from gpexperts.cli.fit import fit
from gpexperts.cli.info import info
from gpexperts.cli.inspect import inspect
from gpexperts.cli.plot import plot
from gpexperts.cli.predict import predict
from gpexperts.cli.report import report
from gpexperts.cli.reproduce import reproduce
from gpexperts.cli.serve import serve

__all__ = ["app"]


class _PlainFlags:
    """Shows options without a value, such as --quiet, without a type in `--help`."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) or getattr(param, "count", False):
                param.metavar = ""
        return params


class _Command(_PlainFlags, TyperCommand):
    pass


class _Group(_PlainFlags, TyperGroup):
    pass


app = typer.Typer(
    cls=_Group,
    name="gpexperts",
    help="A calibrated Gaussian process on 10^4 to 10^7 rows.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
_COMMANDS = (demo, inspect, fit, predict, evaluate, info, plot, report, serve, datasets, reproduce)
for _command in _COMMANDS:
    app.command(cls=_Command)(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpexperts {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass

"""The Typer application with all commands."""

from __future__ import annotations

from typing import Annotated

import typer

from gpexperts import __version__
from gpexperts.cli.datasets import datasets
from gpexperts.cli.demo import demo
from gpexperts.cli.evaluate import evaluate
from gpexperts.cli.fit import fit
from gpexperts.cli.info import info
from gpexperts.cli.predict import predict
from gpexperts.cli.report import report
from gpexperts.cli.reproduce import reproduce

__all__ = ["app"]

app = typer.Typer(
    name="gpexperts",
    help="A calibrated Gaussian process on 10^4 to 10^7 rows.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(fit)
app.command()(predict)
app.command()(evaluate)
app.command()(info)
app.command()(report)
app.command()(datasets)
app.command()(reproduce)


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

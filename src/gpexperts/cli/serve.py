"""`gpexperts serve`: predictions over HTTP, and a page on which inputs can be varied."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpexperts.cli.common import Debug, Quiet, print_note

__all__ = ["serve"]


def serve(
    model: Annotated[Path, typer.Argument(help="A model file of `gpexperts fit`.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 opens the service to the network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for a free one.")] = 8000,
    target: Annotated[
        str | None, typer.Option(help="Name of the target, if the model file has none.")
    ] = None,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of a request.")] = 10_000,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a request.")] = 10_000_000,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Serve a model: a page where inputs can be varied, and POST /predict with JSON or Arrow.

    The service has no passwords and no encryption. By default, it can be reached from this machine only.

    Example:

    gpexperts serve houses.gpx
    """
    from gpexperts import load
    from gpexperts.serve.bodies import Limits
    from gpexperts.serve.run import is_loopback, run

    def ready(url: str) -> None:
        print_note(
            f"{url} shows the model; {url}/openapi.json describes the service. End with Ctrl-C.", quiet
        )
        if not is_loopback(host):
            print_note("Every machine that reaches this address can use the service.", quiet)

    limits = Limits(rows=max_rows, body_bytes=max_body)
    run(load(model), host=host, port=port, target=target, limits=limits, ready=ready)

"""`gpexperts report`: a page that shows what a model does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpexperts.cli.common import Debug, DropMissing, Format, Quiet, Verbose, one_bar, progress, tell

__all__ = ["report"]


def report(
    model: Annotated[Path, typer.Argument(help="The model, as `gpexperts fit` wrote it.")],
    table: Annotated[
        str | None, typer.Argument(help="Rows with the target, to compare with; - is CSV on standard input.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the page.")] = Path("report.html"),
    target: Annotated[
        str | None, typer.Option(help="The target's column, where its name differs from training.")
    ] = None,
    drop_missing: DropMissing = False,
    format: Format = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Write one page, self-contained and readable offline: how good, how honest, and why each answer.

    Example:

    gpexperts report houses.gpx test_houses.csv -o report.html
    """
    from gpexperts.files import readable_size
    from gpexperts.io import load
    from gpexperts.report import write_report
    from gpexperts.report.content import Observed
    from gpexperts.tables.reading import open_table
    from gpexperts.tables.rows import predict_rows, target_column

    fitted = load(model)
    observed = None
    with progress(quiet, verbose) as heard:
        if table is not None:
            reader = open_table(table, format)
            column = target_column(fitted, target)
            with one_bar(heard, f"predicting {table}", reader.n_rows):
                rows = predict_rows(fitted, reader, column, drop_missing=drop_missing)
            name = "standard input" if table == "-" else Path(table).name
            observed = Observed(name, rows.X, rows.y, rows.mean, rows.std, rows.seconds)
        heard.start("writing the page")
        size = write_report(fitted, out, observed=observed, target=target)
    tell(f"{out}, {readable_size(size)}. Open it in a browser.", quiet)

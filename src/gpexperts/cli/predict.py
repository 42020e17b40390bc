"""`gpexperts predict`: a prediction and an interval for every row of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpexperts.cli.common import Debug, DropMissing, Format, Quiet, Verbose, one_bar, progress, split, tell

__all__ = ["predict"]


def predict(
    model: Annotated[Path, typer.Argument(help="The model, as `gpexperts fit` wrote it.")],
    table: Annotated[str, typer.Argument(help="Rows to predict; - is CSV on standard input.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Where to write; - is CSV on standard output.")],
    keep: Annotated[str, typer.Option(help="Columns of TABLE to repeat in OUT, separated by commas.")] = "",
    level: Annotated[float, typer.Option(help="Probability of the interval from lower to upper.")] = 0.95,
    explain: Annotated[
        bool, typer.Option("--explain", help="Add the experts asked and the weight each got.")
    ] = False,
    drop_missing: DropMissing = False,
    format: Format = None,
    out_format: Annotated[
        str | None, typer.Option(help="Format of OUT where its name does not tell.")
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Write mean, std, lower and upper for every row, batch by batch, however long the table.

    Columns are found by name, in any order.

    Example:

    gpexperts predict houses.gpx new_houses.csv --keep id -o predictions.csv
    """
    from gpexperts.io import load
    from gpexperts.tables.reading import open_table
    from gpexperts.tables.rows import predict_table
    from gpexperts.tables.writing import writing

    fitted = load(model)
    reader = open_table(table, format)
    with (
        progress(quiet, verbose) as heard,
        one_bar(heard, f"predicting {table}", reader.n_rows),
        writing(out, out_format) as write,
    ):
        n_rows, n_dropped = predict_table(
            fitted,
            reader,
            write,
            keep=split(keep),
            level=level,
            explain=explain,
            drop_missing=drop_missing,
        )
    left_out = f", {n_dropped:,} with missing values left out" if n_dropped else ""
    tell(f"{n_rows:,} rows predicted{left_out}.", quiet or out == "-")

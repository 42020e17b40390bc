"""`gpexperts predict`: a prediction and an interval for every row of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpexperts.cli.common import (
    Debug,
    DropMissing,
    Format,
    Quiet,
    Verbose,
    check_output,
    one_bar,
    print_note,
    progress,
    split,
)

__all__ = ["predict"]


def predict(
    model: Annotated[Path, typer.Argument(help="A model file of `gpexperts fit`.")],
    table: Annotated[str, typer.Argument(help="Rows to predict; - is CSV on standard input.")],
    out: Annotated[
        str, typer.Option("--out", "-o", help="Table of the predictions; - is CSV on standard output.")
    ],
    keep: Annotated[str, typer.Option(help="Columns of TABLE to copy to OUT, separated by commas.")] = "",
    level: Annotated[float, typer.Option(help="Probability of the interval from lower to upper.")] = 0.95,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Add the experts, the training rows and their weights."),
    ] = False,
    quote_formulas: Annotated[
        bool,
        typer.Option(
            "--quote-formulas",
            help="Write ' before copied text that a spreadsheet would run as a formula, such as =A1.",
        ),
    ] = False,
    drop_missing: DropMissing = False,
    format: Format = None,
    out_format: Annotated[
        str | None, typer.Option(help="Format of OUT if its name has no known ending.")
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Write mean, std, lower and upper for every row.

    The table is read in batches, so it may be larger than memory. Columns are found by name.

    Example:

    gpexperts predict houses.gpx new_houses.csv --keep id -o predictions.csv
    """
    from gpexperts import load
    from gpexperts.tables.reading import open_table
    from gpexperts.tables.rows import predict_table
    from gpexperts.tables.writing import writing

    check_output(out, model, table)
    fitted = load(model)
    reader = open_table(table, format)
    with (
        progress(quiet, verbose) as stages,
        one_bar(stages, f"predicting {table}", reader.n_rows),
        writing(out, out_format) as write,
    ):
        n_rows, n_dropped = predict_table(
            fitted,
            reader,
            write,
            keep=split(keep),
            level=level,
            explain=explain,
            quote_formulas=quote_formulas,
            drop_missing=drop_missing,
        )
    left_out = f", {n_dropped:,} with missing values left out" if n_dropped else ""
    print_note(f"{n_rows:,} rows predicted{left_out}.", quiet or out == "-")

"""`gpexperts predict`: a prediction and an interval for every row of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gpexperts.cli.common import (
    Debug,
    Format,
    Quiet,
    Verbose,
    check_output,
    one_bar,
    print_note,
    progress,
)
from gpexperts.cli.table_options import with_table_options

__all__ = ["predict"]


@with_table_options
def predict(
    reading: dict[str, Any],
    model: Annotated[Path, typer.Argument(help="A model file of `gpexperts fit`.")],
    table: Annotated[str, typer.Argument(help="Rows to predict; - is CSV on standard input.")],
    out: Annotated[
        str, typer.Option("--out", "-o", help="Table of the predictions; - is CSV on standard output.")
    ],
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Columns of TABLE to copy to OUT, separated by commas or repeated."),
    ] = None,
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

    Rows that cannot be predicted have empty predictions.

    The column "outside" names the inputs of a row that are outside the range of the training rows.

    Example:

    gpexperts predict houses.gpx new_houses.csv --keep id -o predictions.csv
    """
    from gpexperts import load
    from gpexperts.cli.new_rows import open_new_rows
    from gpexperts.tables.names import split_names
    from gpexperts.tables.rows import predict_table
    from gpexperts.tables.writing import writing

    check_output(out, model, table)
    fitted = load(model)
    reader = open_new_rows(fitted, table, format, reading)
    with (
        progress(quiet, verbose) as stages,
        one_bar(stages, f"predicting {table}", reader.n_rows),
        writing(out, out_format) as write,
    ):
        tally = predict_table(
            fitted,
            reader,
            write,
            keep=split_names(keep or (), reader.names),
            level=level,
            explain=explain,
            quote_formulas=quote_formulas,
        )
    n_predicted = tally.n_rows - tally.n_empty
    print_note(f"{n_predicted:,} rows predicted. {tally.sentence()}".strip(), quiet or out == "-")

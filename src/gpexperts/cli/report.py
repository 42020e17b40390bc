"""`gpexperts report`: an HTML page about a fitted model."""

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

__all__ = ["report"]


@with_table_options
def report(
    reading: dict[str, Any],
    model: Annotated[Path, typer.Argument(help="A model file of `gpexperts fit`.")],
    table: Annotated[
        str | None, typer.Argument(help="Rows with the target, for scores; - is CSV on standard input.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file.")] = Path("report.html"),
    target: Annotated[
        str | None, typer.Option(help="Column of the target, if its name differs from the training table.")
    ] = None,
    format: Format = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Write an HTML page: accuracy, calibration, and an explanation of each prediction. It works offline.

    Example:

    gpexperts report houses.gpx test_houses.csv -o report.html
    """
    from gpexperts import load
    from gpexperts.cli.new_rows import open_new_rows
    from gpexperts.memory import readable_size
    from gpexperts.report import write_report
    from gpexperts.report.content import Observed
    from gpexperts.tables.rows import predict_rows, target_columns

    check_output(out, model, table)
    fitted = load(model)
    observed, sentence = None, ""
    with progress(quiet, verbose) as stages:
        if table is not None:
            reader = open_new_rows(fitted, table, format, reading)
            with one_bar(stages, f"predicting {table}", reader.n_rows):
                rows = predict_rows(fitted, reader, target_columns(fitted, [target] if target else ()))
            name, sentence = "standard input" if table == "-" else Path(table).name, rows.tally.sentence()
            X, _ = fitted.model_.encoder.encoded(rows.inputs)
            observed = Observed(name, X, rows.y, rows.mean, rows.std, rows.seconds, rows.rows, rows.outside)
        stages.start("writing the page")
        size = write_report(fitted, out, observed=observed, target=target)
    if sentence:
        print_note(sentence, quiet)
    print_note(f"{out}, {readable_size(size)}. Open it in a browser.", quiet)

"""`gpexperts evaluate`: score a model on rows whose target is known."""

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
    print_json,
    print_note,
    progress,
)
from gpexperts.cli.table_options import with_table_options

__all__ = ["evaluate"]


@with_table_options
def evaluate(
    reading: dict[str, Any],
    model: Annotated[Path, typer.Argument(help="A model file of `gpexperts fit`.")],
    table: Annotated[str, typer.Argument(help="Rows with the target; - is CSV on standard input.")],
    target: Annotated[
        list[str] | None,
        typer.Option(help="Column of the target, if its name differs from the training table."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    format: Format = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Score a model on rows that were not used for training: errors, log densities, coverage of intervals.

    Example:

    gpexperts evaluate houses.gpx test_houses.csv
    """
    from gpexperts import load
    from gpexperts.cli.new_rows import open_new_rows
    from gpexperts.inspection import training_targets
    from gpexperts.metrics import score
    from gpexperts.tables.names import split_names
    from gpexperts.tables.rows import predict_rows, target_columns

    check_output("-", model, table)
    fitted = load(model)
    reader = open_new_rows(fitted, table, format, reading)
    targets = target_columns(fitted, split_names(target or (), reader.names))
    with progress(quiet, verbose) as stages, one_bar(stages, f"predicting {table}", reader.n_rows):
        rows = predict_rows(fitted, reader, targets)
    scores = score(
        rows.y,
        rows.mean,
        rows.std,
        training_targets(fitted),
        rows.seconds,
        width=fitted.interval_width,
        **fitted.predictor_.score_terms(fitted.model_.encoder.encoded(rows.inputs)[0], rows.y),
    )
    if rows.is_training_table:
        print_note(
            f"{table} is the table that the model was fitted to: these scores are too good. Use rows "
            "that were not used for training, or fit with --test 0.2.",
            quiet,
        )
    if sentence := rows.tally.sentence():
        print_note(sentence, quiet)
    if json:
        print_json({**scores.as_dict(), "training_table": rows.is_training_table})
    else:
        _print(scores)


def _print(scores: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    def shown(value: float | None) -> str:
        return "not defined" if value is None else f"{value:.4g}"

    table = Table()
    for column in ("score", "value", "meaning"):
        table.add_column(column, justify="right" if column == "value" else "left")
    table.add_row("rows", f"{scores.n:,}", "")
    table.add_row("SMSE", shown(scores.smse), "mean squared error / variance of the target; 0 is perfect")
    table.add_row("RMSE", shown(scores.rmse), "root mean squared error, in the units of the target")
    table.add_row("MSLL", shown(scores.msll), "log loss minus that of the trivial predictor; lower is better")
    table.add_row("NLPD", shown(scores.nlpd), "negative log predictive density; lower is better")
    table.add_row("CRPS", shown(scores.crps), "error of the distribution, in the units of the target")
    for level, share in scores.coverage.items():
        table.add_row(
            f"coverage {100 * level:g} %",
            "not defined" if share is None else f"{100 * share:.1f} %",
            f"targets inside their interval; nominal {100 * level:g} %",
        )
    table.add_row("time", f"{1e3 * scores.seconds_per_query:.3g} ms", "per query")
    Console().print(table)

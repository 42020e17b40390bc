"""`gpexperts evaluate`: how good a model's predictions are for rows whose target is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gpexperts.cli.common import (
    Debug,
    DropMissing,
    Format,
    Quiet,
    Verbose,
    one_bar,
    print_json,
    progress,
    tell,
)

__all__ = ["evaluate"]


def evaluate(
    model: Annotated[Path, typer.Argument(help="The model, as `gpexperts fit` wrote it.")],
    table: Annotated[str, typer.Argument(help="Rows with the target; - is CSV on standard input.")],
    target: Annotated[
        str | None,
        typer.Option(help="The target's column, where its name differs from the training table's."),
    ] = None,
    drop_missing: DropMissing = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    format: Format = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Score a model on rows it has not seen: errors, log densities, and how honest its intervals are.

    Example:

    gpexperts evaluate houses.gpx test_houses.csv
    """
    from gpexperts.evaluation import score
    from gpexperts.inspection import training_targets
    from gpexperts.io import load
    from gpexperts.tables.reading import open_table
    from gpexperts.tables.rows import predict_rows, target_column

    fitted = load(model)
    reader = open_table(table, format)
    with progress(quiet, verbose) as heard, one_bar(heard, f"predicting {table}", reader.n_rows):
        rows = predict_rows(fitted, reader, target_column(fitted, target), drop_missing=drop_missing)
    scores = score(rows.y, rows.mean, rows.std, training_targets(fitted), rows.seconds, width=fitted._width)
    if json:
        print_json(scores.as_dict())
        return
    if rows.n_dropped:
        tell(f"{rows.n_dropped:,} row{'s' * (rows.n_dropped > 1)} with missing values left out.", quiet)
    _print(scores)


def _print(scores: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    def shown(value: float | None) -> str:
        return "not defined" if value is None else f"{value:.4g}"

    table = Table()
    for column in ("score", "value", "what it means"):
        table.add_column(column, justify="right" if column == "value" else "left")
    table.add_row("rows", f"{scores.n:,}", "")
    table.add_row("SMSE", shown(scores.smse), "share of the target's variance left unexplained; 0 is perfect")
    table.add_row("RMSE", shown(scores.rmse), "typical error, in the target's units")
    table.add_row("MSLL", shown(scores.msll), "log loss against the trivial predictor's; below 0 is better")
    table.add_row("NLPD", shown(scores.nlpd), "negative log density of what was observed; lower is better")
    table.add_row("CRPS", shown(scores.crps), "error of the whole distribution, in the target's units")
    for level, share in scores.coverage.items():
        table.add_row(
            f"coverage {100 * level:g} %",
            "not defined" if share is None else f"{100 * share:.1f} %",
            f"inside their interval; {100 * level:g} % is honest",
        )
    table.add_row("time", f"{1e3 * scores.seconds_per_query:.3g} ms", "per query")
    Console().print(table)

"""`gpexperts fit`: fit a model to a table and save it."""

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
    check_output,
    print_note,
    progress,
    split,
)
from gpexperts.cli.parameters import DEFAULTS, estimator, read_config, with_options
from gpexperts.parameters import PARAMETERS

__all__ = ["fit"]


@with_options(PARAMETERS)
def fit(
    table: Annotated[
        str,
        typer.Argument(
            help="CSV (also .gz, .zst, .bz2), Parquet, Feather or Arrow; - is CSV on standard input."
        ),
    ],
    target: Annotated[str, typer.Option("--target", "-t", help="The column to predict.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file, by convention .gpx.")],
    given: dict[str, Any],
    features: Annotated[
        str, typer.Option(help="Input columns, separated by commas; by default all others.")
    ] = "",
    drop: Annotated[str, typer.Option(help="Columns to leave out, separated by commas.")] = "",
    one_hot: Annotated[
        str | None,
        typer.Option(
            help="Columns to one-hot encode, separated by commas; auto encodes every column of text."
        ),
    ] = None,
    drop_missing: DropMissing = False,
    format: Format = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with parameters of the model; options override it.")
    ] = None,
    include_factors: Annotated[
        bool,
        typer.Option(
            "--include-factors",
            help="Store the Cholesky factors: a larger file, faster first predictions.",
        ),
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Fit a model to a table and save it.

    Example:

    gpexperts fit houses.csv -t price --drop id --one-hot auto -o houses.gpx
    """
    from gpexperts.files import check_target
    from gpexperts.memory import readable_size
    from gpexperts.tables.reading import open_table
    from gpexperts.tables.training import read_training_rows

    settings = {**DEFAULTS, **(read_config(config) if config else {}), **given}
    model = estimator(settings)
    check_output(out, table, config)
    check_target(out)  # before hours of training
    with progress(quiet, verbose) as stages:
        stages.start(f"reading {table}")
        rows = read_training_rows(
            open_table(table, format),
            target,
            features=split(features),
            drop=split(drop),
            one_hot=one_hot,
            drop_missing=drop_missing,
            config=settings,
        )
        stages.message(1, f"{rows.schema.n_rows:,} rows, {len(rows.schema.feature_names)} inputs")
        model.fit(rows.frame, rows.y)
        model.table_ = rows.schema
        stages.start("saving")
        size = model.save(out, include_factors=include_factors)
    dropped = f" ({rows.schema.n_dropped:,} with missing values left out)" if rows.schema.n_dropped else ""
    print_note(
        f"{out}, {readable_size(size)}: {rows.schema.n_rows:,} rows{dropped}, "
        f"{len(rows.schema.feature_names)} inputs, {model.n_experts_} expert{'s' * (model.n_experts_ > 1)}.",
        quiet,
    )

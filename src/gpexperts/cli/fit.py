"""`gpexperts fit`: from a table on disk to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gpexperts.cli.common import Debug, DropMissing, Format, Quiet, Verbose, progress, split, tell

__all__ = ["fit"]


def _option(help: str, *choices: str, **more: Any) -> Any:
    return typer.Option(
        help=help,
        rich_help_panel="The model",
        autocompletion=(lambda: list(choices)) if choices else None,
        **more,
    )


def fit(
    table: Annotated[
        str,
        typer.Argument(help="CSV (also .gz, .zst), Parquet, Feather or Arrow; - is CSV on standard input."),
    ],
    target: Annotated[str, typer.Option("--target", "-t", help="The column to predict.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model; .gpx by custom.")],
    features: Annotated[
        str, typer.Option(help="Input columns, separated by commas; by default all others.")
    ] = "",
    drop: Annotated[str, typer.Option(help="Columns to leave out, separated by commas.")] = "",
    one_hot: Annotated[
        str | None,
        typer.Option(
            help="Make an input of every value of these columns (commas), or of all columns of text: auto."
        ),
    ] = None,
    drop_missing: DropMissing = False,
    format: Format = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with any of the settings below; options overrule it.")
    ] = None,
    include_factors: Annotated[
        bool,
        typer.Option(
            "--include-factors", help="Store factors too: a larger file, quicker first predictions."
        ),
    ] = False,
    n_experts: Annotated[
        str | None, _option("Number of experts; 1 is the exact GP. A number or auto.", "auto")
    ] = None,
    expert_size: Annotated[
        str | None, _option("Rows per expert, instead of --n-experts. A number or auto.", "auto")
    ] = None,
    partition: Annotated[
        str | None,
        _option(
            "How rows are dealt to experts: auto, balanced, kmeans or random.",
            "auto",
            "balanced",
            "kmeans",
            "random",
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        _option(
            "How smooth the function is: auto, rbf (smoothest), matern52, matern32 or matern12 (roughest).",
            "auto",
            "rbf",
            "matern52",
            "matern32",
            "matern12",
        ),
    ] = None,
    optimizer: Annotated[
        str | None, _option("lbfgs trains the kernel; none keeps it untrained.", "lbfgs", "none")
    ] = None,
    n_restarts: Annotated[
        int | None, _option("Further starts of training, against poor local optima.")
    ] = None,
    training: Annotated[
        str | None,
        _option(
            "auto, or full: train on every row of every expert; its cost grows with the rows.", "auto", "full"
        ),
    ] = None,
    selection: Annotated[
        str | None,
        _option(
            "Whom a query asks: auto or rows (who owns the nearest rows), knn (nearest centroids), dnn (a "
            "neural network says), ggm (a fixed set) or all.",
            "auto",
            "rows",
            "knn",
            "dnn",
            "ggm",
            "all",
        ),
    ] = None,
    n_selected: Annotated[
        str | None, _option("Experts asked per query: a number, a share such as 0.2, or auto.", "auto")
    ] = None,
    aggregation: Annotated[
        str | None,
        _option(
            "How answers are combined: npae (knows how experts correlate), grbcm, rbcm, bcm, gpoe or poe.",
            "npae",
            "grbcm",
            "rbcm",
            "bcm",
            "gpoe",
            "poe",
        ),
    ] = None,
    calibrate: Annotated[
        str | None,
        _option(
            "Correct intervals by held-out rows: scale (one factor) or conformal (coverage is promised).",
            "scale",
            "conformal",
        ),
    ] = None,
    standardize: Annotated[
        bool | None,
        typer.Option(
            "--standardize/--no-standardize",
            rich_help_panel="The model",
            help="Bring inputs and target to mean 0 and variance 1 first (yes by default).",
        ),
    ] = None,
    memory_budget: Annotated[
        str | None, _option("Memory for factors and work arrays, for example 4GiB, or auto.", "auto")
    ] = None,
    engine: Annotated[
        str | None,
        _option("Where the work runs: threads of this machine by default; dask, or a scheduler's address."),
    ] = None,
    scheduler: Annotated[
        str | None, _option("Address of the scheduler for --engine dask, for example tcp://host:8786.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        _option(
            "File that keeps every step of training: a fit that was cut short continues when called again."
        ),
    ] = None,
    n_jobs: Annotated[int | None, _option("Threads; by default all usable cores.")] = None,
    random_state: Annotated[
        int | None, _option("Seed: the same seed gives the same model. 0 by default.")
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Train a model on a table and save it.

    Example:

    gpexperts fit houses.csv -t price --drop id --one-hot auto -o houses.gpx
    """
    from gpexperts.cli.settings import estimator, number_or_word, read_config
    from gpexperts.files import check_target, readable_size

    given: dict[str, Any] = {
        "n_experts": number_or_word(n_experts),
        "expert_size": number_or_word(expert_size),
        "partition": partition,
        "kernel": kernel,
        "optimizer": optimizer,
        "n_restarts": n_restarts,
        "training": training,
        "selection": selection,
        "n_selected": number_or_word(n_selected),
        "aggregation": aggregation,
        "calibrate": calibrate,
        "standardize": standardize,
        "memory_budget": memory_budget,
        "engine": _engine(engine, scheduler),
        "n_jobs": n_jobs,
        "random_state": random_state,
        "checkpoint": None if checkpoint is None else str(checkpoint),
    }
    settings = {"random_state": 0, **(read_config(config) if config else {})}
    settings |= {name: value for name, value in given.items() if value is not None}
    model = estimator(settings)
    check_target(out)  # now, not when hours of training are to be saved
    with progress(quiet, verbose) as heard:
        rows = _training_rows(heard, table, target, features, drop, one_hot, drop_missing, format, settings)
        model.fit(rows.X, rows.y)
        model.feature_names_in_ = _names(rows.schema.feature_names)
        model.table_ = rows.schema
        heard.start("saving")
        size = model.save(out, include_factors=include_factors)
    dropped = f" ({rows.schema.n_dropped:,} with missing values left out)" if rows.schema.n_dropped else ""
    tell(
        f"{out}, {readable_size(size)}: {rows.schema.n_rows:,} rows{dropped}, "
        f"{len(rows.schema.feature_names)} inputs, {model.n_experts_} expert{'s' * (model.n_experts_ > 1)}.",
        quiet,
    )


def _engine(engine: str | None, scheduler: str | None) -> str | None:
    if scheduler is None:
        return engine
    if engine not in (None, "dask"):
        raise typer.BadParameter(f"--scheduler is for --engine dask, not for --engine {engine}.")
    return scheduler


def _training_rows(
    heard: Any, table: str, target: str, features: str, drop: str, one_hot: str | None,
    drop_missing: bool, format: str | None, settings: dict[str, Any],
) -> Any:  # fmt: skip
    from gpexperts.tables.reading import open_table
    from gpexperts.tables.training import read_training_rows

    heard.start(f"reading {table}")
    rows = read_training_rows(
        open_table(table, format),
        target,
        features=split(features),
        drop=split(drop),
        one_hot=one_hot,
        drop_missing=drop_missing,
        config=settings,
    )
    heard.say(1, f"{len(rows.y):,} rows, {rows.X.shape[1]} inputs")
    return rows


def _names(names: list[str]) -> Any:
    import numpy as np

    return np.array(names, dtype=object)

"""`gpexperts fit`: fit a model to a table and save it."""

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
    print_note,
    progress,
)
from gpexperts.cli.parameters import DEFAULTS, estimator, with_options
from gpexperts.cli.run_config import read_config, write_config
from gpexperts.cli.table_options import TABLE_OPTIONS, with_table_options
from gpexperts.parameters import PARAMETERS

__all__ = ["fit"]

_SHARE = 0.2
"""Rows that --time-split leaves out, unless --test says otherwise."""


@with_options(PARAMETERS)
@with_table_options
def fit(
    given: dict[str, Any],
    reading: dict[str, Any],
    table: Annotated[
        str | None,
        typer.Argument(
            help="CSV (also .gz, .zst, .bz2), Parquet, Feather or Arrow; - is CSV on standard input.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", "-t", help="The column to predict; may be repeated.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The model file, by convention .gpx.", show_default=False),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="Input columns, separated by commas or repeated. By default all others, without "
            "identifiers, constants and saved indices."
        ),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Columns to leave out, separated by commas or repeated.")
    ] = None,
    type: Annotated[
        list[str] | None,
        typer.Option(
            help="COLUMN=number, category, boolean, date, or date:FORMAT, if it was guessed wrong; may be "
            "repeated."
        ),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Column of the weights of the rows.")] = None,
    noise_std: Annotated[
        str | None, typer.Option(help="Column of the known standard deviations of the target.")
    ] = None,
    test: Annotated[
        float | None,
        typer.Option(help="First score the model on this share of the rows, left out at random."),
    ] = None,
    cv: Annotated[int | None, typer.Option(help="First score the model by cross-validation.")] = None,
    time_split: Annotated[
        str | None, typer.Option(help="First score the model on the last rows by this column of times.")
    ] = None,
    drop_missing: Annotated[
        bool | None,
        typer.Option(
            "--drop-missing", help="Leave out rows with missing inputs; by default gaps are learned from.",
            show_default=False,
        ),
    ] = None,
    format: Format = None,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file with parameters of the model, and a part \\[table]; options override."),
    ] = None,
    write_config_to: Annotated[
        Path | None,
        typer.Option("--write-config", help="Write a TOML file with which --config repeats this fit."),
    ] = None,
    include_factors: Annotated[
        bool | None,
        typer.Option(
            "--include-factors", help="Store the Cholesky factors: a larger file, faster first predictions.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Fit a model to a table and save it.

    `gpexperts inspect TABLE` shows how the table is understood, and suggests a command.

    Example:

    gpexperts fit houses.csv -t price -o houses.gpx
    """
    from gpexperts.memory import readable_size
    from gpexperts.tables.reading import open_table
    from gpexperts.tables.training import fit_table, read_training_table

    stored, run = read_config(config) if config else ({}, {})
    options = {
        "file": table, "target": target, "out": None if out is None else str(out), "features": features,
        "drop": drop, "types": _types(type) if type else None, "weights": weights, "noise_std": noise_std,
        "test": test, "cv": cv, "time_split": time_split, "drop_missing": drop_missing, "format": format,
        "include_factors": include_factors, **reading,
    }  # fmt: skip
    run |= {name: value for name, value in options.items() if value is not None}
    settings = {**DEFAULTS, **stored, **given}
    _check(run)
    model = estimator(settings)
    destinations = [Path(run["out"]), *([write_config_to] if write_config_to else [])]
    _check_destinations(destinations, run["file"], config)
    with progress(quiet, verbose) as stages:
        stages.start(f"reading {run['file']}")
        reader = open_table(run["file"], run.get("format"), _options(run))
        rows = read_training_table(
            reader, _plan(run, reader.names), drop_missing=run.get("drop_missing", False)
        )
        _say_what_was_understood(rows.understanding, quiet)
        scores = _assessed(rows, settings, run, stages, quiet)
        fit_table(model, rows)
        model.table_ = _described(model.table_, settings, scores)
        stages.start("saving")
        size = model.save(destinations[0], include_factors=run.get("include_factors", False))
    if write_config_to is not None:
        write_config(write_config_to, settings, _repeatable(run, rows))
    schema = model.table_
    dropped = f" ({schema.n_dropped:,} with missing values left out)" if schema.n_dropped else ""
    print_note(
        f"{run['out']}, {readable_size(size)}: {schema.n_rows:,} rows{dropped}, "
        f"{len(schema.columns)} inputs, "
        f"{model.n_experts_} expert{'s' * (model.n_experts_ > 1)}.",
        quiet,
    )


def _check(run: dict[str, Any]) -> None:
    needed = {"file": "TABLE", "target": "--target COLUMN", "out": "--out FILE"}
    if lacking := [option for name, option in needed.items() if not run.get(name)]:
        raise ValueError(f"Give {', '.join(lacking)}, as an option or in [table] of --config.")
    if "cv" in run and ("test" in run or "time_split" in run):
        raise ValueError("--cv cannot be combined with --test or --time-split; give one of them.")
    if "cv" in run and run["cv"] != int(run["cv"]):
        raise ValueError(f"--cv is a number of folds; got {run['cv']}.")


def _check_destinations(destinations: list[Path], *inputs: str | Path | None) -> None:
    """Raise an error before hours of training if a file cannot be written or would replace another."""
    from gpexperts.files import check_target

    written = []
    for path in destinations:
        check_output(path, *inputs)
        written.append(check_target(path).absolute())
    if len(set(written)) < len(written):
        raise ValueError(f"--out and --write-config both name {destinations[0]}; give two names.")


def _types(pairs: list[str]) -> dict[str, str]:
    types = {}
    for pair in pairs:
        name, equals, kind = pair.rpartition("=")
        if not equals:
            raise ValueError(f"--type is COLUMN=TYPE, such as station=category; got {pair!r}.")
        types[name] = kind
    return types


def _options(run: dict[str, Any]) -> Any:
    from gpexperts.tables.dialect import TableOptions

    given = {name: run[name] for name in TABLE_OPTIONS if name in run}
    return TableOptions(**{**given, "na_values": tuple(given.get("na_values", ()))})


def _plan(run: dict[str, Any], names: list[str]) -> Any:
    from gpexperts.tables.names import split_names
    from gpexperts.tables.understand import Plan

    return Plan(
        targets=split_names(run["target"], names),
        features=split_names(run.get("features", ()), names),
        drop=split_names(run.get("drop", ()), names),
        types=run.get("types", {}),
        weights=run.get("weights"),
        noise_std=run.get("noise_std"),
        split=run.get("time_split"),
    )


def _say_what_was_understood(understanding: Any, quiet: bool) -> None:
    left_out = {
        name: why for name, why in understanding.left_out.items() if not why.startswith(("--", "not "))
    }
    if left_out:
        print_note(f"Left out: {'; '.join(f'{name} ({why})' for name, why in left_out.items())}.", quiet)
    for facts in understanding.columns:
        if facts.notes:
            print_note(f"{facts.name}: {'; '.join(facts.notes)}.", quiet)


def _assessed(rows: Any, settings: dict[str, Any], run: dict[str, Any], stages: Any, quiet: bool) -> Any:
    """Score the model on rows left out, if the user wants it."""
    if not {"test", "cv", "time_split"} & run.keys():
        return {}
    from gpexperts.cli.score_table import averaged, print_scores
    from gpexperts.tables.assess import assess, last_in_time, random_folds, random_test

    n, seed = len(rows.y), settings["random_state"]
    if "time_split" in run:
        splits = last_in_time(rows.time, run.get("test", _SHARE))
        how = f"the last {len(splits[0][1]):,} rows by {run['time_split']}"
    elif "cv" in run:
        splits = random_folds(n, int(run["cv"]), seed)
        how = f"{len(splits)} folds of {n:,} rows"
    else:
        splits = random_test(n, run["test"], seed)
        how = f"{len(splits[0][1]):,} of {n:,} rows, at random"
    stages.message(1, f"scores on rows left out: {how}")
    found = assess(lambda: estimator(settings), rows, splits)
    scores: dict[str, Any] = {"how": how, "models": averaged(found.scores)}
    if not quiet:
        print_scores(scores["models"], f"Scores on rows left out: {how}")
    if found.ordinary:
        scores["without_outliers"] = averaged(found.ordinary)
        many = f"{found.n_outliers:,} row{'s' * (found.n_outliers > 1)} whose target is an outlier"
        if not quiet:
            print_scores(scores["without_outliers"], f"Without {many}")
    return scores


def _described(schema: Any, settings: dict[str, Any], scores: dict[str, Any]) -> Any:
    from dataclasses import replace

    return replace(schema, config=settings, scores=scores)


def _repeatable(run: dict[str, Any], rows: Any) -> dict[str, Any]:
    """What was given and what was understood, so that another table is read in the same way."""
    understanding = rows.understanding
    repeated = {
        **run,
        "target": list(rows.plan.targets),
        "features": [column.name for column in understanding.inputs],
        "types": {c.name: _type(c) for c in understanding.inputs},
    }
    repeated.pop("drop", None)
    if (dialect := understanding.dialect) is not None:
        repeated |= {"sep": dialect.sep, "decimal": dialect.decimal, "encoding": dialect.encoding}
    return repeated


def _type(column: Any) -> str:
    return f"date:{column.format}" if column.kind == "date" and "%" in column.format else str(column.kind)

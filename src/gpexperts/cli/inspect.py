"""`gpexperts inspect`: what is in a table, and the command to fit a model to it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from gpexperts.cli.common import Debug, Format, check_output, print_json
from gpexperts.cli.table_options import with_table_options

__all__ = ["inspect"]


@with_table_options
def inspect(
    reading: dict[str, Any],
    table: Annotated[
        str,
        typer.Argument(
            help="CSV (also .gz, .zst, .bz2), Parquet, Feather or Arrow; - is CSV on standard input."
        ),
    ],
    target: Annotated[
        list[str] | None,
        typer.Option("--target", "-t", help="The column to predict.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    format: Format = None,
    debug: Debug = False,
) -> None:
    """Show the types, gaps, levels and problems of all columns, and suggest a command.

    `gpexperts fit` understands the table in the same way.

    Example:

    gpexperts inspect houses.csv
    """
    from gpexperts.tables.dialect import TableOptions
    from gpexperts.tables.names import split_names
    from gpexperts.tables.reading import open_table
    from gpexperts.tables.training import read_understood
    from gpexperts.tables.understand import Plan, command_options, guessed_target, understand

    check_output("-", table)
    options = TableOptions(**{**reading, "na_values": tuple(reading.get("na_values", ()))})
    reader = open_table(table, format, options)
    names = split_names(target or (), reader.names)
    rows, understood = read_understood(reader, Plan(targets=names))
    guessed = not names
    if guessed:
        names = [guessed_target(understood)]
        understood = understand(reader, rows, Plan(targets=names))
    command = _command(table, format, reading, names, command_options(understood))
    if json:
        print_json(_facts(understood, command, guessed))
    else:
        _print(understood, command, guessed)


def _command(
    table: str, format: str | None, reading: dict[str, Any], targets: list[str], more: list[str]
) -> str:
    from gpexperts.tables.names import quoted

    out = "model.gpx" if table == "-" else f"{Path(table).name.split('.')[0]}.gpx"
    words = ["gpexperts", "fit", table]
    for target in targets:
        words += ["--target", quoted(target)]
    words += [*more, "--test", "0.2", "--out", out]
    if format is not None:
        words += ["--format", format]
    for name, value in reading.items():
        for one in value if isinstance(value, list) else [value]:
            words += [f"--{name.replace('_', '-')}", one]
    return shlex.join(words)


def _facts(understood: Any, command: str, guessed: bool) -> dict[str, Any]:
    dialect = understood.dialect
    return {
        "source": understood.source,
        "rows": understood.n_rows,
        "dialect": None if dialect is None else dialect._asdict(),
        "columns": [
            {
                "name": facts.name, "type": facts.column.kind, "role": facts.role, "reason": facts.reason,
                "missing": facts.n_missing, "distinct": facts.n_distinct, "values": facts.shown,
                "notes": facts.notes, "problem": facts.problem,
            }
            for facts in understood.columns
        ],
        "problems": understood.problems,
        "target_was_guessed": guessed,
        "command": command,
    }  # fmt: skip


def _print(understood: Any, command: str, guessed: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from gpexperts.text import printable

    def shown(text: str, style: str = "") -> Text:  # names are no markup, and steer no terminal
        return Text(printable(text), style)

    console = Console()
    console.print(
        shown(f"{understood.source}: {understood.n_rows:,} rows, {len(understood.columns)} columns")
    )
    if (dialect := understood.dialect) is not None:
        mark = "comma" if dialect.decimal == "," else "point"
        console.print(shown(f"separator {dialect.sep!r}, decimal {mark}, {dialect.encoding}"))
    table = Table()
    for column in ("column", "type", "missing", "distinct", "values", "use"):
        table.add_column(column, justify="right" if column in ("missing", "distinct") else "left")
    for facts in understood.columns:
        missing = f"{facts.n_missing / understood.n_rows:.1%}" if facts.n_missing else ""
        use = f"left out: {facts.reason}" if facts.reason else facts.role
        row = [facts.name, facts.column.kind, missing, f"{facts.n_distinct:,}", facts.shown, use]
        table.add_row(*map(shown, row))
    console.print(table)
    for facts in understood.columns:
        if facts.notes:
            console.print(shown(f"{facts.name}: {'; '.join(facts.notes)}."))
    for problem in understood.problems:
        console.print(shown(f"To be decided: {problem}", "bold"))
    if guessed:
        console.print(shown("No --target was given; the command takes the last column of numbers."))
    dates = [column.name for column in understood.inputs if column.kind == "date"]
    if dates:
        console.print(
            shown(f"To predict the future, use --time-split {shlex.quote(dates[0])} instead of --test 0.2.")
        )
    console.print("\nTo fit a model:\n")
    console.print(shown(f"  {command}"), soft_wrap=True)

"""Options about how a table is written, which all commands that read one share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import typer

__all__ = ["TABLE_OPTIONS", "with_table_options"]

_NAMES = {r"\t": "\t", "tab": "\t", "space": " "}

TABLE_OPTIONS: dict[str, tuple[Any, str]] = {
    "sep": (str | None, "Separator of a CSV: one character, or tab."),
    "decimal": (str | None, "Decimal mark: . or ,"),
    "thousands": (str | None, "Separator of thousands, such as . , ' or space."),
    "encoding": (str | None, "Encoding of a CSV, such as cp1252 or utf-16."),
    "na_values": (list[str] | None, "Further values that mean missing, such as -999; may be repeated."),
}
"""Type and help of each option; what is not given is guessed."""


def with_table_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command; its argument `reading` becomes the dict of those that the user gave."""
    signature = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        values = {name: arguments.pop(name) for name in TABLE_OPTIONS}
        given: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, list):
                if value:
                    given[name] = value
            elif value is not None:
                given[name] = _NAMES.get(value, value)
        command(reading=given, **arguments)

    own = [p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values() if p.name != "reading"]
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=typer.Option(
                None, f"--{name.replace('_', '-')}", help=text, rich_help_panel="Reading (guessed)"
            ),
            annotation=kind,
        )
        for name, (kind, text) in TABLE_OPTIONS.items()
    ]
    # Typer reads both.
    run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*own, *added)}
    return run

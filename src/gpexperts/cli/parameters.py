"""The parameters of the estimator as options of a command.

Names, defaults and help come from `gpexperts.parameters.PARAMETERS`.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import typer

from gpexperts.aggregation import AGGREGATORS
from gpexperts.parameters import PARAMETERS, Parameter
from gpexperts.partition import PARTITIONERS
from gpexperts.regressor import DistributedGPRegressor
from gpexperts.selection import SELECTORS

__all__ = ["DEFAULTS", "estimator", "with_options"]

DEFAULTS = {"random_state": 0}
"""Where the command differs from the constructor: the same command gives the same model."""

_STAGES: dict[str, Mapping[str, type]] = {
    "partition": PARTITIONERS,
    "selection": SELECTORS,
    "aggregation": AGGREGATORS,
}

Command = Callable[..., None]


def with_options(parameters: Mapping[str, Parameter]) -> Callable[[Command], Command]:
    """Return a decorator that adds an option to a command for every parameter with a `flag`.

    The command's argument `given` becomes the dict of the options that the user gave.
    """
    flags = {name: parameter for name, parameter in parameters.items() if parameter.flag is not None}

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)

        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            values = {name: arguments.pop(name) for name in flags}
            given = {k: _read(v, flags[k].flag) for k, v in values.items() if v is not None}
            command(given=given, **arguments)

        own = [p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values() if p.name != "given"]
        added = [_option(name, parameter) for name, parameter in flags.items()]
        # Typer reads both.
        run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (*own, *added)}
        return run

    return decorate


def _option(name: str, parameter: Parameter) -> inspect.Parameter:
    flag = f"--{name.replace('_', '-')}"
    default = DEFAULTS.get(name, parameter.default)
    words = _words(parameter)
    option = typer.Option(
        None,  # not given, so that a configuration file counts
        f"{flag}/--no-{flag[2:]}" if parameter.flag is bool else flag,
        help=parameter.help + (f" One of: {', '.join(words)}." if "{" in parameter.accepts else ""),
        show_default=False if default is None else _shown(default),
        autocompletion=(lambda: words) if words else None,
        rich_help_panel="Model",
    )
    kind: Any = parameter.flag if parameter.flag in (bool, int, float) else str
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)


def _words(parameter: Parameter) -> list[str]:
    """Return the names that a parameter accepts: those in quotation marks, and None as "none"."""
    names = parameter.accepts.partition("}")[0]  # objects follow the set of names
    return [word.lower() for word in re.findall(r'(?<=")[\w-]+(?=")|\bNone\b', names)]


def _shown(default: Any) -> str:
    return ("yes" if default else "no") if isinstance(default, bool) else str(default)


def _read(value: Any, flag: Any) -> Any:
    """Return 5 for "5" and 0.5 for "0.5" where text is accepted too; any other value as `flag` reads it."""
    if flag is not str:
        return flag(value)
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def estimator(settings: Mapping[str, Any]) -> DistributedGPRegressor:
    """Return an unfitted estimator; "none" stands for None, which TOML lacks."""
    return DistributedGPRegressor(**{name: _value(name, value) for name, value in settings.items()})


def _value(name: str, value: Any) -> Any:
    if value == "none" and "None" in PARAMETERS[name].accepts:
        return None
    if not isinstance(value, dict):
        return value
    members = _STAGES.get(name)
    if members is None:
        raise ValueError(f"{name} takes a single value, not a table of settings.")
    kind, rest = str(value.get("name")), {k: v for k, v in value.items() if k != "name"}
    if kind not in members:
        raise ValueError(f"[{name}] needs a name, one of {', '.join(members)}; got {kind!r}.")
    try:
        return members[kind](**rest)
    except TypeError as error:
        raise ValueError(f"[{name}] name = {kind!r}: {error}.") from error

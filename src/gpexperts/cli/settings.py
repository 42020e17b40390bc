"""The estimator's parameters from options and a configuration file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpexperts.aggregation import AGGREGATORS
from gpexperts.partition import PARTITIONERS
from gpexperts.regressor import DistributedGPRegressor
from gpexperts.selection import SELECTORS

__all__ = ["estimator", "number_or_word", "read_config"]

_STAGES: dict[str, Mapping[str, type]] = {
    "partition": PARTITIONERS,
    "selection": SELECTORS,
    "aggregation": AGGREGATORS,
}


def number_or_word(text: str | None) -> int | float | str | None:
    """Return 5 for "5", 0.5 for "0.5", and any other text as it is."""
    if text is None:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_config(path: Path) -> dict[str, Any]:
    """Read a TOML file whose keys are the estimator's parameters.

    The stages may be tables, whose `name` says which one and whose other keys are its settings::

        n_experts = 20
        [selection]
        name = "knn"
        metric = "manhattan"
    """
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}.") from error
    known = DistributedGPRegressor().get_params(deep=False)
    unknown = [key for key in config if key not in known]
    if unknown:
        raise ValueError(
            f"{path} sets {', '.join(unknown)}, which is not a parameter of the model; "
            f"known are {', '.join(known)}."
        )
    return config


def estimator(settings: Mapping[str, Any]) -> DistributedGPRegressor:
    """Return the estimator with the given settings, not yet fitted."""
    return DistributedGPRegressor(**{name: _value(name, value) for name, value in settings.items()})


def _value(name: str, value: Any) -> Any:
    if name in ("optimizer", "calibrate") and value == "none":
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

"""An experiment: its configurations, the function that runs one, its table and its figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Config", "Experiment", "Limit", "Row", "TableSpec", "limited"]

Config = dict[str, Any]
"""The settings of one run; JSON values only."""
Row = dict[str, Any]
"""One line of a tidy table: settings and scores."""
Limit = tuple[int, int]
"""At most this many training and test rows."""


@dataclass(frozen=True)
class TableSpec:
    """The columns of the Markdown table."""

    keys: tuple[str, ...]
    """Columns that identify a line; scores are averaged over the others."""
    scores: tuple[str, ...] = ("smse", "msll", "coverage")
    paper: Mapping[tuple[Any, ...], Mapping[str, float]] = field(default_factory=dict)
    """Numbers of the paper: values of `keys` ↦ score ↦ number."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    paper: str
    """Its place in the paper."""
    about: str
    configs: tuple[Config, ...]
    run: Callable[[Config, int], list[Row]]
    """(configuration, seed) ↦ rows."""
    table: TableSpec
    draw: Callable[[list[Row]], Figure]
    seeds: int = 5
    """Default number of seeds."""


def limited(config: Config, limit: Limit | None) -> Config:
    """Return the configuration for at most so many training and test rows.

    The number of experts is reduced, so that an expert has at least 20 rows; a sweep over `values` keeps the
    first three.
    """
    if limit is None:
        return config
    small = config | {"limit": list(limit)}
    for key in ("n", "rows"):
        if key in config:
            small[key] = min(config[key], limit[0])
    if "queries" in config:
        small["queries"] = min(config["queries"], limit[1])
    if "values" in config:
        small["values"] = config["values"][:3]
    if "n_experts" in config:
        M = small["n_experts"] = min(config["n_experts"], max(2, limit[0] // 20))
        small["methods"] = [
            m | {"n_selected": min(m["n_selected"], M)} if isinstance(m.get("n_selected"), int) else m
            for m in config.get("methods", [])
        ]
    return small

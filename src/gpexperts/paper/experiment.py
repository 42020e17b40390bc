"""What an experiment is: configurations, how one is run, and how the results are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Config", "Experiment", "Limit", "Row", "TableSpec", "limited"]

Config = dict[str, Any]
"""The settings of one run, as JSON could hold them."""
Row = dict[str, Any]
"""One line of a tidy table: what was varied, and the scores."""
Limit = tuple[int, int]
"""At most this many training and test rows."""


@dataclass(frozen=True)
class TableSpec:
    """Which columns of the rows make the Markdown table."""

    keys: tuple[str, ...]
    """Columns that tell one line from another; the scores are averaged over all else."""
    scores: tuple[str, ...] = ("smse", "msll", "coverage")
    paper: Mapping[tuple[Any, ...], Mapping[str, float]] = field(default_factory=dict)
    """The paper's own numbers: values of `keys` ↦ score ↦ number."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    paper: str
    """Where it stands in the paper."""
    about: str
    configs: tuple[Config, ...]
    run: Callable[[Config, int], list[Row]]
    """(configuration, seed) ↦ rows."""
    table: TableSpec
    draw: Callable[[list[Row]], Figure]
    seeds: int = 5
    """Seeds that are run by default."""


def limited(config: Config, limit: Limit | None) -> Config:
    """Return the configuration cut down to at most so many training and test rows.

    Fewer rows have fewer experts: every expert keeps at least 20 rows, and no more experts are asked than
    there are. A sweep over `values` keeps its first three.
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

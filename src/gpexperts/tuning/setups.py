"""A setup: which experts a query uses, and how the variance of an observation is corrected."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from gpexperts.aggregation import NPAE, Aggregator

__all__ = ["EXPERTS", "NEIGHBORS", "Setups", "Tuning", "leaves_corrections"]

EXPERTS = (1, 2, 3, 4, 5, 6, 8)
NEIGHBORS = (32, 64, 128, 256, 512, 1024)
"""Candidates of K and of m."""


class Tuning(NamedTuple):
    """Which experts a query uses, and how the variance of an observation is corrected."""

    n_selected: int
    """K, at most."""
    n_neighbors: int = 0
    """m, of the own expert; 0 for none."""
    prune: float = 0.0
    """Experts that explain less than this share of what the best one explains are dropped."""
    disagreement: float | None = None
    """NPAE's `disagreement`."""
    scale: float = 1.0
    """Factor of NPAE's `scale`."""
    local_noise: float = 0.0
    """NPAE's `local_noise`."""
    floor: float = 0.0
    """NPAE's `floor`."""

    def applied(self, aggregator: Aggregator) -> Aggregator:
        """Return the aggregator with these corrections, where it leaves them to be chosen."""
        if not leaves_corrections(aggregator):
            return aggregator
        assert isinstance(aggregator, NPAE)
        aggregator.check_parameters()
        corrected = copy.copy(aggregator)  # no clone: a user's subclass may have another constructor
        corrected.disagreement = self.disagreement
        corrected.scale = aggregator.scale * self.scale
        corrected.local_noise = max(aggregator.local_noise, self.local_noise)
        corrected.floor = max(aggregator.floor, self.floor)
        return corrected

    @property
    def cost(self) -> float:
        """Milliseconds per query on one thread, roughly: to compare setups."""
        own = 0.02 * (self.n_neighbors / 32) ** 1.9
        fixed = 0.1 * self.n_selected**1.4
        return own + fixed * (3.0 if self.n_neighbors else 1.0)

    @property
    def doublings(self) -> float:
        """log₂ of the cost."""
        return float(np.log2(self.cost))

    def __str__(self) -> str:
        own = f"own expert of {self.n_neighbors} rows" * (self.n_neighbors > 0)
        fixed = f"{self.n_selected} expert{'s' * (self.n_selected > 1)}" * (self.n_selected > 0)
        return " and ".join(filter(None, (own, fixed)))


class Setups(NamedTuple):
    """The setups to choose from."""

    experts: tuple[int, ...]
    """Candidates of K; 0 stands for the own expert alone."""
    neighbors: tuple[int, ...]
    """Candidates of m; 0 stands for no own expert."""


def leaves_corrections(aggregator: Aggregator) -> bool:
    """Whether the corrections of the variance are left to be chosen."""
    return isinstance(aggregator, NPAE) and aggregator.disagreement == "auto"

"""Another rule, for the most certain experts of each query only."""

from __future__ import annotations

import numpy as np

from gpexperts.aggregation.base import Aggregator
from gpexperts.experts.moments import ExpertMoments, Prediction

__all__ = ["MostCertain", "most_certain"]


class MostCertain(Aggregator):
    """Combine those of the selected experts that have the smallest variances, by another rule.

    Centroids do not tell which expert has rows near a query if its rows lie in several places, as those of
    a client of a federation may. Its variance tells.

    Parameters
    ----------
    rule : Aggregator
        One that needs no covariances.
    n_certain : int
        Experts of each query that the rule combines.
    """

    def __init__(self, rule: Aggregator, n_certain: int = 1) -> None:
        self.rule = rule
        self.n_certain = n_certain

    @property
    def needs_communication(self) -> bool:  # type: ignore[override]
        """As the rule."""
        return self.rule.needs_communication

    def combine(self, moments: ExpertMoments) -> Prediction:
        if self.rule.needs_covariance:
            raise ValueError(
                f"MostCertain cannot use {type(self.rule).__name__}, which needs covariances of experts: it "
                "weights uncertain experts by itself."
            )
        if self.n_certain < 1:
            raise ValueError(f"n_certain must be at least 1, got {self.n_certain!r}.")
        return self.rule.combine(moments.without(~most_certain(moments, self.n_certain)))


def most_certain(moments: ExpertMoments, k: int) -> np.ndarray:
    """Whether each expert is among the k with the smallest variances of its query, (n, K)."""
    var = np.where(moments.selected, moments.var, np.inf)
    order = np.argsort(var, axis=1, kind="stable")[:, :k]
    chosen = np.zeros(var.shape, dtype=bool)
    np.put_along_axis(chosen, order, True, axis=1)
    return chosen & moments.selected

"""The contract of an aggregation rule: expert moments in, one prediction out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from sklearn.base import BaseEstimator

from gpexperts.experts.moments import ExpertMoments, Prediction

__all__ = ["Aggregator"]


class Aggregator(BaseEstimator, ABC):
    """Combines what the asked experts say about each query.

    A rule is a pure function of the moments: the row of a query depends on that row alone. It must
    leave padded columns (``~moments.asked``) out, give 0 < var ≤ prior_var, and report the weight
    each expert got. A few attributes say what it needs beyond means and variances.
    """

    needs_covariance: ClassVar[bool] = False
    """Whether the rule reads ``moments.covariance``."""
    needs_communication: ClassVar[bool] = False
    """Whether a random part of the rows is shared by all experts and is an expert of its own."""
    trusts_a_lone_expert: ClassVar[bool] = False
    """Whether the mean of one asked expert is taken as it is: its variance is then not paid for."""

    @property
    def needs_surprise(self) -> bool:
        """Whether the rule reads ``moments.surprise``."""
        return False

    @abstractmethod
    def combine(self, moments: ExpertMoments) -> Prediction:
        """Return the latent prediction for every query."""

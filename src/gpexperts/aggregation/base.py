"""The contract of an aggregator: expert moments in, one prediction out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from sklearn.base import BaseEstimator

from gpexperts.experts.moments import ExpertMoments, Prediction

__all__ = ["Aggregator"]


class Aggregator(BaseEstimator, ABC):
    """Combines the predictions of the selected experts of each query.

    `combine` is a pure function of the moments: the result of a query depends on its own row only. It
    ignores padded columns (``~moments.selected``), returns 0 < var ≤ prior_var, and reports the weight
    of each expert. Class attributes declare which moments it needs beyond means and variances.
    """

    needs_covariance: ClassVar[bool] = False
    """Whether `combine` reads ``moments.covariance``."""
    needs_communication: ClassVar[bool] = False
    """Whether all experts share a random communication set, on which one more expert is fitted."""
    keeps_single_mean: ClassVar[bool] = False
    """Whether the mean of a single selected expert is returned unchanged. For K = 1, means are then computed
    without variances."""

    best_linear: ClassVar[bool] = False
    """Whether `combine` returns the best linear predictor from the experts' means, so that its weights give
    the covariance of its errors. Covariances, samples and gradients need it."""

    @property
    def needs_local_noise(self) -> bool:
        """Whether `combine` reads ``moments.local_noise`` or the own expert's disagreement."""
        return False

    @abstractmethod
    def combine(self, moments: ExpertMoments) -> Prediction:
        """Return the prediction of the latent function for every query."""

"""The arrays that pass from the experts to the aggregator and on, with queries first.

Axes are n (queries), K (selected experts per query) and p (outputs). `index[q, k]` is the number of the
expert in column k of query q; −1 pads the rows of queries with fewer experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

__all__ = ["VARIANCE_FLOOR", "ExpertMoments", "ExpertPrediction", "Prediction", "Request"]

VARIANCE_FLOOR = 1e-15
"""Smallest posterior variance relative to the prior variance; smaller differences are rounding."""


@dataclass(frozen=True)
class Request:
    """Which moments of the selected experts to compute."""

    covariance: bool = False
    """The covariance of the experts' means, NPAE's R."""
    communication: bool = False
    """Mean and variance of the communication expert, GRBCM's μ_c and v_c."""
    variance: bool = True
    """False computes means only, which is cheaper; the variances are then those of the prior."""
    local_noise: bool = False
    """The local variance ratio from leave-one-out residuals."""
    n_neighbors: int = 0
    """Rows of the query's own expert, the first column of the moments; 0 for none."""
    prune: float = 0.0
    """Experts that explain less than this share of what the best expert of the query explains are dropped
    before R is computed."""


class ExpertPrediction(NamedTuple):
    """The prediction of one expert for the queries that selected it."""

    mean: np.ndarray
    """μ_i, (n, p)."""
    explained: np.ndarray | None
    """r_i, the explained part of the prior variance, (n,); None unless requested."""
    weights: np.ndarray | None
    """q_i, (n, m_i); None unless requested."""
    local_noise: np.ndarray | None = None
    """Local variance ratio, (n, p); None unless requested."""


@dataclass(frozen=True)
class ExpertMoments:
    """Posterior moments of the selected experts for the latent function at each query."""

    index: np.ndarray
    """(n, K) the expert in each column; −1 in padded columns."""
    mean: np.ndarray
    """(n, K, p) each expert's posterior mean; 0 in padded columns."""
    var: np.ndarray
    """(n, K) each expert's posterior variance, 0 < var ≤ prior_var; prior_var in padded columns."""
    prior_var: np.ndarray
    """(n,) k(x, x), without the noise."""
    covariance: np.ndarray | None = None
    """(n, K, K) covariance of the experts' means, noise included (NPAE's R); 0 in padded columns.
    None unless requested."""
    communication_mean: np.ndarray | None = None
    """(n, p) mean of the communication expert. None unless requested."""
    communication_var: np.ndarray | None = None
    """(n,) variance of the communication expert. None unless requested."""
    local_noise: np.ndarray | None = None
    """(n, K, p) local variance ratio of each expert: the squared leave-one-out residuals of its rows near the
    query, divided by their predicted variance; 1 in padded columns. None unless requested."""
    explained: np.ndarray | None = None
    """(n, K) covariance of each expert's mean with the function, r_i; None stands for prior_var − var."""
    own_disagreement: np.ndarray | None = None
    """(n, p) Q of the own expert, see :class:`OwnPrediction`. None without one, or unless requested."""
    own_freedom: np.ndarray | None = None
    """(n,) the mean of Q if the kernel is right."""

    @property
    def selected(self) -> np.ndarray:
        """(n, K) True where a column holds an expert."""
        return self.index >= 0

    @classmethod
    def concatenate(cls, batches: Sequence[ExpertMoments]) -> ExpertMoments:
        """Join the moments of several batches of queries; all must have the same fields."""
        joined: dict[str, Any] = {}
        for field in fields(cls):
            values = [getattr(batch, field.name) for batch in batches]
            joined[field.name] = None if values[0] is None else np.concatenate(values)
        return cls(**joined)

    def first(self, k: int) -> ExpertMoments:
        """Moments of the first k experts of each query."""
        R = self.covariance
        return replace(
            self,
            index=self.index[:, :k],
            mean=self.mean[:, :k],
            var=self.var[:, :k],
            explained=None if self.explained is None else self.explained[:, :k],
            covariance=None if R is None else R[:, :k, :k],
            local_noise=None if self.local_noise is None else self.local_noise[:, :k],
        )

    def fixed(self) -> ExpertMoments:
        """Moments without the own expert, which is the first column."""
        R = self.covariance
        return replace(
            self,
            index=self.index[:, 1:],
            mean=self.mean[:, 1:],
            var=self.var[:, 1:],
            explained=None if self.explained is None else self.explained[:, 1:],
            covariance=None if R is None else R[:, 1:, 1:],
            local_noise=None if self.local_noise is None else self.local_noise[:, 1:],
            own_disagreement=None,
            own_freedom=None,
        )

    def without(self, dropped: np.ndarray) -> ExpertMoments:
        """Moments as if the experts marked in `dropped` (n, K) had not been selected."""
        kept = self.selected & ~dropped
        R = self.covariance
        return replace(
            self,
            index=np.where(kept, self.index, -1),
            mean=np.where(kept[:, :, None], self.mean, 0.0),
            var=np.where(kept, self.var, self.prior_var[:, None]),
            explained=None if self.explained is None else np.where(kept, self.explained, 0.0),
            covariance=None if R is None else np.where(kept[:, :, None] & kept[:, None, :], R, 0.0),
            local_noise=None
            if self.local_noise is None
            else np.where(kept[:, :, None], self.local_noise, 1.0),
        )

    def without_weak(self, prune: float) -> ExpertMoments:
        """Drop experts that explain less than `prune` times what the best expert of the query explains."""
        explained = self.prior_var[:, None] - self.var
        return self.without(explained < prune * explained.max(axis=1, keepdims=True))

    def weighted_mean(self, weight: np.ndarray) -> np.ndarray:
        """Σ_k weight_k · mean_k, shape (n, p), for weights (n, K)."""
        return np.einsum("nk,nkp->np", weight, self.mean)


@dataclass(frozen=True)
class Prediction:
    """The combined prediction of the latent function."""

    mean: np.ndarray
    """(n, p)"""
    var: np.ndarray
    """(n,) latent variance."""
    weight: np.ndarray
    """(n, K) with mean = Σ_k weight_k · expert mean_k (+ the weighted mean of the communication expert)."""
    communication_weight: np.ndarray | None = None
    """(n,) weight of the communication expert's mean."""
    repaired: int = 0
    """Number of queries whose linear system was repaired."""
    inflation: np.ndarray | None = None
    """(n, p) factor of the variance of an observation; None means 1."""

    def observation_var(self, noise_variance: np.ndarray | float) -> np.ndarray:
        """Variance of a new observation, (n, p), for one noise variance or that of each query (n,)."""
        var = np.repeat((self.var + noise_variance)[:, None], self.mean.shape[1], axis=1)
        return var if self.inflation is None else var * self.inflation

    def corrected(self, factor: np.ndarray | float, prior_var: np.ndarray) -> Prediction:
        """Multiply the variance of an observation by factor^(1 − var/prior_var).

        `factor` is a number or (n, p), `prior_var` is (n,). The exponent is the share of the prior variance
        that the experts explain: the correction vanishes where they are uninformative.
        """
        applied = np.asarray(factor) ** (1.0 - self.var / prior_var)[:, None]
        return replace(self, inflation=applied if self.inflation is None else self.inflation * applied)

"""What flows between the stages: arrays with names, queries first.

Axes are written n (queries), K (experts asked per query) and p (outputs). `index[q, k]` names the
expert that stands in column k for query q; −1 pads the rows of queries that ask fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

__all__ = ["VARIANCE_FLOOR", "ExpertMoments", "Prediction", "weighted"]

VARIANCE_FLOOR = 1e-15
"""Smallest posterior variance, relative to the prior: what rounding leaves of a certainty."""


@dataclass(frozen=True)
class ExpertMoments:
    """What the asked experts say about the latent function at each query."""

    index: np.ndarray
    """(n, K) the expert in each column; −1 where nobody was asked."""
    mean: np.ndarray
    """(n, K, p) each expert's posterior mean; 0 in padded columns."""
    var: np.ndarray
    """(n, K) each expert's posterior variance, 0 < var ≤ prior_var; prior_var in padded columns."""
    prior_var: np.ndarray
    """(n,) k(x, x), without the noise."""
    covariance: np.ndarray | None = None
    """(n, K, K) covariance of the experts' means, noise included (NPAE's R); 0 in padded columns.
    None unless the rule asks for it."""
    communication_mean: np.ndarray | None = None
    """(n, p) mean of the communication expert, for rules that ask for it."""
    communication_var: np.ndarray | None = None
    """(n,) variance of the communication expert, for rules that ask for it."""
    surprise: np.ndarray | None = None
    """(n, K, p) squared errors of each expert on its own rows near the query, as a multiple of what it
    expected; 1 in padded columns. None unless the rule asks for it."""

    @property
    def asked(self) -> np.ndarray:
        """(n, K) True where a column holds an expert."""
        return self.index >= 0

    @classmethod
    def concatenate(cls, several: Sequence[ExpertMoments]) -> ExpertMoments:
        """The moments of several batches of queries, which have the same fields, as those of one."""
        joined: dict[str, Any] = {}
        for field in fields(cls):
            values = [getattr(one, field.name) for one in several]
            joined[field.name] = None if values[0] is None else np.concatenate(values)
        return cls(**joined)


@dataclass(frozen=True)
class Prediction:
    """The combined word of the experts on the latent function."""

    mean: np.ndarray
    """(n, p)"""
    var: np.ndarray
    """(n,) latent variance."""
    weight: np.ndarray
    """(n, K) with mean = Σ_k weight_k · expert mean_k (+ the communication expert's share)."""
    communication_weight: np.ndarray | None = None
    """(n,) weight of the communication expert's mean."""
    repaired: int = 0
    """Queries whose system had to be mended."""
    widening: np.ndarray | None = None
    """(n, p) factor by which an observation's variance differs from what the experts take it to be."""

    def observation_var(self, noise_variance: float) -> np.ndarray:
        """Variance of a new observation, (n, p)."""
        var = np.repeat((self.var + noise_variance)[:, None], self.mean.shape[1], axis=1)
        return var if self.widening is None else var * self.widening

    def corrected(self, factor: np.ndarray | float, prior_var: np.ndarray) -> Prediction:
        """The same with the variance of an observation times factor^(1 − var/prior_var), a number or (n, p).

        The exponent is the share of the variance that the experts explain: where they know nothing, no
        correction of theirs holds and the prior (n,) speaks as it is.
        """
        fading = np.asarray(factor) ** (1.0 - self.var / prior_var)[:, None]
        return replace(self, widening=fading if self.widening is None else self.widening * fading)


def weighted(moments: ExpertMoments, weight: np.ndarray) -> np.ndarray:
    """Σ_k weight_k · mean_k, shape (n, p)."""
    return np.einsum("nk,nkp->np", weight, moments.mean)

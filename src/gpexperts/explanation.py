"""What `explain` returns: the selected experts of each query, their predictions and their weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Explanation", "OwnExplanation"]


@dataclass(frozen=True)
class OwnExplanation:
    """The own expert of each query: the training rows that the prediction rests on, nearest first."""

    mean: np.ndarray
    """(n[, p]) the mean that it predicts."""
    std: np.ndarray
    """(n[, p]) the standard deviation of its latent prediction."""
    weight: np.ndarray
    """(n,) its weight beside the selected experts."""
    rows: np.ndarray
    """(n, m) numbers of its training rows."""
    inputs: np.ndarray
    """(n, m, d) their inputs; objects if columns were encoded: levels, dates, and None for gaps."""
    targets: np.ndarray
    """(n, m[, p]) their targets."""
    row_weight: np.ndarray
    """(n, m) weight of each target in the prediction: Σ_j row_weight_j (target_j − prior_mean) is added."""

    def largest(self, n_rows: int) -> np.ndarray:
        """Return the columns (n, n_rows) of the rows with the largest weights by size, largest first."""
        return np.argsort(-np.abs(self.row_weight), axis=1, kind="stable")[:, :n_rows]


@dataclass(frozen=True)
class Explanation:
    """The selected experts of each query, their predictions, and their weights.

    For n queries and K selected experts; all values are in the units of the target. With several outputs,
    `expert_mean`, `expert_std`, `mean` and `std` have a last axis for them. For every query

        mean = Σ_k weight_k · expert_mean_k + prior_weight · prior_mean

    plus own.weight · own.mean if the query has an own expert, trend if the trend is the mean that experts
    correct and, for GRBCM, communication_weight · communication_mean. The prior mean is the mean of
    the training targets, or 0 if `standardize=False`. Padded columns hold the prior, with weight 0.
    """

    experts: np.ndarray
    """(n, K) the selected experts, best first; −1 pads."""
    expert_mean: np.ndarray
    """(n, K[, p]) the mean that each of them predicts; the prior mean in padded columns."""
    expert_std: np.ndarray
    """(n, K[, p]) the standard deviation of its latent prediction; the prior's in padded columns."""
    weight: np.ndarray
    """(n, K) the weight of each expert; 0 in padded columns."""
    prior_weight: np.ndarray
    """(n,) 1 less all the other weights."""
    prior_mean: np.ndarray
    """() or (p,) the prediction far from all data."""
    mean: np.ndarray
    """(n[, p]) the prediction."""
    std: np.ndarray
    """(n[, p]) its standard deviation, for a new observation."""
    communication_mean: np.ndarray | None = None
    """(n[, p]) the mean that GRBCM's communication expert predicts; None for other rules."""
    communication_weight: np.ndarray | None = None
    """(n,) its weight; None for other rules."""
    own: OwnExplanation | None = None
    """The query's own expert; None where ``n_neighbors`` is 0."""
    trend: np.ndarray | None = None
    """(n[, p]) what the trend predicts; None without a trend."""
    trend_role: str | None = None
    """"mean", "input" or "both"; with "mean" and "both", `trend` is added to the sum above, and the means of
    experts and the targets of rows are those of y − trend."""

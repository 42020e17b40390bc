"""What `explain` returns: who was asked, what each said, and how that made the answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Explanation"]


@dataclass(frozen=True)
class Explanation:
    """Who was asked about each query, what each said, and how that made the answer.

    For n queries and K experts asked; all values are in the units of the target. With several
    outputs, `said`, `mean` and `std` have a last axis for them. For every query

        mean = Σ_k weight_k · said_k + prior_weight · prior_mean

    plus, for GRBCM, communication_weight · communication_said. The prior mean (that of the training
    targets, or 0 if `standardize=False`) gets the weight that the experts leave over. Padded columns
    hold the prior, with weight 0.
    """

    experts: np.ndarray
    """(n, K) the experts asked, best first; −1 pads."""
    said: np.ndarray
    """(n, K[, p]) the mean each of them predicted; the prior mean in padded columns."""
    said_std: np.ndarray
    """(n, K[, p]) the standard deviation of each one's latent prediction; the prior's in padded columns."""
    weight: np.ndarray
    """(n, K) the weight each expert got; 0 in padded columns."""
    prior_weight: np.ndarray
    """(n,) 1 less all the other weights."""
    prior_mean: np.ndarray
    """() or (p,) what is predicted where nothing is known."""
    mean: np.ndarray
    """(n[, p]) the prediction."""
    std: np.ndarray
    """(n[, p]) its standard deviation, for a new observation."""
    communication_said: np.ndarray | None = None
    """(n[, p]) what GRBCM's communication expert said; None for other rules."""
    communication_weight: np.ndarray | None = None
    """(n,) the weight it got; None for other rules."""

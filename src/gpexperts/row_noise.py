"""What is known of the noise of each row: its weight w and its given standard deviation τ.

    C = K + diag((σ² + τ_i²) / w_i)

Rows carry a table `noise` of shape (k, 2) with w and τ² in the units of the experts, or of shape (k, 0) where
every row has weight 1 and no given noise. This module is the only place that knows its columns.

A row of weight 2 is the row twice: two rows with equal inputs and targets have the likelihood of one with
half the noise, times a factor that depends on the noise only (:func:`copies`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = [
    "Copies",
    "copies",
    "noise_table",
    "observation_variance",
    "plain",
    "reweighted",
    "scaled",
    "slope",
    "stretched",
    "total_weight",
    "variance",
    "weights",
]


def plain(k: int) -> np.ndarray:
    """Return the table of k rows with weight 1 and no given noise."""
    return np.empty((k, 0))


def noise_table(weight: np.ndarray, given_std: np.ndarray) -> np.ndarray:
    """Return the table (k, 2) of weights (k,) and given standard deviations (k,)."""
    return np.stack([weight, given_std**2], axis=1)


def weights(noise: np.ndarray) -> np.ndarray:
    """W of each row, of the shape of `noise` without its last axis."""
    return noise[..., 0] if noise.shape[-1] else np.ones(noise.shape[:-1])


def total_weight(noise: np.ndarray | None, k: int) -> float:
    """Sum of the weights of k rows: the number of rows that they stand for."""
    return float(k) if noise is None or not noise.shape[-1] else float(noise[..., 0].sum())


def variance(noise: np.ndarray | None, level: float) -> np.ndarray | float:
    """(σ² + τ²) / w of each row, for the learned noise σ²; one number where all rows are alike."""
    if noise is None or not noise.shape[-1]:
        return level
    return (level + noise[..., 1]) / noise[..., 0]


def slope(noise: np.ndarray | None) -> np.ndarray | float:
    """Derivative of `variance` with respect to σ², 1/w."""
    return 1.0 if noise is None or not noise.shape[-1] else 1.0 / noise[..., 0]


def observation_variance(noise: np.ndarray, level: float) -> np.ndarray | float:
    """σ² + τ²: the noise of one observation of each row, by which a row that was held out is scored."""
    return level + noise[..., 1] if noise.shape[-1] else level


def scaled(noise: np.ndarray, scale: float, weight: float = 1.0) -> np.ndarray:
    """Return the table for targets that are divided by `scale`, and weights by `weight`."""
    return noise / [weight, scale**2] if noise.shape[-1] else noise


def stretched(noise: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return the table for given standard deviations that are multiplied by `factor` (k,)."""
    return noise * np.stack([np.ones_like(factor), factor**2], axis=1) if noise.shape[-1] else noise


def reweighted(noise: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return the table (k, 2) with weights multiplied by `factor` (k,)."""
    given = noise[:, 1] if noise.shape[-1] else np.zeros(len(noise))
    return np.stack([weights(noise) * factor, given], axis=1)


class Copies(NamedTuple):
    """Log likelihood of the copies that weights stand for, beyond that of one row with less noise."""

    value: float
    slope: float
    """Derivative with respect to σ²."""


def copies(noise: np.ndarray | None, level: float) -> Copies:
    """Σ_i [−(w_i − 1)/2 · log 2π(σ² + τ_i²) − ½ log w_i], by which a weight of 2 is the row twice.

    For a kernel without noise (σ² = 0) there is nothing to train, and the sum is left out.
    """
    if noise is None or not noise.shape[-1] or level == 0.0:
        return Copies(0.0, 0.0)
    w, each = noise[..., 0], level + noise[..., 1]
    value = -0.5 * float(((w - 1.0) * np.log(2.0 * np.pi * each) + np.log(w)).sum())
    return Copies(value, -0.5 * float(((w - 1.0) / each).sum()))

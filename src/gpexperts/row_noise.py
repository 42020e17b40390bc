"""What is known of the noise of each row: its weight w, its given standard deviation τ, and its precision λ.

    C = K + diag((σ² + τ_i²) / (w_i λ_i))

Rows carry a table `noise` of shape (k, 0), if every row has weight 1 and no given noise; of shape (k, 2),
with w and τ² in the units of the experts; or of shape (k, 4), with λ and o beside them, if the noise is
Student-t: λ divides the noise of a row further, and o, from 0 to 1, is the share with which the row counts in
averages, which is next to nothing for an outlier. This module is the only place that knows the columns.

A row of weight 2 is the row twice: two rows with equal inputs and targets have the likelihood of one with
half the noise, times a factor that depends on the noise only (:func:`copies`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = [
    "ORDINARY",
    "Copies",
    "copies",
    "given_weights",
    "has_given_noise",
    "noise_table",
    "observation_variance",
    "plain",
    "precisions",
    "scaled",
    "slope",
    "stretched",
    "student_precision",
    "total_weight",
    "variance",
    "weights",
    "widened",
    "with_precision",
]


def plain(k: int) -> np.ndarray:
    """Return the table of k rows with weight 1 and no given noise."""
    return np.empty((k, 0))


def noise_table(weight: np.ndarray, given_std: np.ndarray) -> np.ndarray:
    """Return the table (k, 2) of weights (k,) and given standard deviations (k,)."""
    return np.stack([weight, given_std**2], axis=1)


def weights(noise: np.ndarray) -> np.ndarray:
    """Return w·o of each row, by which it counts in averages; the last axis of `noise` is dropped."""
    if not noise.shape[-1]:
        return np.ones(noise.shape[:-1])
    return noise[..., 0] if noise.shape[-1] == 2 else noise[..., 0] * noise[..., 3]


def given_weights(noise: np.ndarray) -> np.ndarray:
    """Return the weight w that the user gave each row; the last axis of `noise` is dropped."""
    return noise[..., 0] if noise.shape[-1] else np.ones(noise.shape[:-1])


def has_given_noise(noise: np.ndarray | None) -> bool:
    """Whether every row has a given standard deviation."""
    return noise is not None and noise.shape[-1] > 0 and bool((noise[..., 1] > 0.0).all())


def _divisor(noise: np.ndarray) -> np.ndarray:
    """Return w·λ of each row."""
    return noise[..., 0] if noise.shape[-1] == 2 else noise[..., 0] * noise[..., 2]


def total_weight(noise: np.ndarray | None, k: int) -> float:
    """Sum of the weights of k rows: the number of rows that they stand for."""
    return float(k) if noise is None or not noise.shape[-1] else float(weights(noise).sum())


def variance(noise: np.ndarray | None, level: float) -> np.ndarray | float:
    """(σ² + τ²) / (wλ) of each row, for the learned noise σ²; one number where all rows are alike."""
    if noise is None or not noise.shape[-1]:
        return level
    return (level + noise[..., 1]) / _divisor(noise)


def slope(noise: np.ndarray | None) -> np.ndarray | float:
    """Derivative of `variance` with respect to σ², 1/(wλ)."""
    return 1.0 if noise is None or not noise.shape[-1] else 1.0 / _divisor(noise)


def observation_variance(noise: np.ndarray, level: float) -> np.ndarray | float:
    """σ² + τ²: the noise of one observation of each row, by which a row that was held out is scored."""
    return level + noise[..., 1] if noise.shape[-1] else level


def scaled(noise: np.ndarray, scale: float, weight: float = 1.0) -> np.ndarray:
    """Return the table for targets that are divided by `scale`, and weights by `weight`."""
    return noise / [weight, scale**2, 1.0, 1.0][: noise.shape[-1]] if noise.shape[-1] else noise


def stretched(noise: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return the table for given standard deviations that are multiplied by `factor` (k,)."""
    if not noise.shape[-1]:
        return noise
    noise = noise.copy()
    noise[:, 1] *= factor**2
    return noise


def with_precision(noise: np.ndarray, precision: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the table (k, 4) with λ and o (k,), in place of any former ones."""
    given = noise[:, :2] if noise.shape[-1] else noise_table(np.ones(len(noise)), np.zeros(len(noise)))
    return np.column_stack([given, precision, share])


def widened(noise: np.ndarray, columns: int) -> np.ndarray:
    """Return the table with at least so many columns: weights of 1, no given noise, precisions of 1."""
    if noise.shape[-1] >= columns:
        return noise
    k = len(noise)
    given = noise if noise.shape[-1] else noise_table(np.ones(k), np.zeros(k))
    return given if columns == 2 else with_precision(given, np.ones(k), np.ones(k))


ORDINARY = 6.0
"""Standard deviations within which a row is ordinary. Its precision is 1: weights that vary among ordinary
rows cost accuracy where there are no outliers."""


def precisions(noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return λ and o of each row; 1 where the noise is Gaussian."""
    if noise.shape[-1] < 4:
        return np.ones(noise.shape[:-1]), np.ones(noise.shape[:-1])
    return noise[..., 2], noise[..., 3]


def student_precision(noise: np.ndarray, z2: np.ndarray, degrees: float, n_outputs: int = 1) -> np.ndarray:
    """Return the table (k, 4) of rows with squared standardised residuals z2 (k,), summed over outputs.

    (ν + p) / (ν + z²) is the mean precision of Student-t noise with ν degrees of freedom, given the
    residual. λ = o is its square, so that gross outliers do not raise the learned noise, and 1 for rows
    within `ORDINARY` standard deviations.
    """
    ordinary = z2 <= n_outputs * ORDINARY**2
    precision = np.where(ordinary, 1.0, ((degrees + n_outputs) / (degrees + z2)) ** 2)
    precision = np.maximum(precision, 1e-12)
    return with_precision(noise, precision, precision)


class Copies(NamedTuple):
    """Log likelihood of the copies that weights stand for, beyond that of one row with less noise."""

    value: float
    slope: float
    """Derivative with respect to σ²."""


def copies(noise: np.ndarray | None, level: float) -> Copies:
    """Σ_i [−(w_i − 1)/2 · log 2π(σ² + τ_i²)/λ_i − ½ log w_i], by which a weight of 2 is the row twice.

    For a kernel without noise (σ² = 0) there is nothing to train, and the sum is left out.
    """
    if noise is None or not noise.shape[-1] or level == 0.0:
        return Copies(0.0, 0.0)
    w, each = noise[..., 0], level + noise[..., 1]
    slope_of_log = (w - 1.0) / each
    if noise.shape[-1] == 4:
        each = each / noise[..., 2]
    value = -0.5 * float(((w - 1.0) * np.log(2.0 * np.pi * each) + np.log(w)).sum())
    return Copies(value, -0.5 * float(slope_of_log.sum()))

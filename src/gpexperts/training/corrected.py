"""Kernels and preparations compared by what is predicted: log density after a correction of the variance.

A wrong kernel may have the larger likelihood where the noise, or the roughness, is not the same everywhere.
Predictions correct their variance by a power of the local variance ratio and a factor, chosen by held-out
density. So what is compared is the density of rows, given their neighbours or all other rows, with the best
such correction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpexperts.engines.base import Engine
from gpexperts.kernels.base import Covariance
from gpexperts.linalg.cholesky import factorise
from gpexperts.linalg.leave_one_out import LeaveOneOut, squared_z_without, variance_ratio
from gpexperts.row_noise import observation_variance, weights
from gpexperts.training.evidence import CLIPPED, Evidence
from gpexperts.training.likelihood import Block
from gpexperts.training.predictive import Neighbourhoods

__all__ = ["RowPredictions", "corrected_evidence", "predicted_from_neighbours"]

_EXPONENTS = (0.0, 0.5, 1.0)
"""Of the local variance ratio."""
_SCALES = tuple(np.geomspace(0.3, 3.0, 21).tolist())
"""Factors of the variance."""
_RESIDUALS = 32
"""Nearest rows that give the local variance ratio by their leave-one-out residuals."""
_PIECE = 50
"""Systems that are solved together: few enough to stay in the cache."""


class RowPredictions(NamedTuple):
    """Predictions of n rows, each from other rows."""

    residual: np.ndarray
    """(n, p) target minus mean."""
    var: np.ndarray
    """(n,) of an observation."""
    ratio: np.ndarray
    """(n, p) local variance ratio."""
    explained: np.ndarray
    """(n,) share of the prior variance that the other rows explain."""
    weight: np.ndarray
    """(n,) of the rows."""

    def log_density(self, clipped: float = CLIPPED) -> np.ndarray:
        """Log density (n,), summed over outputs, with the correction that is best in the mean.

        Standardised residuals are bounded by `clipped`.
        """
        best, mean_of_best = np.empty(0), -np.inf
        for exponent in _EXPONENTS:
            local = self.ratio**exponent
            for scale in _SCALES:
                var = self.var[:, None] * (scale * local) ** self.explained[:, None]
                z = np.clip(self.residual / np.sqrt(var), -clipped, clipped)
                each = -0.5 * (z**2 + np.log(2.0 * np.pi * var)).sum(axis=1)
                mean = float(np.average(each, weights=self.weight))
                if mean > mean_of_best:
                    best, mean_of_best = each, mean
        return best

    def evidence(self) -> Evidence:
        """Mean log density and squared error, per row and output, of bounded errors."""
        squares = np.minimum(self.residual**2, CLIPPED**2 * self.var[:, None])
        error = float(np.average(squares.mean(axis=1), weights=self.weight))
        density = float(np.average(self.log_density(), weights=self.weight))
        return Evidence(density / self.residual.shape[1], error)


def corrected_evidence(covariance: Covariance, block: Block) -> Evidence:
    """Scores of each row given all others.

    Parameters
    ----------
    covariance : Covariance
    block : Block
        All rows, in one system.
    """
    X, y, noise = block
    w = np.ones(len(y)) if noise is None else weights(noise)
    C, prior = covariance.noisy_gram(X, noise), covariance.prior_variance(X)
    near = w * (C**2 / np.outer(prior, prior)) ** 2
    np.fill_diagonal(near, 0.0)  # noise is on the diagonal alone
    factor = factorise(C, name="covariance matrix of all rows")  # in place of C
    alpha = factor.solve(np.array(y.T, order="C"))
    P = factor.inverse()  # in place of the factor
    left_out = LeaveOneOut(alpha, np.diagonal(P).copy())
    ratio = [
        variance_ratio(np.einsum("em,em->e", near, z2), near.sum(axis=1), z2 @ w, w.sum() - w)
        for z2 in squared_z_without(P, alpha, left_out.precision, np.arange(len(y)))
    ]
    latent = np.clip((left_out.variance - covariance.row_noise(noise)) / prior, 0.0, 1.0)
    return RowPredictions(
        left_out.residual.T, left_out.variance, np.stack(ratio, axis=1), 1.0 - latent, w
    ).evidence()


def predicted_from_neighbours(
    covariance: Covariance, near: Neighbourhoods, engine: Engine, *, by_weight: bool = True
) -> RowPredictions:
    """Predict the last row of each system from the others.

    Parameters
    ----------
    covariance : Covariance
    near : Neighbourhoods
    engine : Engine
    by_weight : bool
        Whether rows count by their weights, which are those of outliers too; otherwise all count as one.
    """
    covariance = near.applied(covariance)
    pieces = [near.part(slice(start, start + _PIECE)) for start in range(0, len(near.X), _PIECE)]
    mean, var, ratio, explained = (
        np.concatenate(part)
        for part in zip(*engine.map(lambda piece: _of_piece(covariance, piece), pieces), strict=True)
    )
    y, noise = near.y[:, -1], _noise(near)[:, -1]
    var += np.asarray(observation_variance(noise, covariance.noise_variance))
    return RowPredictions(y - mean, var, ratio, explained, weights(noise) if by_weight else np.ones(len(y)))


def _noise(near: Neighbourhoods) -> np.ndarray:
    return np.empty((*near.y.shape[:2], 0)) if near.noise is None else near.noise


def _of_piece(
    covariance: Covariance, near: Neighbourhoods
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean (B, p), latent variance (B,), local variance ratio (B, p) and explained share (B,)."""
    B, m, _ = near.y.shape
    A, diagonal = np.zeros((B, m, m)), np.arange(m - 1)
    covariance.fill_grams(A, near.X)  # above the diagonal
    A = covariance.scale * (np.triu(A) + np.triu(A, 1).transpose(0, 2, 1))
    k, prior = A[:, -1, :-1], A[:, -1, -1]
    C = A[:, :-1, :-1].copy()
    nearness = k**2 / (prior[:, None] * C[:, diagonal, diagonal])
    noise = _noise(near)[:, :-1]
    C[:, diagonal, diagonal] += covariance.row_noise(noise)
    C[:, diagonal, diagonal] *= 1.0 + 1e-9
    # Columns of C⁻¹ for the nearest rows, which are the last ones: their leave-one-out residuals.
    h = min(_RESIDUALS, m - 1)
    p, nearest = near.y.shape[2], slice(m - 1 - h, None)
    sides = np.zeros((B, m - 1, p + 1 + h))
    sides[:, :, :p], sides[:, :, p] = near.y[:, :-1], k
    sides[:, diagonal[nearest], p + 1 + np.arange(h)] = 1.0
    solved = np.linalg.solve(C, sides)
    alpha, q = solved[:, :, :p], solved[:, :, p]
    precision = np.einsum("bhh->bh", solved[:, nearest, p + 1 :])
    mean = np.einsum("bm,bmp->bp", k, alpha)
    explained = np.clip(np.einsum("bm,bm->b", k, q) / prior, 0.0, 1.0 - 1e-12)
    w = weights(noise)[:, nearest, None]
    z2 = w * alpha[:, nearest] ** 2 / precision[:, :, None]
    square = nearness[:, nearest, None] ** 2
    ratio = variance_ratio((square * z2).sum(axis=1), (square * w).sum(axis=1), z2.sum(axis=1), w.sum(axis=1))
    return mean, prior * (1.0 - explained), ratio, explained

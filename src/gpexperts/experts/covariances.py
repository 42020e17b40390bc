"""Covariances of the means of two experts, the off-diagonal entries of NPAE's R."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_array, csr_array

from gpexperts.kernels.base import Covariance

__all__ = ["own_covariance", "pair_covariance"]

_ENTRIES = 1_000_000
"""Kernel values between neighbours and an expert's rows that are in memory at the same time."""
_FEW = 16
"""Queries up to which a dense matrix of weights is faster than a sparse one."""


def pair_covariance(
    covariance: Covariance, X_i: np.ndarray, X_j: np.ndarray, q_i: np.ndarray, q_j: np.ndarray
) -> np.ndarray:
    """R_ij = q_iᵀ k(X_i, X_j) q_j of two experts for a batch of queries, shape (n,)."""
    if covariance.vanishes(X_i, X_j):
        return np.zeros(len(q_i))
    return np.einsum("nm,nm->n", q_i @ covariance(X_i, X_j), q_j)


def own_covariance(
    covariance: Covariance,
    X_0: np.ndarray,
    noise_0: np.ndarray,
    position: np.ndarray,
    q_0: np.ndarray,
    X_i: np.ndarray,
    q_i: np.ndarray,
) -> np.ndarray:
    """R_0i = q_0ᵀ (k(X_N, X_i) + D) q_i of the own experts with expert i, shape (n,).

    D is the noise variance of a row where it is both a neighbour and a row of expert i.

    Parameters
    ----------
    covariance : Covariance
    X_0 : ndarray of shape (n, m, d)
        Inputs of the neighbours.
    noise_0 : ndarray of shape (n, m, 2) or (n, m, 0)
        Their weight and given noise.
    position : ndarray of int, shape (n, m)
        Of each neighbour among the rows of expert i; outside 0 … m_i − 1 if it belongs to another expert.
    q_0 : ndarray of shape (n, m)
    X_i : ndarray of shape (m_i, d)
    q_i : ndarray of shape (n, m_i)
    """
    Q, X = _by_row(q_0, position, X_0)
    values = np.zeros(len(X_0))
    step = max(1, _ENTRIES // len(X_i))
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        values += np.einsum("nm,nm->n", Q[:, rows] @ covariance(X[rows], X_i), q_i)
    query, column = np.nonzero((position >= 0) & (position < len(X_i)))
    common = q_0[query, column] * q_i[query, position[query, column]]
    common = common * covariance.row_noise(noise_0[query, column])
    return values + np.bincount(query, common, minlength=len(X_0))


def _by_row(q: np.ndarray, position: np.ndarray, X: np.ndarray) -> tuple[np.ndarray | csc_array, np.ndarray]:
    """Weights (n, u) of the u distinct rows among the neighbours of n queries, and their inputs (u, d).

    Queries of one expert share most of their neighbours.
    """
    if len(q) == 1:
        return q, X[0]
    rows, first, place = np.unique(position, return_index=True, return_inverse=True)
    X = X.reshape(-1, X.shape[2])[first]
    if len(q) <= _FEW:
        dense = np.zeros((len(q), len(rows)))
        np.put_along_axis(dense, place.reshape(q.shape), q, axis=1)
        return dense, X
    starts = np.arange(0, q.size + 1, q.shape[1])
    return csc_array(csr_array((q.ravel(), place.ravel(), starts), shape=(len(q), len(rows)))), X

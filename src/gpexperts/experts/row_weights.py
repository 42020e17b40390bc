"""The weight of every training row in the means of the selected experts.

The mean of expert i is μ_i = q_iᵀ y_i, so that a combination Σ_k a_k μ_k of experts is w(x)ᵀ y with
w(x) = Σ_k a_k q_k: non-zero on the rows of the selected experts only. Rows are numbered by their position
among the rows of all experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from gpexperts.experts.gather import Evaluated, EvaluatedOwn
from gpexperts.experts.moments import ExpertMoments, Request

__all__ = ["combined_weights", "with_row_weights"]


def with_row_weights(
    moments: ExpertMoments,
    evaluated: Sequence[Sequence[Evaluated]],
    own: EvaluatedOwn | None,
    offsets: np.ndarray,
    request: Request,
) -> ExpertMoments:
    """Add the row weights to the moments, if they are requested."""
    if not request.row_weights:
        return moments
    return replace(moments, row_weights=_row_weights(moments.index.shape, evaluated, own, offsets))


def _row_weights(
    shape: tuple[int, int],
    evaluated: Sequence[Sequence[Evaluated]],
    own: EvaluatedOwn | None,
    offsets: np.ndarray,
) -> csr_array:
    """Collect q of every selected expert of every query in one sparse matrix.

    Parameters
    ----------
    shape : tuple of int
        Queries n and columns K of the moments, that of the own expert included.
    evaluated : sequence of sequence of Evaluated
        Of each shard, with weights.
    own : EvaluatedOwn or None
        The own experts, in the first column.
    offsets : ndarray of shape (M + 1,)
        Expert i owns the positions ``offsets[i]:offsets[i + 1]``.

    Returns
    -------
    weights : csr_array of shape (n · K, offsets[M])
        Row q · K + k belongs to column k of query q; it is empty where no expert is selected.
    """
    n, K = shape
    experts = [one for shard in evaluated for one in shard]
    length = np.zeros(n * K, dtype=np.int64)
    if own is not None:
        length[::K] = own.neighbourhood.position.shape[1]
    for one in experts:
        length[one.query * K + one.column + (own is not None)] = offsets[one.expert + 1] - offsets[one.expert]
    starts = np.concatenate([[0], np.cumsum(length)])
    data, indices = np.empty(starts[-1]), np.empty(starts[-1], dtype=np.int64)
    if own is not None:
        assert own.prediction.weights is not None
        _put(data, indices, starts[: n * K : K], own.prediction.weights, own.neighbourhood.position)
    for one in experts:
        assert one.prediction.weights is not None
        at = starts[one.query * K + one.column + (own is not None)]
        positions = np.arange(offsets[one.expert], offsets[one.expert + 1])
        _put(data, indices, at, one.prediction.weights, positions)
    return csr_array((data, indices, starts), shape=(n * K, int(offsets[-1])))


def _put(
    data: np.ndarray, indices: np.ndarray, at: np.ndarray, weights: np.ndarray, positions: np.ndarray
) -> None:
    """Write weights (e, m) and positions, (m,) or (e, m), into the places that start at `at` (e,)."""
    places = at[:, None] + np.arange(weights.shape[1])
    data[places] = weights
    indices[places] = positions


def combined_weights(row_weights: csr_array, weight: np.ndarray) -> csr_array:
    """w(x) = Σ_k a_k q_k of every query.

    Parameters
    ----------
    row_weights : csr_array of shape (n · K, rows)
    weight : ndarray of shape (n, K)
        a, of the experts.

    Returns
    -------
    weights : csr_array of shape (n, rows)
    """
    n, K = weight.shape
    experts = csr_array(
        (weight.ravel(), np.arange(n * K), np.arange(0, n * K + 1, K)), shape=(n, row_weights.shape[0])
    )
    combined = csr_array(experts @ row_weights)
    combined.sum_duplicates()
    return combined

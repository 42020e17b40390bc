"""Experts without the training row that is predicted, for many rows, each without itself.

The own expert of a row simply omits it. The expert that owns row t, with P = C⁻¹, has without that row

    q = −P_·t / P_tt,   α' = α − P_·t α_t / P_tt,   [C'⁻¹]_rr = P_rr − P_rt² / P_tt,

because the query is the row itself: k(X, x) is column t of C, but for its noise. The other experts do not
change.
"""

from __future__ import annotations

import numpy as np

from gpexperts.engines.base import Engine
from gpexperts.experts.gather import Evaluated, evaluate, evaluate_own, moments_of
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.moments import ExpertMoments, ExpertPrediction, Request
from gpexperts.experts.own import Neighbourhood
from gpexperts.linalg.leave_one_out import squared_z_without, variance_ratio
from gpexperts.row_noise import weights

__all__ = ["moments_without"]

_ENTRIES = 1_000_000
"""Of work arrays of rows × rows of an expert."""


def moments_without(
    experts: LocalExperts, positions: np.ndarray, index: np.ndarray, request: Request, engine: Engine
) -> ExpertMoments:
    """Moments of the selected experts for training rows, each predicted without itself.

    Parameters
    ----------
    experts : LocalExperts
        Without shared rows.
    positions : ndarray of int, shape (n,)
        Of the rows among the rows of all experts.
    index : ndarray of shape (n, K)
        The selected experts of each row; −1 pads.
    request : Request
    engine : Engine
    """
    X = experts.X[positions]
    evaluated = evaluate(experts, X, index, request, engine)
    evaluated = engine.map(lambda one: _without_rows(experts, one, X, positions, request), evaluated)
    own = None
    if request.n_neighbors:
        near = _neighbourhood_without(experts, positions, request.n_neighbors, engine)
        own = evaluate_own(experts.covariance, near, X, index, experts.offsets, request, engine)
    return moments_of(
        experts.covariance, X, index, experts.n_outputs, [evaluated], None, own, request, engine
    )


def _neighbourhood_without(
    experts: LocalExperts, positions: np.ndarray, m: int, engine: Engine
) -> Neighbourhood:
    """The m nearest other rows of each row."""
    n, total = len(positions), len(experts.X)
    m = min(m, total - 1)
    found = min(m + 2, total)
    nearest, sq = experts.nearest(experts.X[positions], found, engine)
    itself = nearest == positions[:, None]
    itself[~itself.any(axis=1), -1] = True  # among so many equal rows that it was not found: drop the last
    nearest, sq = nearest[~itself].reshape(n, found - 1), sq[~itself].reshape(n, found - 1)
    rim = sq[:, m] if found - 1 > m else np.full(n, np.inf)
    nearest = nearest[:, :m]
    return Neighbourhood(*experts.take(nearest), sq[:, :m], rim, nearest, experts.numbers[nearest])


def _without_rows(
    experts: LocalExperts, one: Evaluated, X: np.ndarray, positions: np.ndarray, request: Request
) -> Evaluated:
    """Replace the predictions for the expert's own rows by those without each of them."""
    start, stop = experts.offsets[one.expert], experts.offsets[one.expert + 1]
    owned = np.flatnonzero((positions[one.query] >= start) & (positions[one.query] < stop))
    step = max(1, _ENTRIES // int(stop - start))
    for begin in range(0, len(owned), step):
        some = owned[begin : begin + step]
        query = one.query[some]
        _downdate(experts, one.expert, positions[query] - start, X[query], some, one.prediction)
    return one


def _downdate(
    experts: LocalExperts,
    i: int,
    t: np.ndarray,
    X: np.ndarray,
    at: np.ndarray,
    prediction: ExpertPrediction,
) -> None:
    """Write the predictions of rows t (e,) of expert i, each without itself, into places `at`."""
    inverse, alpha, _ = experts.trained(i)
    inputs, y, noise = experts.rows(i)
    each, m = np.arange(len(t)), len(inputs)
    P = np.zeros((len(t), m))
    P[each, t] = 1.0
    P = inverse.whiten_transposed(inverse.whiten(P))  # rows of C⁻¹
    variance = 1.0 / P[each, t]
    q = -P * variance[:, None]
    q[each, t] = 0.0
    k = experts.covariance(X, inputs)
    prediction.mean[at] = q @ y
    if prediction.explained is not None:
        prediction.explained[at] = np.einsum("em,em->e", q, k)
    if prediction.weights is not None:
        prediction.weights[at] = q
    if prediction.local_noise is None:
        return
    prior = experts.covariance.prior_variance
    w = weights(noise)
    near = w * (k * k / np.outer(prior(X), prior(inputs))) ** 2
    near[each, t] = 0.0
    for output, z2 in enumerate(squared_z_without(P, alpha, inverse.precision(), t)):
        prediction.local_noise[at, output] = variance_ratio(
            np.einsum("em,em->e", near, z2), near.sum(axis=1), z2 @ w, w.sum() - w[t]
        )

"""The query's own expert: a local GP on the m training rows nearest to the query.

With the rows N in order of distance, C = k(N, N) + D (D the noise variance of each row) and C = L Lᵀ, two
forward substitutions give everything:

    a = L⁻¹ k(N, x*),   b = L⁻¹ y_N,   μ = Σ_i a_i b_i,   r = Σ_i a_i²,   v = k(x*, x*) − r.

The i-th terms are what row i adds to the nearer rows: partial sums are the predictions of all smaller
neighbourhoods. So that the mean is continuous where a row enters or leaves N, the terms of the farthest rows
fade with their distance, by a taper W_i that falls from 1 to 0 between the distance of a row of given rank
and the distance of the first row left out:

    μ = Σ W_i a_i b_i,   q = L⁻ᵀ(W a),   Cov(μ, f) = qᵀk = Σ W_i a_i²,   Var(μ) = qᵀC q = Σ W_i² a_i².

This is a weighted mean of the predictions of nested neighbourhoods. Rows at equal distance have equal W, and
the sum of their terms does not depend on their order.

Leave-one-out residuals of the h nearest rows come from the first h columns of L⁻¹: with E = L⁻¹ I_h,
[C⁻¹]_jj = |E_j|², α_j = E_jᵀ b, and z_j² = α_j² / [C⁻¹]_jj is 1 on average if the model is right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpexperts.engines.base import Engine
from gpexperts.engines.threads import blas_threads
from gpexperts.exceptions import NotPositiveDefiniteError
from gpexperts.experts.moments import VARIANCE_FLOOR
from gpexperts.kernels.base import Covariance
from gpexperts.linalg.cholesky import JITTERS
from gpexperts.linalg.leave_one_out import variance_ratio
from gpexperts.linalg.stacks import (
    cholesky_each_in_place,
    solve_transposed_each_in_place,
    solve_triangular_each_in_place,
)
from gpexperts.row_noise import slope
from gpexperts.row_noise import weights as row_weights

__all__ = [
    "FULL_SHARE",
    "Neighbourhood",
    "OwnPrediction",
    "nested",
    "own_predictions",
    "posterior_variance",
]

FULL_SHARE = 0.7
"""Share of the neighbours, the nearest ones, that are not tapered."""
RESIDUALS, FEW_RESIDUALS = 128, 64
"""At most so many of the nearest rows give the local variance ratio by their leave-one-out residuals; the
smaller number for neighbourhoods of more rows than the larger."""
_CACHED = 60_000
"""Entries of the matrices that are factorised together, so that they stay in the cache."""
_PIECE = 256
"""Queries of a piece of work, for 128 neighbours."""
_HUGE = 1e300
"""Pivot of the rows below C, which must not fail."""


class Neighbourhood(NamedTuple):
    """The nearest training rows of n queries, nearest first."""

    X: np.ndarray
    """(n, m, d) inputs."""
    y: np.ndarray
    """(n, m, p) targets."""
    noise: np.ndarray
    """(n, m, 2) weight and given noise of each row, or (n, m, 0); see `row_noise`."""
    squared_distance: np.ndarray
    """(n, m) in the metric of the kernel."""
    rim: np.ndarray
    """(n,) squared distance of the nearest row that is left out; infinite if there is none."""
    position: np.ndarray
    """(n, m) among the rows of all experts."""
    number: np.ndarray
    """(n, m) in the training data."""

    def part(self, rows: slice) -> Neighbourhood:
        """Return some of the queries."""
        return Neighbourhood(*(column[rows] for column in self))

    def nearest(self, m: int) -> Neighbourhood:
        """Return the neighbourhoods of m rows; m is at most the present number."""
        if m == self.squared_distance.shape[1]:
            return self
        X, y, noise, sq, _, position, number = self
        return Neighbourhood(
            X[:, :m], y[:, :m], noise[:, :m], sq[:, :m], sq[:, m], position[:, :m], number[:, :m]
        )


class OwnPrediction(NamedTuple):
    """Predictions of the own experts of n queries."""

    mean: np.ndarray
    """μ, (n, p)."""
    explained: np.ndarray
    """Cov(μ, f) = qᵀk, (n,)."""
    variance_of_mean: np.ndarray
    """Var(μ) = qᵀC q, (n,): the diagonal entry of NPAE's R."""
    weights: np.ndarray | None
    """q, (n, m); None unless requested."""
    local_noise: np.ndarray | None
    """Local variance ratio, (n, p); None unless requested."""
    disagreement: np.ndarray | None
    """Q, (n, p): how much predictions from more and more of the rows differ; None unless `local_noise` is
    requested."""
    jittered: int
    """Queries whose matrix needed jitter."""


def own_predictions(
    covariance: Covariance,
    neighbourhood: Neighbourhood,
    queries: np.ndarray,
    engine: Engine,
    *,
    weights: bool = False,
    local_noise: bool = False,
) -> OwnPrediction:
    """Evaluate the own experts of queries (n, d); `weights` and `local_noise` request q and the ratio.

    Raises
    ------
    NotPositiveDefiniteError
        If a matrix contains NaN or infinity, or cannot be factorised with any jitter.
    """
    n, m = neighbourhood.squared_distance.shape
    size = max(1, min(_PIECE, _PIECE * 128 // m))
    pieces = [slice(start, start + size) for start in range(0, max(1, n), size)]  # also of no queries

    def piece(some: slice) -> OwnPrediction:
        return _predict(covariance, neighbourhood.part(some), queries[some], weights, local_noise)

    if len(pieces) == 1:
        with blas_threads(1):  # small matrices
            return piece(pieces[0])
    *arrays, jittered = zip(*engine.map(piece, pieces), strict=True)
    joined = (None if column[0] is None else np.concatenate(column) for column in arrays)
    return OwnPrediction(*joined, jittered=sum(jittered))  # type: ignore[arg-type, misc]


def _predict(
    covariance: Covariance, rows: Neighbourhood, queries: np.ndarray, weights: bool, local_noise: bool
) -> OwnPrediction:
    n, m, p = rows.y.shape
    h = (m if m <= RESIDUALS else FEW_RESIDUALS) if local_noise else 0
    scale = covariance.scale  # everything is divided by it: C / s², k / s², and y as it is
    prior = covariance.prior_variance(queries) / scale
    noise = np.array(np.broadcast_to(covariance.row_noise(rows.noise) / scale, (n, m)))
    if tiny := covariance.tiny_diagonal(rows.noise):
        noise += tiny * prior[:, None] * slope(rows.noise)
    taper = _taper(rows.squared_distance, rows.rim, FULL_SHARE)
    mean, explained, variance_of_mean = np.empty((n, p)), np.empty(n), np.empty(n)
    q = np.empty((n, m)) if weights else None
    z2, near = np.empty((n, h, p)), np.empty((n, h))
    Q = np.empty((n, p)) if local_noise else None
    jittered, order = 0, m + 1 + p
    step = max(1, _CACHED // order**2)
    stack = np.empty((min(step, n), order, order))
    for start in range(0, n, step):
        some = slice(start, min(start + step, n))
        points = np.concatenate([rows.X[some], queries[some, None]], axis=1)
        A = stack[: len(points)]
        _fill(A, covariance, points, rows.y[some], noise[some])
        if h:
            near[some] = _squared_correlations(A, prior[some], noise[some, :h], m)
        failed = (cholesky_each_in_place(A) != 0) | ~np.isfinite(A[:, m - 1, m - 1])
        for i in np.flatnonzero(failed):
            _repair(
                A[i : i + 1], covariance, points[i : i + 1], rows.y[some][i : i + 1], noise[some][i : i + 1]
            )
            jittered += 1
        a, b = A[:, :m, m], A[:, :m, m + 1 :]
        faded = taper[some] * a
        mean[some] = np.matmul(faded[:, None], b)[:, 0]
        explained[some] = np.einsum("bm,bm->b", faded, a)
        variance_of_mean[some] = np.einsum("bm,bm->b", faded, faded)
        if Q is not None:
            Q[some] = _disagreement(faded, b) / scale
        if q is not None:
            q[some] = faded
            solve_transposed_each_in_place(A, m, q[some])
        if h:
            columns = np.zeros((len(A), h, m))
            columns.reshape(len(A), -1)[:, :: m + 1] = 1.0
            solve_triangular_each_in_place(A, m, columns)
            precision = np.einsum("bhm,bhm->bh", columns, columns)
            z2[some] = np.matmul(columns, b) ** 2 / (scale * precision[:, :, None])
    ratio = None
    if local_noise:
        rim = rows.squared_distance[:, h] if h < m else rows.rim
        kept = _taper(rows.squared_distance[:, :h], rim, 0.5) * row_weights(rows.noise[:, :h])
        ratio = _variance_ratio(z2, near**2 * kept, kept)
    return OwnPrediction(mean, explained * scale, variance_of_mean * scale, q, ratio, Q, jittered)


def _fill(
    A: np.ndarray, covariance: Covariance, points: np.ndarray, y: np.ndarray, noise: np.ndarray
) -> None:
    """Put C, k(N, x*) and y_N of each query into the upper triangle of A (B, m + 1 + p, m + 1 + p).

    `noise` (B, m) is that of each row.
    """
    m, p = y.shape[1:]
    covariance.fill_grams(A, points)
    diagonal = np.einsum("bii->bi", A)
    diagonal[:, :m] += noise
    diagonal[:, m:] = _HUGE
    A[:, :m, m + 1 :] = y
    A[:, m, m + 1 :] = 0.0
    for i in range(p - 1):
        A[:, m + 1 + i, m + 2 + i :] = 0.0


def _squared_correlations(A: np.ndarray, prior: np.ndarray, noise: np.ndarray, m: int) -> np.ndarray:
    """ρ² (B, h) of f at the query with f at each of the nearest h rows; 0 where the prior variance is 0."""
    h = noise.shape[1]
    variances = prior[:, None] * (np.einsum("bii->bi", A)[:, :h] - noise)
    k = A[:, :h, m]
    return np.divide(k * k, variances, out=np.zeros_like(variances), where=variances > 0.0)


def _repair(
    A: np.ndarray, covariance: Covariance, points: np.ndarray, y: np.ndarray, noise: np.ndarray
) -> None:
    """Factorise the one matrix of A (1, ·, ·) with the smallest jitter that works."""
    m = y.shape[1]
    for jitter in JITTERS[1:]:
        _fill(A, covariance, points, y, noise)
        if not np.isfinite(np.triu(A[0, : m + 1, : m + 1])).all():
            raise NotPositiveDefiniteError(
                f"The covariance matrix of a query's {m} nearest rows contains NaN or infinity. "
                "Look for extreme values in the inputs or in the kernel's hyperparameters."
            )
        np.einsum("bii->bi", A)[:, :m] += jitter * float(np.mean(np.diagonal(A[0])[:m]))
        if cholesky_each_in_place(A)[0] == 0 and np.isfinite(A[0, m - 1, m - 1]):
            return
    raise NotPositiveDefiniteError(
        f"The covariance matrix of a query's {m} nearest rows is not positive definite, even with "
        f"{JITTERS[-1]:g} of its mean diagonal added. Add a WhiteKernel to the kernel, or raise its level."
    )


def _taper(sq: np.ndarray, rim: np.ndarray, full: float) -> np.ndarray:
    """W (n, m): 1 for the nearest rows, then falling linearly with the distance to 0 at the rim."""
    m = sq.shape[1]
    distance = np.sqrt(sq)
    inner = distance[:, max(1, round(full * m)) - 1, None]
    width = np.sqrt(rim)[:, None] - inner
    distance -= inner
    np.maximum(distance, 0.0, out=distance)
    # Where all these rows are equally far, nothing is tapered.
    u = np.divide(distance, width, out=np.zeros_like(distance), where=width > 0.0)
    np.minimum(u, 1.0, out=u)
    return np.subtract(1.0, u, out=u)


def nested(m: int) -> list[int]:
    """Numbers of the nearest rows, below m, whose predictions are compared: 4, 8, 16 and so on."""
    return [4 * 2**k for k in range(m.bit_length()) if 4 * 2**k < m]


def _disagreement(faded: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Σ_j Δ_j² / Var(Δ_j), (n, p), where Δ_j is what more rows change of the prediction.

    With rows nearest first, the prediction from the first h rows is the sum of the first h terms of
    μ = Σ_i W_i a_i b_i, and the terms are independent with variances W_i² a_i² if the kernel is right.
    """
    starts = nested(faded.shape[1])
    if not starts:
        return np.zeros((len(b), b.shape[2]))
    change = np.add.reduceat(faded[:, :, None] * b, starts, axis=1)
    variance = np.add.reduceat(faded**2, starts, axis=1)[:, :, None]
    return np.divide(change**2, variance, out=np.zeros_like(change), where=variance > 0.0).sum(axis=1)


def _variance_ratio(z2: np.ndarray, near: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Mean of z² (n, h, p) by nearness, shrunk to the plain mean of the neighbours and that to 1; (n, p)."""
    count, total = kept.sum(axis=1)[:, None], near.sum(axis=1)[:, None]
    return variance_ratio(
        np.matmul(near[:, None], z2)[:, 0], total, np.matmul(kept[:, None], z2)[:, 0], count
    )


def posterior_variance(own: OwnPrediction, prior: np.ndarray) -> np.ndarray:
    """Latent variance of f given μ, the best linear predictor: s² − r²/Var(μ), (n,)."""
    share = own.explained**2 / np.maximum(own.variance_of_mean, np.finfo(float).tiny)
    return np.clip(prior - share, VARIANCE_FLOOR * prior, prior)

"""The covariance of prediction errors, and the variance of weighted sums of predictions.

The errors f − mean of n queries X, whose means are W y with W (n, u) on the training rows U, are the linear
function (I, −W) of the values of f at X and U, minus W ε. Hence their covariance is

    Σ = V ᵀ k(Z, Z) V + W D Wᵀ,    Z = (X, U),   V = (I, −W)ᵀ,   D the noise variances of the rows,

which is positive semi-definite. The variance of a weighted sum replaces V by one column, V A. The errors of a
trend that is a sparse GP have the posterior covariance of that GP, which is added. The learned noise of the
experts contains its average variance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, dia_array, vstack

from gpexperts.engines import ThreadEngine
from gpexperts.exceptions import MemoryBudgetError
from gpexperts.experts.moments import VARIANCE_FLOOR
from gpexperts.joint.weights import (
    LinearPredictions,
    check_linear,
    check_untransformed,
    linear_batches,
    linear_predictions,
    most_entries,
    row_noise,
)
from gpexperts.kernels.base import Covariance
from gpexperts.memory import bytes_of, readable_size
from gpexperts.predictor import Predictor
from gpexperts.trend import FittedTrend, TrendValues
from gpexperts.trend.sparse import SparseGP

__all__ = ["WeightedSum", "error_covariance", "predicted_covariance", "weighted_sum"]

_BLOCK = 512
"""Points of a block of the kernel matrix."""
_SHARES = 4
"""Sums that are formed in parallel: a fixed number, so that the result does not depend on the threads."""
_DENSE = 0.1
"""Share of non-zero weights from which they are multiplied as a dense matrix."""


class WeightedSum(NamedTuple):
    """Mean and standard deviation of a weighted sum of predictions, numbers or (p,)."""

    mean: Any
    std: Any


def predicted_covariance(predictor: Predictor, X: np.ndarray, latent: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return mean (n, p) and covariance (n, n, p) in the user's units.

    Parameters
    ----------
    predictor : Predictor
    X : ndarray of shape (n, d)
        Queries, in the user's units.
    latent : bool
        Whether the covariance is that of the noise-free function.

    Raises
    ------
    MemoryBudgetError
        If the matrix does not fit the memory budget.
    """
    check_linear(predictor, "return_cov=True")
    check_untransformed(predictor, "return_cov=True")
    n, p = len(X), predictor.model.n_outputs
    _check_size(predictor, n)
    trend, trend_values = predictor.model.trend, None
    if trend is not None and trend.sparse is not None:
        of_trend, trend_values = _trend_covariance(trend, trend.sparse, X)
    X, added = predictor.formula.inputs(X, trend_values)
    linear = linear_predictions(predictor, X)
    errors = error_covariance(linear, _engine(predictor), predictor.settings.work_budget)
    scale = predictor.model.y_scale.scale
    if latent:
        covariance = errors[:, :, None] * scale**2
    else:
        errors[np.diag_indices(n)] += predictor.formula.noise_variance
        covariance = np.empty((n, n, p))
        for output, factor in enumerate(np.sqrt(linear.correction).T * scale[:, None]):
            np.multiply(errors, np.outer(factor, factor), out=covariance[:, :, output])
    if trend_values is not None:
        if not latent:
            noise = linear.correction[:, 0] * predictor.formula.noise_variance * scale[0] ** 2
            of_trend[np.diag_indices(n)] -= np.minimum(added.contained[:, 0], noise)
        covariance += of_trend[:, :, None]
    return predictor.model.y_scale.restore(linear.mean) + added.mean, covariance


def _trend_covariance(trend: FittedTrend, sparse: SparseGP, X: np.ndarray) -> tuple[np.ndarray, TrendValues]:
    """Covariance (n, n) of the errors of a sparse GP at inputs X (n, d), in the units of the target, and
    its values.
    """
    pieces = list(sparse.features(X))
    v = np.concatenate([some.v for some in pieces], axis=1)
    conditioned = np.concatenate([some.conditioned for some in pieces], axis=1)
    covariance = sparse.points.covariance.gram(sparse.inputs(X)) - v.T @ v + conditioned.T @ conditioned
    moments = zip(*map(sparse.moments_of, pieces), strict=True)
    values = trend.uncertain(*(np.concatenate(part) for part in moments))
    return 0.5 * sparse.variance_unit * (covariance + covariance.T), values


def _check_size(predictor: Predictor, n: int) -> None:
    budget = bytes_of(predictor.settings["memory_budget"])
    words = 4 + predictor.model.n_outputs
    per_query = 16 * most_entries(predictor)
    largest = int((np.sqrt(per_query**2 + 32.0 * words * budget) - per_query) / (16.0 * words))
    if n > largest:
        needed = 8 * words * n * n + per_query * n
        raise MemoryBudgetError(
            f"return_cov=True for {n:,} queries takes about {readable_size(needed)}, more than "
            f"memory_budget={predictor.settings['memory_budget']!r} ({readable_size(budget)}); at most "
            f"{largest:,} queries fit. For a sum or a mean of predictions use predict_sum, which needs no "
            "matrix."
        )


def error_covariance(linear: LinearPredictions, engine: ThreadEngine, budget: int) -> np.ndarray:
    """Σ (n, n) of the latent errors, in the units of the experts.

    The diagonal is the variance of `predict`: NPAE's nugget makes it a little larger, and it has more digits
    where the predictor explains nearly all of the prior variance.
    """
    rows, W = linear.rows(), linear.weights
    V = csr_array(vstack([_identity(len(linear.X)), -W.T], format="csr"))
    points = np.concatenate([linear.X, rows.X])
    errors = prior_form(linear.covariance, points, V, engine, budget)
    noise = (W * row_noise(linear.covariance, rows.noise) @ W.T).toarray()
    errors += 0.5 * (noise + noise.T)  # symmetric to the last bit
    errors[np.diag_indices(len(errors))] = linear.var
    return errors


def weighted_sum(predictor: Predictor, X: np.ndarray, weights: np.ndarray, latent: bool) -> WeightedSum:
    """Mean and std, (p,), of Σ_i weights_i y(x_i), in the user's units, without the matrix of covariances.

    Parameters
    ----------
    predictor : Predictor
    X : ndarray of shape (n, d)
        Queries, in the user's units.
    weights : ndarray of shape (n,)
    latent : bool
        Whether the sum is that of the noise-free function.
    """
    check_linear(predictor, "predict_sum")
    check_untransformed(predictor, "predict_sum")
    model, trend_values, trend_var = predictor.model, None, 0.0
    if model.trend is not None and model.trend.sparse is not None:
        trend_var, trend_values = _trend_sum(model.trend, model.trend.sparse, X, weights, predictor)
    X, added = predictor.formula.inputs(X, trend_values)
    n, p, N = len(X), model.n_outputs, int(model.experts.offsets[-1])
    total, noise, of_trend = np.zeros(p), np.zeros(p), np.zeros(p)
    coefficient, rows = np.empty((n, p)), np.zeros((N, p))
    touched = np.zeros(N, dtype=bool)
    step = max(16, predictor.settings.work_budget // (32 * most_entries(predictor)))
    for some, linear in linear_batches(predictor, X, step):
        a = np.repeat(weights[some, None], p, axis=1)
        total += weights[some] @ linear.mean
        if not latent:
            a *= np.sqrt(linear.correction)
            each = predictor.formula.noise_variance * a**2
            noise += each.sum(axis=0)
            contained = added.contained[some] * weights[some, None] ** 2
            of_trend -= np.minimum(contained, each * model.y_scale.scale**2).sum(axis=0)
        coefficient[some] = a
        rows[linear.positions] += linear.weights.T @ a
        touched[linear.positions] = True
    positions = np.flatnonzero(touched)
    c = rows[positions]
    used = model.experts.take(positions)
    points, V = np.concatenate([X, used.X]), np.concatenate([coefficient, -c])
    form = prior_form(model.covariance, points, V, _engine(predictor), predictor.settings.work_budget)
    var = np.diagonal(form) + row_noise(model.covariance, used.noise) @ c**2 + noise
    least = VARIANCE_FLOOR * model.covariance.prior_variance(X) @ coefficient**2
    scale = model.y_scale.scale
    mean = total * scale + weights.sum() * model.y_scale.shift + weights @ np.broadcast_to(added.mean, (n, p))
    std = np.sqrt(np.maximum(var, least)) * scale
    if trend_values is not None:
        std = np.sqrt(std**2 + of_trend + trend_var)
    return WeightedSum(mean, std)


def _trend_sum(
    trend: FittedTrend, sparse: SparseGP, X: np.ndarray, weights: np.ndarray, predictor: Predictor
) -> tuple[float, TrendValues]:
    """Variance of the weighted sum of the errors of a sparse GP at X (n, d), in the units of the target, and
    its values.
    """
    v, moments = np.zeros(len(sparse.coef)), np.empty((2, len(X)))
    for some in sparse.features(X):
        v += some.v @ weights[some.rows]
        moments[:, some.rows] = sparse.moments_of(some)
    conditioned = sparse.conditioned(v)
    covariance, budget = sparse.points.covariance, predictor.settings.work_budget
    prior = prior_form(covariance, sparse.inputs(X), weights[:, None], _engine(predictor), budget)
    var = max(float(prior[0, 0]) - float(v @ v), 0.0) + float(conditioned @ conditioned)
    return sparse.variance_unit * var, trend.uncertain(*moments)


def prior_form(
    covariance: Covariance, Z: np.ndarray, V: np.ndarray | csr_array, engine: ThreadEngine, budget: int
) -> np.ndarray:
    """Vᵀ k(Z, Z) V, (c, c), in blocks of the kernel matrix; pairs of blocks without correlation are skipped.

    Parameters
    ----------
    covariance : Covariance
    Z : ndarray of shape (z, d)
        Points; near ones are best near each other in this order.
    V : ndarray or csr_array of shape (z, c)
    engine : ThreadEngine
    budget : int
        Bytes for work arrays.
    """
    z, c = V.shape
    if isinstance(V, csr_array) and V.nnz > _DENSE * z * c and 8 * z * c <= budget:
        V = V.toarray()
    blocks = [slice(start, min(start + _BLOCK, z)) for start in range(0, z, _BLOCK)]
    parts = [V[block] for block in blocks]
    shares = _SHARES if 8 * _SHARES * c * c <= budget else 1

    def partial(share: int) -> np.ndarray:
        """Half of the sum over pairs whose later block is one of this share."""
        total = np.zeros((c, c))
        for later in range(share, len(blocks), shares):
            columns = blocks[later]
            product = np.zeros((c, columns.stop - columns.start))
            for earlier in range(later):
                rows = blocks[earlier]
                if not covariance.vanishes(Z[rows], Z[columns]):
                    product += parts[earlier].T @ covariance(Z[rows], Z[columns])
            product += 0.5 * (parts[later].T @ covariance.gram(Z[columns]))
            total += product @ parts[later]
        return total

    half = sum(engine.map(partial, list(range(shares))), start=np.zeros((c, c)))
    return half + half.T


def _engine(predictor: Predictor) -> ThreadEngine:
    return ThreadEngine(predictor.settings["n_jobs"])


def _identity(n: int) -> dia_array:
    """The identity as a sparse array; `eye_array` needs SciPy 1.12."""
    return dia_array((np.ones((1, n)), [0]), shape=(n, n))

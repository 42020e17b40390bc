"""Derivatives of the mean with respect to the inputs, and the standard deviation of their errors.

With J = ∂w/∂x (u, d), the derivative of mean(x) = w(x)ᵀ y is Jᵀ y. The error of its entry j has the variance

    Var(∂f/∂x_j) − 2 J_jᵀ ∂k(U, x)/∂x_j + J_jᵀ C J_j.

For w = Q a, where the columns of Q (u, K) are the weights q_k of the experts and A a = r, A = QᵀC Q + nugget:

    ∂a = A⁻¹ (∂r − ∂A a),   ∂r = ∂Qᵀk + Qᵀ∂k,   ∂A = ∂QᵀC Q + QᵀC ∂Q,   J = ∂Q a + Q ∂a.

Selected experts and neighbours are those of the query: where they change, the derivative is one-sided.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpexperts.aggregation import NPAE
from gpexperts.engines import ThreadEngine
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.moments import VARIANCE_FLOOR
from gpexperts.experts.own import Neighbourhood
from gpexperts.experts.taper import taper_with_gradient
from gpexperts.joint.weights import check_linear, check_untransformed, row_noise
from gpexperts.kernels.derivative import has_input_gradient, input_gradient, slope_variance
from gpexperts.linalg.cholesky import factorise
from gpexperts.model import FittedModel
from gpexperts.predictor import Predictor
from gpexperts.trend.regressors import Linear
from gpexperts.trend.sparse import SparseGP

__all__ = ["predicted_gradient"]


class _Column(NamedTuple):
    """The weights of one expert and their derivatives."""

    positions: np.ndarray
    """(m,) of its rows."""
    q: np.ndarray
    """(m,)"""
    dq: np.ndarray
    """(m, d)"""


def predicted_gradient(
    predictor: Predictor, X: np.ndarray, return_std: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Derivative of the mean and its latent std, both (n, d, p), in the user's units; std if requested.

    Parameters
    ----------
    predictor : Predictor
    X : ndarray of shape (n, d)
        Queries, in the user's units.
    return_std : bool

    Raises
    ------
    ValueError
        If the aggregation, the kernel or the place of the experts does not allow it.
    """
    check_linear(predictor, "predict_gradient")
    check_untransformed(predictor, "predict_gradient")
    model = predictor.model
    _check_inputs(model)
    experts, covariance = model.experts, model.covariance
    if not isinstance(experts, LocalExperts):
        raise ValueError(
            "predict_gradient needs the factors of the experts, which are on a cluster: use model.to_local()."
        )
    if not has_input_gradient(covariance):
        raise ValueError(
            f"predict_gradient is not available for the kernel {covariance.kernel}. Use (constant ×) RBF, "
            "Matern with nu 0.5, 1.5 or 2.5, or RationalQuadratic, plus WhiteKernel."
        )
    prior = slope_variance(covariance, X.shape[1])
    if return_std and prior is None:
        raise ValueError(
            "Under a Matérn kernel with nu=0.5 the function has no derivative, so that its std is infinite. "
            "Use return_std=False, or a smoother kernel."
        )
    given = X
    X, _ = model.inputs(X)
    n, d, p = len(X), X.shape[1], model.n_outputs
    index, weight = np.empty((n, 0), dtype=np.int64), np.empty((n, 0))
    near, engine = None, ThreadEngine(predictor.settings["n_jobs"])
    if predictor.formula.n_neighbors:  # one row more: the rim moves with its distance
        near = experts.neighbourhood(X, predictor.formula.n_neighbors + 1, engine)
    for rows, moments, prediction in predictor.batches(X, predictor.formula.select(X)):
        if not weight.shape[1]:
            index, weight = (np.zeros((n, moments.index.shape[1]), dtype=t) for t in (np.int64, float))
        index[rows], weight[rows] = moments.index, prediction.weight
    predictor.report_jitter()
    task = _Task(predictor, experts, near, prior)

    def one(i: int) -> tuple[np.ndarray, np.ndarray]:
        return task.gradient(i, X[i], index[i][weight[i] != 0.0])

    results = engine.map(one, list(range(n)))
    gradient = np.array([result[0] for result in results]).reshape(n, d, p)
    var = np.array([result[1] for result in results]).reshape(n, d)
    scale = model.y_scale.scale / model.x_scale.scale[:, None]
    gradient, std = gradient * scale, np.sqrt(var)[:, :, None] * scale
    if model.trend is not None and model.trend.sparse is not None:
        of_trend = [model.trend.sparse.gradient(x) for x in given]
        gradient += np.array([slope for slope, _ in of_trend]).reshape(n, d, 1)
        std = np.hypot(std, np.sqrt([error for _, error in of_trend]).reshape(n, d, 1))
    elif model.trend is not None:
        linear = [g for g in model.trend.predictors if isinstance(g, Linear)]
        gradient += np.stack([g.coef for g in linear], axis=1)
    return gradient, std


def _check_inputs(model: FittedModel) -> None:
    """Refuse inputs and trends without a derivative."""
    for column in model.encoder.columns:
        if column.kind != "number" or column.gaps:
            what = "gaps" if column.kind == "number" else "no numbers"
            raise ValueError(
                f"predict_gradient needs numbers without gaps, but column {column.name!r} has {what}. Fit "
                "the other columns alone, or difference predictions."
            )
    trend = model.trend
    if trend is not None and not (
        trend.role == "mean" and all(isinstance(g, (Linear, SparseGP)) for g in trend.predictors)
    ):
        raise ValueError(
            f"predict_gradient is not available with the trend {trend.name!r} as {trend.role}: only a linear "
            "trend or a sparse GP that is the mean has a derivative. Use trend=None, or trend='sparse' or "
            "'linear' with trend_role='mean'."
        )


class _Task(NamedTuple):
    """What the gradients of all queries share."""

    predictor: Predictor
    experts: LocalExperts
    near: Neighbourhood | None
    """Of m + 1 rows."""
    prior: np.ndarray | None
    """(d,) prior variances of the derivatives."""

    def gradient(self, i: int, x: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Derivative (d, p) of the mean of query i, and the variance (d,) of its error.

        `index` holds the experts that have a weight; M stands for the own expert.
        """
        prior = np.zeros(len(x)) if self.prior is None else self.prior
        columns = [self._own(i, x) if k == self.experts.n_experts else self._fixed(int(k), x) for k in index]
        if not columns:
            return np.zeros((len(x), self.experts.n_outputs)), prior
        positions = np.unique(np.concatenate([column.positions for column in columns]))
        inputs, targets, noise = self.experts.take(positions)
        dk = input_gradient(self.experts.covariance, x, inputs)
        if len(columns) == 1 and index[0] < self.experts.n_experts:
            J = columns[0].dq  # C⁻¹ ∂k of a single expert, whose mean is kept
            explained = np.einsum("ud,ud->d", J, dk)
        else:
            C = self.experts.covariance.gram(inputs)
            np.einsum("ii->i", C)[:] += row_noise(self.experts.covariance, noise)
            J = self._combined(x, columns, positions, inputs, dk, C)
            explained = np.einsum("ud,ud->d", J, 2.0 * dk - C @ J)
        return J.T @ targets, np.clip(prior - explained, VARIANCE_FLOOR * prior, None)

    def _combined(
        self,
        x: np.ndarray,
        columns: list[_Column],
        positions: np.ndarray,
        inputs: np.ndarray,
        dk: np.ndarray,
        C: np.ndarray,
    ) -> np.ndarray:
        """J (u, d) of the combination of several experts, or of the own expert."""
        u, K, d = len(positions), len(columns), len(x)
        Q, dQ = np.zeros((u, K)), np.zeros((u, K, d))
        for k, column in enumerate(columns):
            at = np.searchsorted(positions, column.positions)
            Q[at, k], dQ[at, k] = column.q, column.dq
        k_x = self.experts.covariance(inputs, x[None])[:, 0]
        G = C @ Q
        r, dr = Q.T @ k_x, np.einsum("ukd,u->kd", dQ, k_x) + Q.T @ dk
        half = np.einsum("ukd,ul->kld", dQ, G)
        A, dA = Q.T @ G, half + half.swapaxes(0, 1)
        if K > 1:
            aggregator = self.predictor.formula.aggregator
            assert isinstance(aggregator, NPAE)
            A[np.diag_indices(K)] += aggregator.nugget * self.experts.covariance.prior_variance(x[None])[0]
        a = np.linalg.solve(A, r)
        da = np.linalg.solve(A, dr - np.einsum("kld,l->kd", dA, a))
        return np.einsum("ukd,k->ud", dQ, a) + Q @ da

    def _fixed(self, k: int, x: np.ndarray) -> _Column:
        """A fixed expert, q = C⁻¹ k(X, x)."""
        inputs = self.experts.rows(k).X
        covariance, inverse = self.experts.covariance, self.experts.trained(k).inverse
        b = np.concatenate([covariance(x[None], inputs), input_gradient(covariance, x, inputs).T])
        q = inverse.whiten_transposed(inverse.whiten(np.ascontiguousarray(b)))
        positions = np.arange(self.experts.offsets[k], self.experts.offsets[k + 1])
        return _Column(positions, q[0], q[1:].T)

    def _own(self, i: int, x: np.ndarray) -> _Column:
        """The own expert, q = L⁻ᵀ (W L⁻¹ k(N, x)), whose taper W depends on x too."""
        assert self.near is not None
        near, covariance = self.near.part(slice(i, i + 1)), self.experts.covariance
        m = min(self.predictor.formula.n_neighbors, near.X.shape[1])
        inputs = near.X[0]
        taper, dtaper = taper_with_gradient(x, inputs, m, covariance.metric(np.ones(len(x))))
        C = covariance.noisy_gram(inputs[:m], near.noise[0, :m])
        factor = factorise(C, name="covariance matrix of nearest rows")
        inverse = factor.inverted()
        b = np.concatenate([covariance(x[None], inputs[:m]), input_gradient(covariance, x, inputs[:m]).T])
        half = inverse.whiten(np.ascontiguousarray(b))
        half[1:] = taper * half[1:] + dtaper.T * half[0]
        half[0] *= taper
        q = inverse.whiten_transposed(half)
        return _Column(near.position[0, :m], q[0], q[1:].T)

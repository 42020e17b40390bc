"""Experts in the memory of this process.

Expert i with rows (X_i, y_i) predicts the latent function at x*, with C_i = k(X_i, X_i) + D_i, where D_i has
the noise variance of each row on its diagonal:

    q_i = C_i⁻¹ k(X_i, x*),   μ_i = q_iᵀ y_i,   r_i = q_iᵀ k(X_i, x*),   v_i = s² − r_i

and the means of two experts covary by R_ij = q_iᵀ k(X_i, X_j) q_j.

The leave-one-out residual of its own row r is α_r / [C_i⁻¹]_rr with variance 1 / [C_i⁻¹]_rr, where
α = C_i⁻¹ y_i. Hence z_r² = α_r² / [C_i⁻¹]_rr is 1 on average if the model is right.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gpexperts.engines.base import Engine
from gpexperts.engines.threads import blas_threads_for, usable_workers
from gpexperts.experts.gather import evaluate, evaluate_own, moments_of
from gpexperts.experts.moments import ExpertMoments, ExpertPrediction, Request
from gpexperts.experts.own import Neighbourhood
from gpexperts.experts.row_weights import with_row_weights
from gpexperts.experts.store import ExpertStore, Observations, Sample
from gpexperts.kernels.base import Covariance
from gpexperts.linalg.cholesky import InverseFactor, factorise
from gpexperts.linalg.leave_one_out import LeaveOneOut, variance_ratio
from gpexperts.row_noise import observation_variance, plain, student_precision, weights
from gpexperts.rows.neighbours import RowIndex

__all__ = ["LocalExperts"]


class Trained(NamedTuple):
    """What an expert computes once: its factor and what follows from it."""

    inverse: InverseFactor
    alpha: np.ndarray
    """C_i⁻¹ y_i, outputs first, (p, m_i)."""
    squared_residuals: np.ndarray
    """z² of its own rows, outputs first, (p, m_i)."""

    @property
    def nbytes(self) -> int:
        return int(self.inverse.lower.nbytes + self.alpha.nbytes + self.squared_residuals.nbytes)


class LocalExperts(ExpertStore):
    """Local GPs that share one covariance.

    Rows are sorted by expert, so that an expert is a slice. A factor is computed when a query first needs
    it, kept while it fits the budget, and computed again if it was dropped.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs, sorted by expert.
    y : ndarray of shape (n, p)
        Targets, in the same order.
    offsets : ndarray of shape (M + 1,)
        Expert i owns rows ``offsets[i]:offsets[i + 1]``.
    covariance : Covariance
    numbers : ndarray of int, shape (n,), optional
        Number of each row in the training data.
    noise : ndarray of shape (n, 2) or (n, 0), optional
        Weight and given noise of each row; see `row_noise`.
    shared : Observations or None
        GRBCM's communication set.
    factor_budget : int
        Bytes that the kept factors may take.
    first : int
        Number of the first expert, where these are a shard of all experts.
    """

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        offsets: np.ndarray,
        covariance: Covariance,
        *,
        numbers: np.ndarray | None = None,
        noise: np.ndarray | None = None,
        shared: Observations | None = None,
        factor_budget: int,
        first: int = 0,
    ) -> None:
        self.X, self.y, self.offsets = X, y, offsets
        self.n_features, self.n_outputs = X.shape[1], y.shape[1]
        self.numbers = np.arange(len(X)) if numbers is None else numbers
        self.noise = plain(len(X)) if noise is None else noise
        self.first = first
        self.covariance = covariance
        self.shared = shared
        self.factor_budget = factor_budget
        self._forget()

    def _forget(self) -> None:
        self._kept: OrderedDict[int, Trained] = OrderedDict()
        self._kept_bytes = 0
        self._index: RowIndex | None = None
        self._lock = threading.Lock()
        self.jitter: dict[int, float] = {}

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("_kept", "_kept_bytes", "_index", "_lock"):
            del state[name]
        return state

    def __sizeof__(self) -> int:
        """Bytes of the rows: the cost of moving these experts to another worker."""
        columns = (self.X, self.y, self.numbers, self.noise, *(self.shared or ()))
        return int(sum(column.nbytes for column in columns))

    def __setstate__(self, state: dict[str, Any]) -> None:
        jitter = state.pop("jitter")
        self.__dict__.update(state)
        self._forget()
        self.jitter = jitter

    @property
    def sample(self) -> Sample:
        return Sample(self.X, np.repeat(np.arange(self.n_experts), self.sizes), np.arange(len(self.X)))

    def rows(self, i: int) -> Observations:
        """Return the m_i rows that expert i sees."""
        if self.shared is not None and i == self.n_experts:
            return self.shared
        own = self._at(slice(self.offsets[i], self.offsets[i + 1]))
        if self.shared is None:
            return own
        return Observations(*map(np.concatenate, zip(self.shared, own, strict=True)))

    def take(self, positions: np.ndarray) -> Observations:
        return self._at(positions)

    def _at(self, positions: Any) -> Observations:
        return Observations(self.X[positions], self.y[positions], self.noise[positions])

    def row_batches(self, column: int, max_bytes: int) -> Iterator[np.ndarray]:
        yield (self.X, self.y, self.numbers, self.noise)[column]

    def to_local(self, factor_budget: int) -> LocalExperts:
        return self

    def without(self, positions: np.ndarray) -> LocalExperts:
        kept = np.ones(len(self.X), dtype=bool)
        kept[positions] = False
        return LocalExperts(
            self.X[kept],
            self.y[kept],
            np.concatenate([[0], np.cumsum(kept)])[self.offsets],
            self.covariance,
            numbers=self.numbers[kept],
            noise=self.noise[kept],
            shared=self.shared,
            factor_budget=self.factor_budget,
            first=self.first,
        )

    def robust(self, degrees: float, rounds: int) -> LocalExperts:
        experts = self
        for _ in range(rounds):
            shared = experts.shared
            if shared is not None:
                shared = shared._replace(noise=experts._reweighted(experts.n_experts, degrees))
            first = 0 if shared is None else len(shared.X)
            own = [experts._reweighted(i, degrees)[first:] for i in range(experts.n_experts)]
            experts = LocalExperts(
                experts.X,
                experts.y,
                experts.offsets,
                experts.covariance,
                numbers=experts.numbers,
                noise=np.concatenate([np.empty((0, 4)), *own]),
                shared=shared,
                factor_budget=experts.factor_budget,
                first=experts.first,
            )
        return experts

    def _reweighted(self, i: int, degrees: float) -> np.ndarray:
        """The table of noise of the rows of expert i, by r² / (v + σ² + τ²), r the leave-one-out residual.

        v is the leave-one-out variance of the function, so that a row is judged as an ordinary one.
        """
        inverse, alpha, _ = self.trained(i)
        rows, left_out = self.rows(i), LeaveOneOut(alpha, inverse.precision())
        latent = np.maximum(left_out.variance - self.covariance.row_noise(rows.noise), 0.0)
        variance = latent + observation_variance(rows.noise, self.covariance.noise_variance)
        z2 = (left_out.residual**2).sum(axis=0) / (variance + np.finfo(float).tiny)
        return student_precision(rows.noise, z2, degrees, self.n_outputs)

    def changed(
        self, rows: Observations, offsets: np.ndarray, numbers: np.ndarray, *, unchanged: np.ndarray
    ) -> LocalExperts:
        """Return experts with other rows; those of the experts `unchanged` are the same, in the same order.

        These keep their factors.
        """
        X, y, noise = rows
        experts = LocalExperts(
            X, y, offsets, self.covariance, numbers=numbers, noise=noise, factor_budget=self.factor_budget
        )
        same = set(unchanged.tolist())
        with self._lock:
            experts._kept = OrderedDict((i, kept) for i, kept in self._kept.items() if i in same)
            experts.jitter = {i: jitter for i, jitter in self.jitter.items() if i in same}
        experts._kept_bytes = sum(kept.nbytes for kept in experts._kept.values())
        return experts

    def nearest(self, X: np.ndarray, m: int, engine: Engine) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and squared distances (n, m) of the rows nearest to each query X (n, d)."""
        with self._lock:
            if self._index is None:
                metric = self.covariance.metric(np.ones(self.n_features))
                self._index = RowIndex(self.X, metric, self.numbers)
            index = self._index
        return index.nearest(X, m, engine)

    def neighbourhood(self, X: np.ndarray, m: int, engine: Engine) -> Neighbourhood:
        m = min(m, len(self.X))
        positions, sq = self.nearest(X, min(m + 1, len(self.X)), engine)
        rim = sq[:, m] if sq.shape[1] > m else np.full(len(X), np.inf)
        positions = positions[:, :m]
        return Neighbourhood(*self._at(positions), sq[:, :m], rim, positions, self.numbers[positions])

    def gather(self, X: np.ndarray, index: np.ndarray, request: Request, engine: Engine) -> ExpertMoments:
        evaluated = evaluate(self, X, index, request, engine)
        own = None
        if request.n_neighbors:
            near = self.neighbourhood(X, request.n_neighbors, engine)
            own = evaluate_own(self.covariance, near, X, index, self.offsets, request, engine)
        communication = None
        if request.communication:
            (communication,) = engine.map(lambda i: self.predict(i, X), [self.n_experts])
        moments = moments_of(
            self.covariance, X, index, self.n_outputs, [evaluated], communication, own, request, engine
        )
        return with_row_weights(moments, [evaluated], own, self.offsets, request)

    def trained(self, i: int) -> Trained:
        """Return the inverse factor of C_i and C_i⁻¹ y_i, from the kept ones if possible."""
        with self._lock:
            if i in self._kept:
                self._kept.move_to_end(i)
                return self._kept[i]
        X, y, noise = self.rows(i)
        # Rounding differs with the number of BLAS threads. A factor outlives the batch that first needs it,
        # so that it must not depend on the threads of that batch.
        with blas_threads_for(float(len(X)) ** 3 if self.n_experts == 1 else 0.0, usable_workers(None)):
            name = f"covariance matrix of expert {self.first + i}"
            factor = factorise(self.covariance.noisy_gram(X, noise), name=name)
            alpha = factor.solve(np.array(y.T, order="C"))
            return self.keep(i, factor.inverted(), alpha, factor.jitter)

    def keep(self, i: int, inverse: InverseFactor, alpha: np.ndarray, jitter: float) -> Trained:
        """Store the factor of expert i while it fits the budget, dropping the least recently used."""
        trained = Trained(inverse, alpha, LeaveOneOut(alpha, inverse.precision()).squared_z)
        with self._lock:
            if jitter > 0:
                self.jitter[i] = jitter
            if i not in self._kept and trained.nbytes <= self.factor_budget:
                self._kept[i] = trained
                self._kept_bytes += trained.nbytes
                while self._kept and self._kept_bytes > self.factor_budget:
                    _, dropped = self._kept.popitem(last=False)
                    self._kept_bytes -= dropped.nbytes
        return trained

    def predict(
        self,
        i: int,
        X: np.ndarray,
        *,
        variance: bool = True,
        weights: bool = False,
        local_noise: bool = False,
    ) -> ExpertPrediction:
        """Predict the latent function at the queries X (n, d) with expert i.

        Parameters
        ----------
        variance : bool
            Whether to compute `explained`; without it only the mean is computed.
        weights : bool
            Whether to return q_i too, which covariances between experts need.
        local_noise : bool
            Whether to return the local variance ratio.
        """
        inverse, alpha, squared_residuals = self.trained(i)
        k = self.covariance(X, self.rows(i).X)  # (n, m_i)
        mean = k @ alpha.T
        ratio = self._variance_ratio(i, X, k, squared_residuals) if local_noise else None
        if not variance and not weights:
            return ExpertPrediction(mean, None, None, ratio)
        half = inverse.whiten(k)  # (L⁻¹ k)ᵀ, in place of k
        explained = np.einsum("nm,nm->n", half, half)
        return ExpertPrediction(mean, explained, inverse.whiten_transposed(half) if weights else None, ratio)

    def _variance_ratio(
        self, i: int, X: np.ndarray, k: np.ndarray, squared_residuals: np.ndarray
    ) -> np.ndarray:
        """Σ_r w_r ρ_r⁴ z_r² / Σ_r w_r ρ_r⁴ at every query, (n, p), shrunk to the mean of z² and that to 1.

        ρ_r is the correlation of row r with the query; its fourth power restricts the mean to near rows. w_r
        is the weight of the row.
        """
        z2, rows = squared_residuals, self.rows(i)
        w = weights(rows.noise)
        prior = self.covariance.prior_variance
        near = k * k
        near /= np.outer(prior(X), prior(rows.X))  # ρ²
        near *= near
        near *= w
        return variance_ratio(near @ z2.T, near.sum(axis=1, keepdims=True), z2 @ w, w.sum())

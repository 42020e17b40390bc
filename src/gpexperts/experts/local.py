"""The fitted experts: who owns which rows, what each says, and how two of them correlate.

Expert i with rows (X_i, y_i) says about the latent function at x*, with C_i = k(X_i, X_i) + σ²I:

    q_i = C_i⁻¹ k(X_i, x*),   μ_i = q_iᵀ y_i,   r_i = q_iᵀ k(X_i, x*),   v_i = s² − r_i

and two experts' means covary by R_ij = q_iᵀ k(X_i, X_j) q_j.

Each of its own rows it can also predict from its others: with α = C_i⁻¹ y_i the error is α_r / [C_i⁻¹]_rr,
expected to be of the square 1 / [C_i⁻¹]_rr, so that z_r² = α_r² / [C_i⁻¹]_rr is 1 on average for an expert
who knows itself.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from gpexperts.engines.threads import blas_threads
from gpexperts.kernels.named import Covariance
from gpexperts.linalg.cholesky import InverseFactor, factorise

__all__ = ["Answer", "Experts", "Sample", "pair_covariance"]

_PSEUDO_ROWS = 16.0
"""How many rows at the query the expert's average counts for, and for the average a perfect record."""


class Answer(NamedTuple):
    """What one expert says about a batch of queries."""

    mean: np.ndarray
    """μ_i, (n, p)."""
    explained: np.ndarray | None
    """r_i, the part of the prior variance that is explained, (n,)."""
    weights: np.ndarray | None
    """q_i, (n, m_i), queries first; only if asked for."""
    surprise: np.ndarray | None = None
    """Squared errors near the query as a multiple of what the expert expected, (n, p); only if asked for."""


class Sample(NamedTuple):
    """Some or all rows, sorted by expert."""

    X: np.ndarray
    """Inputs (k, d)."""
    labels: np.ndarray
    """Expert of each (k,)."""
    position: np.ndarray
    """Its place among the rows of all experts (k,)."""


class _Trained(NamedTuple):
    inverse: InverseFactor
    alpha: np.ndarray
    """C_i⁻¹ y_i, outputs first, (p, m_i)."""
    surprise: np.ndarray
    """z² of its own rows, outputs first, (p, m_i)."""

    @property
    def nbytes(self) -> int:
        return int(self.inverse.lower.nbytes + self.alpha.nbytes + self.surprise.nbytes)


class Experts:
    """Local GPs that share one covariance.

    Rows are kept sorted by expert, so that an expert is a slice. Factors are computed when a query
    first needs them, kept while they fit the budget, and computed again if they were let go.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs, sorted by expert.
    y : ndarray of shape (n, p)
        Targets, in the same order.
    offsets : ndarray of shape (M + 1,)
        Expert i owns rows ``offsets[i]:offsets[i + 1]``.
    covariance : Covariance
    shared : tuple of ndarray or None
        GRBCM's communication set (X_c, y_c): every expert sees it besides its own rows, and expert
        number M is the communication expert, who sees nothing else.
    factor_budget : int
        Bytes that the kept factors may take.
    first : int
        What the first of these experts is called in messages, where they are a share of a whole.
    """

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        offsets: np.ndarray,
        covariance: Covariance,
        *,
        shared: tuple[np.ndarray, np.ndarray] | None = None,
        factor_budget: int,
        first: int = 0,
    ) -> None:
        self.X, self.y, self.offsets = X, y, offsets
        self.first = first
        self.covariance = covariance
        self.shared = shared
        self.factor_budget = factor_budget
        self._forget()

    summed: None = None
    """No need to sum over rows elsewhere: they are all here."""

    def _forget(self) -> None:
        self._kept: OrderedDict[int, _Trained] = OrderedDict()
        self._kept_bytes = 0
        self._lock = threading.Lock()
        self.jitter: dict[int, float] = {}

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("_kept", "_kept_bytes", "_lock"):
            del state[name]
        return state

    def __sizeof__(self) -> int:
        """Bytes of the rows: what it costs to send these experts elsewhere."""
        shared = 0 if self.shared is None else self.shared[0].nbytes + self.shared[1].nbytes
        return int(self.X.nbytes + self.y.nbytes + shared)

    def __setstate__(self, state: dict[str, Any]) -> None:
        jitter = state.pop("jitter")
        self.__dict__.update(state)
        self._forget()
        self.jitter = jitter

    # ------------------------------------------------------------------------------------- rows

    @property
    def n_experts(self) -> int:
        """M; the communication expert does not count."""
        return len(self.offsets) - 1

    @property
    def n_outputs(self) -> int:
        """P."""
        return int(self.y.shape[1])

    @property
    def sizes(self) -> np.ndarray:
        """Rows each expert owns, shared ones not counted, shape (M,)."""
        return np.diff(self.offsets)

    @property
    def sample(self) -> Sample:
        """Rows for selectors to learn from: all of them."""
        return Sample(self.X, np.repeat(np.arange(self.n_experts), self.sizes), np.arange(len(self.X)))

    def rows(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs (m_i, d) and targets (m_i, p) that expert i sees."""
        if self.shared is not None and i == self.n_experts:
            return self.shared
        own = slice(self.offsets[i], self.offsets[i + 1])
        if self.shared is None:
            return self.X[own], self.y[own]
        return (
            np.concatenate([self.shared[0], self.X[own]]),
            np.concatenate([self.shared[1], self.y[own]]),
        )

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets at some positions, in the experts' order."""
        return self.X[rows], self.y[rows]

    def size(self, i: int) -> int:
        """m_i, shared rows included."""
        own = 0 if i == self.n_experts else int(self.offsets[i + 1] - self.offsets[i])
        return own + (0 if self.shared is None else len(self.shared[0]))

    def without(self, rows: np.ndarray) -> Experts:
        """The experts as they would be had they never seen some of their own rows.

        Parameters
        ----------
        rows : ndarray of int
            Positions in `X`; every expert must keep at least one row.
        """
        kept = np.ones(len(self.X), dtype=bool)
        kept[rows] = False
        offsets = np.concatenate([[0], np.cumsum(kept)])[self.offsets]
        return Experts(
            self.X[kept],
            self.y[kept],
            offsets,
            self.covariance,
            shared=self.shared,
            factor_budget=self.factor_budget,
            first=self.first,
        )

    # ----------------------------------------------------------------------------------- answers

    def trained(self, i: int) -> _Trained:
        """Return the inverse factor of C_i and C_i⁻¹ y_i, from the kept ones if possible."""
        with self._lock:
            if i in self._kept:
                self._kept.move_to_end(i)
                return self._kept[i]
        X, y = self.rows(i)
        # Rounding differs with the number of BLAS threads. A factor outlives the batch that asked for it
        # first, so that it must not depend on how many threads that batch had.
        with blas_threads(1) if self.n_experts > 1 else nullcontext():
            who = f"covariance matrix of expert {self.first + i}"
            factor = factorise(self.covariance.noisy_gram(X), who=who)
            alpha = factor.solve(np.array(y.T, order="C"))
            return self.keep(i, factor.inverted(), alpha, factor.jitter)

    def keep(self, i: int, inverse: InverseFactor, alpha: np.ndarray, jitter: float) -> _Trained:
        """Keep what expert i was trained to be while it fits the budget, letting the least used go."""
        trained = _Trained(inverse, alpha, alpha**2 / inverse.precision())
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

    def answer(
        self, i: int, X: np.ndarray, *, variance: bool = True, weights: bool = False, surprise: bool = False
    ) -> Answer:
        """What expert i says about the queries X (n, d).

        Parameters
        ----------
        variance : bool
            Whether to compute `explained`; without it only the mean is paid for.
        weights : bool
            Whether to return q_i too, which `pair_covariance` needs.
        surprise : bool
            Whether to return how far the expert erred on its own rows near the queries.
        """
        inverse, alpha, errors = self.trained(i)
        k = self.covariance(X, self.rows(i)[0])  # (n, m_i)
        mean = k @ alpha.T
        erred = self._surprise(i, X, k, errors) if surprise else None
        if not variance and not weights:
            return Answer(mean, None, None, erred)
        half = inverse.whiten(k)  # (L⁻¹ k)ᵀ, in place of k
        explained = np.einsum("nm,nm->n", half, half)
        return Answer(mean, explained, inverse.whiten_transposed(half) if weights else None, erred)

    def _surprise(self, i: int, X: np.ndarray, k: np.ndarray, errors: np.ndarray) -> np.ndarray:
        """Σ_r ρ_r⁴ z_r² / Σ_r ρ_r⁴ at every query, (n, p), drawn to the mean of all z² and this to 1.

        ρ_r is row r's correlation with the query; its fourth power keeps to the surroundings.
        """
        whole = (_PSEUDO_ROWS + errors.sum(axis=1)) / (_PSEUDO_ROWS + errors.shape[1])
        prior = self.covariance.prior_variance
        near = k * k
        near /= np.outer(prior(X), prior(self.rows(i)[0]))  # ρ²
        near *= near
        return (_PSEUDO_ROWS * whole + near @ errors.T) / (_PSEUDO_ROWS + near.sum(axis=1, keepdims=True))

    def pair_covariance(self, i: int, j: int, q_i: np.ndarray, q_j: np.ndarray) -> np.ndarray:
        """R_ij = q_iᵀ k(X_i, X_j) q_j for a batch of queries, shape (n,), i ≠ j."""
        return pair_covariance(self.covariance, self.rows(i)[0], self.rows(j)[0], q_i, q_j)


def pair_covariance(
    covariance: Covariance, X_i: np.ndarray, X_j: np.ndarray, q_i: np.ndarray, q_j: np.ndarray
) -> np.ndarray:
    """R_ij of two experts with rows X_i (m_i, d) and X_j (m_j, d), shape (n,)."""
    if covariance.vanishes(X_i, X_j):
        return np.zeros(len(q_i))
    return np.einsum("nm,nm->n", q_i @ covariance(X_i, X_j), q_j)

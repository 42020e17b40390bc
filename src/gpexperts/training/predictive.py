"""Training on what is predicted: the log density of rows given their nearest rows.

The own expert of a query predicts p(y_i | y_N(i), θ), where N(i) are the m rows nearest to row i. Training
for that maximises

    L(θ) = Σ_i log p(y_i | y_N(i), θ)

over rows i drawn at random. Put row i last in its system of m + 1 rows. With M = C / s² (correlations, and
the noise on the diagonal in units of the signal variance), S = M⁻¹, s = S e_l and α = S y, for p outputs,

    log p = −(p/2) log(2π s²/S_ll) − ½ |α_l|² / (S_ll s²),
    ∂ log p / ∂M = the symmetric part of s tᵀ,
    t = −(p/(2 S_ll) + |α_l|²/(2 S_ll² s²)) s + α α_lᵀ / (S_ll s²).

The same system predicts more than its last row: each row l is predicted from all others by the same
formulas (Rasmussen & Williams 2006, section 5.4.2). For the rows next to row i, these hold most of their own
neighbours, so that the last q rows of each system are predicted. With A = Σ_l s_l t_lᵀ, G = A ∘ W and
∂M_ij/∂log ℓ_k = W_ij (z_ik − z_jk)²,

    ∂L / ∂log ℓ_k = Σ_i (G1 + Gᵀ1)_i z_ik² − 2 Σ_i z_ik (GZ)_ik.

The error of the prediction is e = α_l / S_ll, and −½ |e|²/E adds (α − s eᵀ) e / (E S_ll) to t.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from scipy.optimize import minimize

from gpexperts.engines.base import Engine
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.stationary import StationaryCovariance
from gpexperts.row_noise import slope, weights

__all__ = ["Density", "Neighbourhoods", "maximise_density", "predictive_density"]

C = TypeVar("C", bound=Covariance)

_CACHED = 40_000
"""Entries of a stack of matrices that are computed together."""
_PIECE = 64
"""Systems of a piece of work."""
_FLOOR = 1e-12
"""Always added to the diagonal of M, which keeps the density smooth in θ where there is no noise."""
_JITTERS = (1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
"""Added in turn where that is not enough."""


class Neighbourhoods(NamedTuple):
    """Rows to be predicted, each with the rows it is predicted from."""

    X: np.ndarray
    """(B, m + 1, d) inputs; the drawn row is the last, the nearest row is before it, and so on."""
    y: np.ndarray
    """(B, m + 1, p) targets."""
    noise: np.ndarray | None = None
    """(B, m + 1, 2 or 0) weight and given noise of each row; see `row_noise`. None stands for (…, 0)."""
    scale_index: np.ndarray | None = None
    """(d,) the length scale of each input, where inputs were left out (see `compact`); else None."""

    def part(self, some: slice | np.ndarray) -> Neighbourhoods:
        """Return some of the systems."""
        noise = None if self.noise is None else self.noise[some]
        return self._replace(X=self.X[some], y=self.y[some], noise=noise)

    def applied(self, covariance: C) -> C:
        """Return a covariance for these inputs, with the same hyperparameters."""
        if self.scale_index is None:
            return covariance
        return type(covariance)(covariance.kernel, self.scale_index)

    def without_twins(self, predicted: int) -> Neighbourhoods:
        """Return those whose last rows, the predicted ones, have inputs that no other of their rows has.

        A row that is there twice predicts its twin whatever the length scales are: it shows the noise alone.
        Without noise, its density grows without bounds.
        """
        alone = np.ones(len(self.X), dtype=bool)
        for row in range(self.X.shape[1] - predicted, self.X.shape[1]):
            alone &= (self.X[:, row : row + 1] == self.X).all(axis=2).sum(axis=1) == 1
        return self.part(alone)


class Density(NamedTuple):
    """The density of the predicted rows."""

    log_density: float
    """Summed over rows and outputs."""
    squared_error: float
    """Summed over rows, by their weights, and outputs."""
    gradient: np.ndarray
    """Of `log_density` − ½ `squared_error` / E, in the order of `kernel.theta`."""
    n_rows: int
    """Predicted rows."""
    weight: float
    """Sum of their weights."""
    jittered: int
    """Systems that needed jitter."""


def predictive_density(
    covariance: StationaryCovariance,
    rows: Neighbourhoods,
    engine: Engine,
    *,
    predicted: int = 1,
    typical_error: float = np.inf,
    largest: float = np.inf,
) -> Density:
    """Log density of rows given their neighbours, the squared error, and the gradient.

    Parameters
    ----------
    covariance : StationaryCovariance
    rows : Neighbourhoods
    engine : Engine
    predicted : int
        q: the last q rows of each system are predicted, each from all others of its system.
    typical_error : float
        E: the gradient is that of `log_density` − ½ `squared_error` / E.
    largest : float
        Larger errors (root of the sum of squares over outputs) count as this one. The gradient is that
        without such a bound.
    """
    B, covariance = len(rows.X), rows.applied(covariance)
    pieces = [slice(start, start + _PIECE) for start in range(0, B, _PIECE)]
    found = engine.map(
        lambda some: _density(
            covariance, rows.part(some), min(predicted, rows.X.shape[1]), typical_error, largest
        ),
        pieces,
    )
    # In the order of the pieces, so that the sum does not depend on the threads.
    return Density(*(sum(column[1:], start=column[0]) for column in zip(*found, strict=True)))


def maximise_density(
    covariance: StationaryCovariance,
    rows: Neighbourhoods,
    engine: Engine,
    *,
    predicted: int,
    max_steps: int,
    tolerance: float = 1e-5,
) -> StationaryCovariance:
    """Maximise density and accuracy over the free hyperparameters, with fixed neighbourhoods.

    The objective is the mean of log p − ½ e²/E, where e is the error of a prediction and E the mean of e² at
    the start. Where the noise is not the same everywhere, log p alone cares most for the rows with the least
    noise. The variance is corrected later, but not the mean.
    """
    kernel = covariance.kernel
    start = np.clip(kernel.theta, *kernel.bounds.T)
    first = predictive_density(covariance.at(start), rows, engine, predicted=predicted)
    typical = max(first.squared_error / (first.weight * rows.y.shape[2]), np.finfo(float).tiny)
    seen: list[tuple[float, np.ndarray]] = []

    def descend(theta: np.ndarray) -> tuple[float, np.ndarray]:
        here = predictive_density(
            covariance.at(theta), rows, engine, predicted=predicted, typical_error=typical
        )
        value = (here.log_density - 0.5 * here.squared_error / typical) / here.n_rows
        seen.append((value, theta.copy()))
        return -value, -here.gradient / here.n_rows

    options = {"maxiter": max_steps, "ftol": tolerance, "gtol": tolerance, "maxls": 8, "maxcor": 20}
    minimize(descend, start, jac=True, method="L-BFGS-B", bounds=kernel.bounds, options=options)
    _, theta = max(seen, key=lambda point: point[0])
    return covariance.at(theta)


def _density(
    covariance: StationaryCovariance, rows: Neighbourhoods, q: int, E: float, largest: float
) -> Density:
    X, y = rows.X, rows.y
    B, m, d = X.shape
    p, s2 = y.shape[2], covariance.signal_variance
    noises = np.broadcast_to(covariance.row_noise(rows.noise) / s2, (B, m))
    slopes = np.broadcast_to(slope(rows.noise), (B, m))
    log_density = squared_error = weight = by_signal = by_noise = 0.0
    by_scale, jittered = np.zeros(d), 0
    step = max(1, min(B, _CACHED // (m * m)))
    for start in range(0, B, step):
        some = slice(start, start + step)
        f, W, Z = covariance.correlations_with_slopes(X[some])
        noise = noises[some]
        S, alpha, failed = _solved(f.copy() if f is W else f, y[some], noise, q)
        jittered += failed
        alpha_l, S_ll = alpha[:, m - q :], np.einsum("bll->bl", S[:, m - q :])
        squares = np.einsum("blo,blo->bl", alpha_l, alpha_l)
        squares = np.minimum(squares, (largest * S_ll) ** 2)
        misfit = squares / (S_ll * s2)
        log_density -= 0.5 * float((p * np.log(2.0 * np.pi * s2 / S_ll) + misfit).sum())
        w = np.ones((len(noise), q)) if rows.noise is None else weights(rows.noise[some, m - q :])
        squared_error += float((w * squares / S_ll**2).sum())
        weight += float(w.sum())
        T = alpha @ (alpha_l * ((1.0 / s2 + w / (E * S_ll)) / S_ll)[:, :, None]).transpose(0, 2, 1)
        T -= ((0.5 * (p + misfit) + w * squares / (E * S_ll**2)) / S_ll)[:, None, :] * S
        on_diagonal = np.einsum("bil,bil->bi", S, T)
        by_signal += 0.5 * float(misfit.sum()) - 0.5 * p * misfit.size - float(np.vdot(noise, on_diagonal))
        by_noise += float(np.vdot(slopes[some], on_diagonal)) / s2
        G = np.matmul(S, T.transpose(0, 2, 1))
        G *= W
        crossed = G @ Z
        crossed *= -2.0
        crossed += (G.sum(axis=1) + G.sum(axis=2))[:, :, None] * Z
        by_scale += np.einsum("bik,bik->k", crossed, Z)
    gradient = covariance.in_order_of_theta(by_signal, by_scale, by_noise)
    return Density(log_density, squared_error, gradient, B * q, weight, jittered)


def _solved(f: np.ndarray, y: np.ndarray, noise: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray, int]:
    """The last q columns of M⁻¹ (B, m, q), and α = M⁻¹ y (B, m, p), M = f + noise (B, m); overwrites f."""
    B, m, p = y.shape
    sides = np.zeros((B, m, q + p))
    sides[:, np.arange(m - q, m), np.arange(q)] = 1.0
    sides[:, :, q:] = y
    np.einsum("bii->bi", f)[...] = 1.0 + noise + _FLOOR
    # LU factorisation: twice the work of Cholesky's, but as fast for small matrices, and one call for all.
    try:
        solution = np.linalg.solve(f, sides)
        failed = np.flatnonzero(~_plausible(solution, noise, q))
    except np.linalg.LinAlgError:
        solution, failed = np.empty_like(sides), np.arange(B)
    for b in failed:
        solution[b] = sides[b] / (1.0 + noise[b, :, None])  # if no jitter helps: as if rows were independent
        for jitter in _JITTERS:
            matrix = f[b] + jitter * np.eye(m)
            try:
                np.linalg.cholesky(matrix)
            except np.linalg.LinAlgError:
                continue
            mended = np.linalg.solve(matrix, sides[b])
            if _plausible(mended[None], noise[b : b + 1], q)[0]:
                solution[b] = mended
                break
    return solution[:, :, :q], solution[:, :, q:], len(failed)


def _plausible(solution: np.ndarray, noise: np.ndarray, q: int) -> np.ndarray:
    """Whether every 1/S_ll lies between the noise and prior variance + noise, and above rounding, (B,)."""
    m = solution.shape[1]
    S_ll, noise = np.einsum("bll->bl", solution[:, m - q :, :q]), noise[:, m - q :]
    least = np.maximum(0.99 * noise, m * np.finfo(float).eps)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        v = 1.0 / S_ll
        sound = np.isfinite(solution).all(axis=(1, 2))
        return np.asarray(sound & ((v >= least) & (v <= (1.0 + noise) * (1.0 + 1e-6))).all(axis=1))

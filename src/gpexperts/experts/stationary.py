"""Stationary kernels by matrix products: (constant ×) RBF, Matérn 1/2, 3/2, 5/2, RationalQuadratic.

One length scale per input; distances, values and derivatives never need an m × m × d array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Kernel,
    Matern,
    Product,
    RationalQuadratic,
)

from gpexperts.experts.covariance import Covariance, SignalGradient
from gpexperts.standardize import scaled_offsets

__all__ = ["StationaryCovariance", "is_stationary"]

_CACHED = 65_536
"""Entries of a matrix that are worked on together."""


_SMALL = 1e-6
"""Squared distances below this share of the squared norms have lost six digits or more to cancellation."""


_NEGLIGIBLE = 1e-75
"""A correlation that may as well be 0. Of much smaller ones, products such as q_iᵀ k q_j leave the normal
range of floating point, where processors multiply matrices at a quarter of their speed."""


class _Profile(NamedTuple):
    """A stationary correlation f as a function of the squared scaled distance ρ².

    The derivative with respect to the log of length scale l_k is W ∘ (z_k − z'_k)², where
    W = −f'(ρ)/ρ and z = x / l.
    """

    correlation: Callable[[np.ndarray, float], np.ndarray]
    """(ρ², α) ↦ f; may overwrite ρ²."""
    with_slope: Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]]
    """(ρ², α) ↦ (f, W); leaves ρ² alone."""
    reach: float
    """f is below 1e-20 for every ρ larger than this; infinite if f has a heavy tail."""
    has_cusp: bool = False
    """Whether f falls like ρ itself near 0, and not like ρ²: half of the digits lost in a small ρ² are then
    lost in f."""


def _rbf(sq: np.ndarray, _: float) -> np.ndarray:
    sq *= -0.5
    np.exp(sq, out=sq)
    sq[sq < _NEGLIGIBLE] = 0.0
    return sq


def _rbf_with_slope(sq: np.ndarray, _: float) -> tuple[np.ndarray, np.ndarray]:
    f = _rbf(sq.copy(), _)
    return f, f


def _matern12(sq: np.ndarray, _: float) -> np.ndarray:
    rho = np.sqrt(sq, out=sq)
    np.negative(rho, out=rho)
    return np.exp(rho, out=rho)


def _matern12_with_slope(sq: np.ndarray, _: float) -> tuple[np.ndarray, np.ndarray]:
    rho = np.sqrt(sq)
    f = _exp_minus(rho)
    # W = exp(−ρ)/ρ has a pole at ρ = 0, where it multiplies (z − z')² = 0: the product tends to 0.
    rho[rho == 0] = np.inf
    return f, f / rho


def _matern32(sq: np.ndarray, _: float) -> np.ndarray:
    a = _sqrt_scaled(sq, 3.0)
    f = _exp_minus(a)
    a += 1.0
    a *= f
    return a


def _matern32_with_slope(sq: np.ndarray, _: float) -> tuple[np.ndarray, np.ndarray]:
    a = _sqrt_scaled(sq.copy(), 3.0)
    w = _exp_minus(a)
    a += 1.0
    a *= w
    w *= 3.0
    return a, w


def _matern52(sq: np.ndarray, _: float) -> np.ndarray:
    f = sq * (5.0 / 3.0)
    a = _sqrt_scaled(sq, 5.0)
    f += a
    f += 1.0
    np.negative(a, out=a)
    f *= np.exp(a, out=a)
    return f


def _matern52_with_slope(sq: np.ndarray, _: float) -> tuple[np.ndarray, np.ndarray]:
    a = _sqrt_scaled(sq.copy(), 5.0)
    w = _exp_minus(a)
    f = sq * (5.0 / 3.0)
    a += 1.0
    f += a
    f *= w
    w *= a
    w *= 5.0 / 3.0
    return f, w


def _rational_quadratic(sq: np.ndarray, alpha: float) -> np.ndarray:
    sq /= 2.0 * alpha
    sq += 1.0
    return np.power(sq, -alpha, out=sq)


def _rational_quadratic_with_slope(sq: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    f = _rational_quadratic(sq.copy(), alpha)
    return f, f / (1.0 + sq / (2.0 * alpha))


def _exp_minus(a: np.ndarray) -> np.ndarray:
    """exp(−a), in one new array."""
    e = np.negative(a)
    return np.exp(e, out=e)


def _sqrt_scaled(sq: np.ndarray, factor: float) -> np.ndarray:
    """√(factor · ρ²), in place."""
    sq *= factor
    return np.sqrt(sq, out=sq)


_PROFILES: dict[str, _Profile] = {
    "rbf": _Profile(_rbf, _rbf_with_slope, 9.6),
    "matern12": _Profile(_matern12, _matern12_with_slope, 46.1, has_cusp=True),
    "matern32": _Profile(_matern32, _matern32_with_slope, 29.0),
    "matern52": _Profile(_matern52, _matern52_with_slope, 24.0),
    "rational_quadratic": _Profile(_rational_quadratic, _rational_quadratic_with_slope, np.inf),
}


class StationaryCovariance(Covariance):
    """s² f(|x − x'| in units of the length scales), all of it by matrix products."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        (term,) = self._signal_terms
        self._factors = [term.k1, term.k2] if isinstance(term, Product) else [term]
        constants = [f for f in self._factors if isinstance(f, ConstantKernel)]
        (self._shape,) = [f for f in self._factors if not isinstance(f, ConstantKernel)]
        self.signal_variance = float(np.prod([c.constant_value for c in constants]))
        self._profile = _PROFILES[_profile_name(self._shape)]
        self._alpha = float(getattr(self._shape, "alpha", 1.0))

    def vanishes(self, X: np.ndarray, Z: np.ndarray) -> bool:
        """Whether the balls around X (n, d) and Z (m, d) are so far apart that f < 1e-20 between them."""
        if not np.isfinite(self._profile.reach):
            return False
        X, Z = X / self._shape.length_scale, Z / self._shape.length_scale
        x, z = X.mean(axis=0), Z.mean(axis=0)
        radii = np.sqrt(((X - x) ** 2).sum(axis=1).max()) + np.sqrt(((Z - z) ** 2).sum(axis=1).max())
        return bool(np.sqrt(((x - z) ** 2).sum()) - radii > self._profile.reach)

    def length_scale(self, n_features: int) -> np.ndarray:
        return np.broadcast_to(np.asarray(self._shape.length_scale, dtype=float), (n_features,)).copy()

    def prior_variance(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.signal_variance)

    def __call__(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        scale = self._shape.length_scale
        # Centred before it is divided: what is subtracted has its digits still, and cannot overflow alone.
        centre = Z.mean(axis=0) if len(Z) else 0.0
        X, Z = scaled_offsets(X, centre, scale), scaled_offsets(Z, centre, scale)
        K = np.empty((len(X), len(Z)))
        # A few rows at a time, so that what is in work stays in the cache: for 500 rows half the time.
        step = max(1, _CACHED // max(1, len(Z)))
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            sq = _squared_distances(X[rows], Z)
            if self._profile.has_cusp:
                _refine(sq, X[rows], Z)
            K[rows] = self._profile.correlation(sq, self._alpha)
        return self._scaled(K)

    def gram(self, X: np.ndarray) -> np.ndarray:
        K = self(X, X)
        np.fill_diagonal(K, self.signal_variance)
        return K

    def _scaled(self, f: np.ndarray) -> np.ndarray:
        if self.signal_variance != 1.0:
            f *= self.signal_variance
        return f

    def _gram_with_gradient(self, X: np.ndarray) -> tuple[np.ndarray, SignalGradient]:
        s2, alpha = self.signal_variance, self._alpha
        Z = scaled_offsets(X, X.mean(axis=0), self._shape.length_scale)
        sq = _squared_distances(Z, Z)
        np.fill_diagonal(sq, 0.0)
        near = _refine(sq, Z, Z) if self._profile.has_cusp else None
        f, W = self._profile.with_slope(sq, alpha)

        def signal_gradient(S: np.ndarray, t: float) -> Iterator[np.ndarray]:
            pieces = [np.empty(0)]
            for factor in self._factors:
                if factor.n_dims == 0:  # every hyperparameter of this factor is fixed
                    continue
                if isinstance(factor, ConstantKernel):
                    pieces.append(np.array([0.5 * s2 * (_inner(S, f) + t)]))
                    continue
                if isinstance(factor, RationalQuadratic) and not factor.hyperparameter_alpha.fixed:
                    base = 1.0 + sq / (2.0 * alpha)
                    slope = alpha * f * (sq / (2.0 * alpha * base) - np.log(base))
                    pieces.append(np.array([0.5 * s2 * _inner(S, slope)]))
                if not factor.hyperparameter_length_scale.fixed:
                    # G = S ∘ W:  ½ Σ_ij G_ij (z_ik − z_jk)² = Σ_i (G1)_i z_ik² − Σ_i z_ik (GZ)_ik.
                    G = S * W
                    direct = 0.0 if near is None else _half_sum_over(near, G, Z)
                    per_input = G.sum(axis=0) @ Z**2 - np.einsum("ik,ik->k", Z, G @ Z) + direct
                    isotropic = np.size(factor.length_scale) == 1
                    pieces.append(s2 * (per_input.sum(keepdims=True) if isotropic else per_input))
            yield np.concatenate(pieces)

        return s2 * f, signal_gradient


def _squared_distances(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """|x − z|² for all pairs, (len(X), len(Z)), as one matrix product; never negative."""
    # (−2x, |x|², 1) · (z, 1, |z|²): two passes over the result fewer than adding the norms afterwards.
    d = X.shape[1]
    left, right = np.ones((len(X), d + 2)), np.ones((len(Z), d + 2))
    np.multiply(X, -2.0, out=left[:, :d])
    left[:, d] = np.einsum("ij,ij->i", X, X)
    right[:, :d] = Z
    right[:, d + 1] = np.einsum("ij,ij->i", Z, Z)
    sq = left @ right.T
    return np.maximum(sq, 0.0, out=sq)


def _refine(sq: np.ndarray, X: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the small ones of the squared distances `sq` again, from differences, which lose no digits.

    Returns
    -------
    rows, columns : ndarray of int
        Where they are.
    """
    # The largest |z|² stands for all of them: a few more are computed again, but no matrix of sizes is.
    size = np.einsum("ij,ij->i", X, X) + np.einsum("ij,ij->i", Z, Z).max(initial=0.0)
    rows, columns = np.divmod(np.flatnonzero(sq <= _SMALL * size[:, None]), max(1, len(Z)))
    for some in _portions(len(rows), X.shape[1]):
        sq[rows[some], columns[some]] = ((X[rows[some]] - Z[columns[some]]) ** 2).sum(axis=1)
    return rows, columns


def _half_sum_over(pairs: tuple[np.ndarray, np.ndarray], G: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """½ Σ G_ij (z_ik − z_jk)² over some pairs, (d,), from differences; sets these entries of G to 0."""
    rows, columns = pairs
    total = np.zeros(Z.shape[1])
    for some in _portions(len(rows), Z.shape[1]):
        i, j = rows[some], columns[some]
        total += 0.5 * G[i, j] @ (Z[i] - Z[j]) ** 2
    G[rows, columns] = 0.0
    return total


def _portions(n_pairs: int, d: int) -> Iterator[slice]:
    """Cut a list of pairs so that their differences in d inputs stay in the cache."""
    step = max(1, _CACHED // d)
    return (slice(start, start + step) for start in range(0, n_pairs, step))


def _inner(A: np.ndarray, B: np.ndarray) -> float:
    return float(np.vdot(A, B))


def is_stationary(term: Kernel) -> bool:
    """Whether :class:`StationaryCovariance` can evaluate this term of a sum."""
    factors = [term.k1, term.k2] if type(term) is Product else [term]
    shapes = [f for f in factors if type(f) is not ConstantKernel]
    return len(shapes) == 1 and _profile_name(shapes[0]) is not None


def _profile_name(shape: Kernel) -> Any:
    # type(), not isinstance: a user's subclass may override what we would compute ourselves.
    if type(shape) is RBF:
        return "rbf"
    if type(shape) is RationalQuadratic:
        return "rational_quadratic"
    if type(shape) is Matern:
        return {0.5: "matern12", 1.5: "matern32", 2.5: "matern52", np.inf: "rbf"}.get(shape.nu)
    return None

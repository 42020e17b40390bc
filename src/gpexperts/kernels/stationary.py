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

from gpexperts.kernels.base import Covariance, SignalGradient
from gpexperts.scaling import scaled_offsets

__all__ = ["StationaryCovariance", "is_stationary"]

_CACHED = 65_536
"""Entries of a matrix that are worked on together."""
_BAND, _WHOLE = 128, 512
"""Rows of a symmetric matrix that are worked on together, and of one that is worked on whole: between many
small pieces of work, threads wait for each other longer than the pieces take."""


_SMALL = 1e-6
"""Squared distances below this share of the squared norms have lost six digits or more to cancellation."""


_FAR = 172.0
"""exp(−172) = 2e-75 is a correlation that may as well be 0, and nobody counts as being further away. Of much
smaller ones, products such as q_iᵀ k q_j leave the normal range of floating point, where processors multiply
and factorise matrices at a fraction of their speed."""


_Pairs = tuple[np.ndarray, np.ndarray]
"""Rows and columns of some entries of a matrix."""


class _Profile(NamedTuple):
    """A stationary correlation f as a function of the squared scaled distance ρ².

    The derivative with respect to the log of length scale l_k is W ∘ (z_k − z'_k)², where
    W = −f'(ρ)/ρ and z = x / l.
    """

    correlation: Callable[[np.ndarray, float], np.ndarray]
    """(ρ², α) ↦ f; may overwrite ρ²."""
    with_slope: Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]]
    """(ρ², α) ↦ (f, W); may overwrite ρ²."""
    far: float
    """The ρ² that larger ones are taken for; infinite if f has a heavy tail."""
    reach: float
    """f is below 1e-20 for every ρ larger than this; infinite if f has a heavy tail."""
    has_cusp: bool = False
    """Whether f falls like ρ itself near 0, and not like ρ²: half of the digits lost in a small ρ² are then
    lost in f."""


def _rbf(sq: np.ndarray, _: float) -> np.ndarray:
    sq *= -0.5
    return np.exp(sq, out=sq)


def _rbf_with_slope(sq: np.ndarray, _: float) -> tuple[np.ndarray, np.ndarray]:
    f = _rbf(sq, _)
    return f, f


def _matern12(sq: np.ndarray, _: float) -> np.ndarray:
    rho = np.sqrt(sq, out=sq)
    np.negative(rho, out=rho)
    return np.exp(rho, out=rho)


def _matern12_with_slope(sq: np.ndarray, _: float) -> tuple[np.ndarray, np.ndarray]:
    rho = np.sqrt(sq, out=sq)
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
    a = _sqrt_scaled(sq, 3.0)
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
    f = sq * (5.0 / 3.0)
    a = _sqrt_scaled(sq, 5.0)
    w = _exp_minus(a)
    a += 1.0
    f += a
    f *= w
    w *= a
    w *= 5.0 / 3.0
    return f, w


def _rational_quadratic(sq: np.ndarray, alpha: float) -> np.ndarray:
    base = _rational_base(sq, alpha)
    return np.power(base, -alpha, out=base)


def _rational_quadratic_with_slope(sq: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    base = _rational_base(sq, alpha)
    f = np.power(base, -alpha)
    return f, np.divide(f, base, out=base)


def _rational_base(sq: np.ndarray, alpha: float) -> np.ndarray:
    """1 + ρ² / 2α, in place."""
    sq /= 2.0 * alpha
    sq += 1.0
    return sq


def _exp_minus(a: np.ndarray) -> np.ndarray:
    """exp(−a), in one new array."""
    e = np.negative(a)
    return np.exp(e, out=e)


def _sqrt_scaled(sq: np.ndarray, factor: float) -> np.ndarray:
    """√(factor · ρ²), in place."""
    sq *= factor
    return np.sqrt(sq, out=sq)


_PROFILES: dict[str, _Profile] = {
    "rbf": _Profile(_rbf, _rbf_with_slope, 2.0 * _FAR, 9.6),
    "matern12": _Profile(_matern12, _matern12_with_slope, _FAR**2, 46.1, has_cusp=True),
    "matern32": _Profile(_matern32, _matern32_with_slope, _FAR**2 / 3.0, 29.0),
    "matern52": _Profile(_matern52, _matern52_with_slope, _FAR**2 / 5.0, 24.0),
    "rational_quadratic": _Profile(_rational_quadratic, _rational_quadratic_with_slope, np.inf, np.inf),
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
            sq = _squared_distances(X[rows], Z, self._profile.far)
            if self._profile.has_cusp:
                _refine(sq, X[rows], Z)
            K[rows] = self._profile.correlation(sq, self._alpha)
        return self._scaled(K)

    def gram(self, X: np.ndarray) -> np.ndarray:
        if len(X) <= _WHOLE:
            K = self(X, X)
            np.fill_diagonal(K, self.signal_variance)
            return K
        Z = self._offsets(X)
        K = np.empty((len(Z), len(Z)))
        for rows in _bands(len(Z)):
            sq, _ = self._squared_band(Z, rows)
            _put_band(K, rows, self._scaled(self._profile.correlation(sq, self._alpha)))
        return K

    def _scaled(self, f: np.ndarray) -> np.ndarray:
        if self.signal_variance != 1.0:
            f *= self.signal_variance
        return f

    def _gram_with_gradient(self, X: np.ndarray) -> tuple[np.ndarray, SignalGradient]:
        s2, alpha = self.signal_variance, self._alpha
        Z = self._offsets(X)
        bands = []
        for rows in _bands(len(Z)):
            sq, near = self._squared_band(Z, rows)
            bands.append(_Band(rows, *self._profile.with_slope(sq, alpha), near))
        if len(bands) == 1:
            K = s2 * bands[0].f
        else:
            K = np.empty((len(Z), len(Z)))
            for band in bands:
                _put_band(K, band.rows, s2 * band.f)

        def signal_gradient(S: np.ndarray, t: float) -> Iterator[np.ndarray]:
            pieces = [np.empty(0)]
            for factor in self._factors:
                if factor.n_dims == 0:  # every hyperparameter of this factor is fixed
                    continue
                if isinstance(factor, ConstantKernel):
                    total = sum(band.half_sum(S, band.f) for band in bands)
                    pieces.append(np.array([s2 * total + 0.5 * s2 * t]))
                    continue
                if isinstance(factor, RationalQuadratic) and not factor.hyperparameter_alpha.fixed:
                    total = sum(band.half_sum(S, _slope_in_alpha(band.f, alpha)) for band in bands)
                    pieces.append(np.array([s2 * total]))
                if not factor.hyperparameter_length_scale.fixed:
                    per_input = np.sum([band.half_sum_of_squares(S, Z) for band in bands], axis=0)
                    isotropic = np.size(factor.length_scale) == 1
                    pieces.append(s2 * (per_input.sum(keepdims=True) if isotropic else per_input))
            yield np.concatenate(pieces)

        return K, signal_gradient

    def _offsets(self, X: np.ndarray) -> np.ndarray:
        """X (m, d) around its mean, in length scales."""
        return scaled_offsets(X, X.mean(axis=0), self._shape.length_scale)

    def _squared_band(self, Z: np.ndarray, rows: slice) -> tuple[np.ndarray, _Pairs | None]:
        """ρ² between some rows of Z and those up to the last of them, and where it took differences."""
        sq = _squared_distances(Z[rows], Z[: rows.stop], self._profile.far)
        np.fill_diagonal(sq[:, rows], 0.0)
        return sq, _refine(sq, Z[rows], Z[: rows.stop]) if self._profile.has_cusp else None


class _Band(NamedTuple):
    """Some rows of a symmetric matrix of correlations, up to and with the square on its diagonal.

    The bands of a matrix hold it once, where the whole holds it twice, and each fits into the cache.
    """

    rows: slice
    f: np.ndarray
    """Correlations, (len(rows), rows.stop)."""
    W: np.ndarray
    """Their slopes, of the same shape."""
    near: _Pairs | None
    """Rows and columns of this band whose distances were computed from differences."""

    def half_sum(self, S: np.ndarray, slopes: np.ndarray) -> float:
        """½ Σ_ij S_ij slopes_ij over this band's share of all pairs."""
        before = slice(self.rows.start)
        beside = np.vdot(S[self.rows, before], slopes[:, before])
        square = np.vdot(S[self.rows, self.rows], slopes[:, self.rows])
        return float(beside + 0.5 * square)  # the square holds each pair twice

    def half_sum_of_squares(self, S: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """½ Σ_ij S_ij W_ij (z_ik − z_jk)² for every input k, (d,), over this band's share of all pairs."""
        G = S[self.rows, : self.rows.stop] * self.W
        left, right, square = Z[self.rows], Z[: self.rows.start], G[:, self.rows]
        total = np.zeros(Z.shape[1])
        if self.near is not None:
            for i, j in _portions(*self.near, Z.shape[1]):
                once = np.where(j < self.rows.start, 1.0, 0.5)  # the square holds each pair twice
                total += (once * G[i, j]) @ (left[i] - Z[j]) ** 2
                G[i, j] = 0.0
        # Σ_ij G_ij (z_i − z'_j)² = Σ_i (G1)_i z_i² + Σ_j (Gᵀ1)_j z'_j² − 2 Σ_i z_i (GZ')_i; in the square, of
        # which ½ counts, the first two are equal.
        total += square.sum(axis=0) @ left**2 - np.einsum("ik,ik->k", left, square @ left)
        if len(right):
            beside = G[:, : len(right)]
            total += beside.sum(axis=1) @ left**2 + beside.sum(axis=0) @ right**2
            total -= 2.0 * np.einsum("ik,ik->k", left, beside @ right)
        return total


def _squared_distances(X: np.ndarray, Z: np.ndarray, far: float) -> np.ndarray:
    """|x − z|² for all pairs, (len(X), len(Z)), as one matrix product; never negative, and at most `far`."""
    # (−2x, |x|², 1) · (z, 1, |z|²): two passes over the result fewer than adding the norms afterwards.
    d = X.shape[1]
    left, right = np.ones((len(X), d + 2)), np.ones((len(Z), d + 2))
    np.multiply(X, -2.0, out=left[:, :d])
    left[:, d] = np.einsum("ij,ij->i", X, X)
    right[:, :d] = Z
    right[:, d + 1] = np.einsum("ij,ij->i", Z, Z)
    sq = left @ right.T
    return np.clip(sq, 0.0, far, out=sq)


def _refine(sq: np.ndarray, X: np.ndarray, Z: np.ndarray) -> _Pairs:
    """Compute the small ones of the squared distances `sq` again, from differences, which lose no digits.

    Returns
    -------
    rows, columns : ndarray of int
        Where they are.
    """
    # The largest |z|² stands for all of them: a few more are computed again, but no matrix of sizes is.
    size = np.einsum("ij,ij->i", X, X) + np.einsum("ij,ij->i", Z, Z).max(initial=0.0)
    rows, columns = np.divmod(np.flatnonzero(sq <= _SMALL * size[:, None]), max(1, len(Z)))
    for i, j in _portions(rows, columns, X.shape[1]):
        sq[i, j] = ((X[i] - Z[j]) ** 2).sum(axis=1)
    return rows, columns


def _portions(rows: np.ndarray, columns: np.ndarray, d: int) -> Iterator[_Pairs]:
    """Cut a list of pairs so that their differences in d inputs stay in the cache."""
    step = max(1, _CACHED // d)
    return (
        (rows[start : start + step], columns[start : start + step]) for start in range(0, len(rows), step)
    )


def _bands(m: int) -> Iterator[slice]:
    """Cut m rows into bands."""
    step = _BAND if m > _WHOLE else max(1, m)
    return (slice(start, min(start + step, m)) for start in range(0, m, step))


def _put_band(K: np.ndarray, rows: slice, values: np.ndarray) -> None:
    """Put a band where it belongs in a symmetric matrix, twice but for the square on its diagonal."""
    K[rows, : rows.stop] = values
    K[: rows.start, rows] = values[:, : rows.start].T


def _slope_in_alpha(f: np.ndarray, alpha: float) -> np.ndarray:
    """∂f / ∂ log α of f = b^(−α), b = 1 + ρ² / 2α: α f (1 − 1/b − log b), and log b = −log(f) / α."""
    log_b = np.log(f, out=np.zeros_like(f), where=f > 0) / -alpha  # f log f tends to 0 with f
    return alpha * f * (-np.expm1(-log_b) - log_b)


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

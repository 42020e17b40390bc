"""Stationary kernels by matrix products: (constant ×) one of the correlation functions of `profiles`.

There may be one length scale per input. Distances, values and derivatives need no m × m × d array.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    Kernel,
    Product,
    RationalQuadratic,
    WhiteKernel,
)

from gpexperts.kernels.base import Covariance, SignalGradient
from gpexperts.kernels.distances import (
    CACHED,
    MANY_INPUTS,
    SMALL,
    Pairs,
    factors,
    portions,
    products,
    refine,
    squared_distances,
    varying,
)
from gpexperts.kernels.profiles import profile_of, slope_in_alpha
from gpexperts.scaling import scaled_offsets

__all__ = ["StationaryCovariance", "is_stationary"]

_BAND, _WHOLE = 128, 512
"""Rows per band of a symmetric matrix, and the largest matrix that is not cut into bands: with many small
bands, threads wait for each other longer than the bands take."""
_STRIPE = 96
"""Rows of small matrices whose upper triangles are computed together."""


class StationaryCovariance(Covariance):
    """s² f(|x − x'| in units of the length scales), all of it by matrix products.

    Inputs may share a length scale ℓ_g, as those of a category do. Then the derivative with respect to
    log ℓ_g is the sum of those with respect to the logs of the separate length scales.
    """

    def __init__(self, kernel: Kernel, scale_index: np.ndarray | None = None) -> None:
        super().__init__(kernel, scale_index)
        (term,) = self._signal_terms
        self._factors = [term.k1, term.k2] if isinstance(term, Product) else [term]
        constants = [f for f in self._factors if isinstance(f, ConstantKernel)]
        (self._shape,) = [f for f in self._factors if not isinstance(f, ConstantKernel)]
        self.signal_variance = float(np.prod([c.constant_value for c in constants]))
        profile = profile_of(self._shape)
        assert profile is not None, "is_stationary was not checked"
        self._profile = profile
        self._alpha = float(getattr(self._shape, "alpha", 1.0))
        scale = self._shape.length_scale
        if scale_index is not None and np.size(scale) not in (1, int(scale_index.max()) + 1):
            raise ValueError(f"The kernel {kernel} does not have {int(scale_index.max()) + 1} length scales.")
        self._lengths = (
            scale if scale_index is None or np.size(scale) == 1 else np.asarray(scale)[scale_index]
        )

    @property
    def shape(self) -> Kernel:
        """The correlation function, a scikit-learn kernel."""
        return self._shape

    def slope(self, sq: np.ndarray) -> np.ndarray:
        """s² W = −s² f'(ρ)/ρ at squared scaled distances ρ²; ∂k/∂z = −s² W (z − z'), z = x / length scale."""
        _, W = self._profile.with_slope(np.array(sq, dtype=float), self._alpha)
        return self.signal_variance * W

    def vanishes(self, X: np.ndarray, Z: np.ndarray) -> bool:
        """Whether the balls around X (n, d) and Z (m, d) are so far apart that f < 1e-20 for all pairs."""
        if not np.isfinite(self._profile.reach):
            return False
        X, Z = X / self._lengths, Z / self._lengths
        x, z = X.mean(axis=0), Z.mean(axis=0)
        radii = np.sqrt(((X - x) ** 2).sum(axis=1).max()) + np.sqrt(((Z - z) ** 2).sum(axis=1).max())
        return bool(np.sqrt(((x - z) ** 2).sum()) - radii > self._profile.reach)

    def metric(self, spread: np.ndarray) -> np.ndarray:
        return np.broadcast_to(np.asarray(self._lengths, dtype=float), spread.shape).copy()

    def prior_variance(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.signal_variance)

    def __call__(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        scale = self._lengths
        # Centred before the division: no digits are lost to a large offset, and nothing overflows.
        centre = Z.mean(axis=0) if len(Z) else 0.0
        X, Z = scaled_offsets(X, centre, scale), scaled_offsets(Z, centre, scale)
        K = np.empty((len(X), len(Z)))
        # A few rows at a time stay in the cache: half the time for 500 rows.
        step = max(1, CACHED // max(1, len(Z)))
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            sq = squared_distances(X[rows], Z, self._profile.far)
            if self._profile.has_cusp:
                refine(sq, X[rows], Z)
            K[rows] = self._profile.correlation(sq, self._alpha)
        return self._scaled(K)

    @property
    def scale(self) -> float:
        return self.signal_variance

    def fill_grams(self, A: np.ndarray, points: np.ndarray) -> None:
        n = points.shape[1]
        # Relative to the first point: near points keep the digits of their differences if the last is far.
        Z = varying((points - points[:, :1]) / self._lengths)
        left, right, norms = factors(Z)
        small = SMALL * 2.0 * norms.max(axis=1)[:, None, None]
        for start in range(0, n, _STRIPE):
            stop = min(start + _STRIPE, n)
            sq = products(left[:, start:stop], right[:, start:], self._profile.far)
            np.einsum("bii->bi", sq[:, :, : stop - start])[...] = 0.0
            if self._profile.has_cusp:
                b, i, j = np.nonzero((sq <= small) & (sq > 0.0))
                sq[b, i, j] = ((Z[b, start + i] - Z[b, start + j]) ** 2).sum(axis=1)
            A[:, start:stop, start:n] = self._profile.correlation(sq, self._alpha)

    def correlations_with_slopes(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return f and W (B, n, n) of small sets of points (B, n, d), and the scaled points z.

        The derivative of f with respect to log ℓ_k is W ∘ (z_k − z'_k)². The last point is the centre.
        """
        Z = (points - points[:, -1:]) / self._lengths
        sq = squared_distances(Z, Z, self._profile.far)
        if self._profile.has_cusp:
            b, i, j = np.nonzero(sq <= SMALL * np.einsum("bnd,bnd->bn", Z, Z).max(axis=1)[:, None, None])
            sq[b, i, j] = ((Z[b, i] - Z[b, j]) ** 2).sum(axis=1)
        np.einsum("bii->bi", sq)[...] = 0.0
        f, W = self._profile.with_slope(sq, self._alpha)
        return f, W, Z

    def in_order_of_theta(self, by_signal: float, by_scale: np.ndarray, by_noise: float) -> np.ndarray:
        """Put derivatives in the order of `kernel.theta`, without those of fixed hyperparameters.

        Parameters
        ----------
        by_signal : float
            With respect to log s².
        by_scale : ndarray of shape (d,)
            With respect to the log of the length scale of each input, as if each had its own.
        by_noise : float
            With respect to the noise variance.
        """
        pieces = [np.empty(0)]
        for term in self._terms:
            for part in [term] if isinstance(term, WhiteKernel) else self._factors:
                if part.n_dims == 0:
                    continue
                if isinstance(part, WhiteKernel):
                    pieces.append(np.array([part.noise_level * by_noise]))
                elif isinstance(part, ConstantKernel):
                    pieces.append(np.array([by_signal]))
                else:
                    pieces.append(self._shared(by_scale))
        return np.concatenate(pieces)

    def _shared(self, by_input: np.ndarray) -> np.ndarray:
        """Sum derivatives (d,) over the inputs that share a length scale."""
        if np.size(self._shape.length_scale) == 1:
            return by_input.sum(keepdims=True)
        return by_input if self.scale_index is None else np.bincount(self.scale_index, weights=by_input)

    @property
    def has_shape_parameter(self) -> bool:
        """Whether the kernel has a trainable parameter besides variances and length scales."""
        return isinstance(self._shape, RationalQuadratic) and not self._shape.hyperparameter_alpha.fixed

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

    def gram_with_gradient(self, X: np.ndarray) -> tuple[np.ndarray, SignalGradient]:
        s2, alpha = self.signal_variance, self._alpha
        Z, d = self._offsets(X), X.shape[1]
        varies = (Z[:1] != Z).any(axis=0) if d > MANY_INPUTS else np.ones(d, dtype=bool)
        Z, bands = Z if varies.all() else Z[:, varies], []
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
                    total = sum(band.half_sum(S, slope_in_alpha(band.f, alpha)) for band in bands)
                    pieces.append(np.array([s2 * total]))
                if not factor.hyperparameter_length_scale.fixed:
                    by_input = np.zeros(d)
                    by_input[varies] = sum(band.half_sum_of_squares(S, Z) for band in bands)
                    pieces.append(s2 * self._shared(by_input))
            yield np.concatenate(pieces)

        return K, signal_gradient

    def _offsets(self, X: np.ndarray) -> np.ndarray:
        """X (m, d) around its mean, in length scales."""
        return scaled_offsets(X, X.mean(axis=0), self._lengths)

    def _squared_band(self, Z: np.ndarray, rows: slice) -> tuple[np.ndarray, Pairs | None]:
        """ρ² between some rows of Z and all rows up to the last of them, and the refined entries."""
        sq = squared_distances(Z[rows], Z[: rows.stop], self._profile.far)
        np.fill_diagonal(sq[:, rows], 0.0)
        return sq, refine(sq, Z[rows], Z[: rows.stop]) if self._profile.has_cusp else None


class _Band(NamedTuple):
    """Some rows of a symmetric matrix of correlations, up to and including the square on its diagonal.

    The bands hold every pair of rows once, the whole matrix twice; each band fits into the cache.
    """

    rows: slice
    f: np.ndarray
    """Correlations, (len(rows), rows.stop)."""
    W: np.ndarray
    """Their slopes, of the same shape."""
    near: Pairs | None
    """Rows and columns of this band whose distances were refined."""

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
            for i, j in portions(*self.near, Z.shape[1]):
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


def _bands(m: int) -> Iterator[slice]:
    """Cut m rows into bands."""
    step = _BAND if m > _WHOLE else max(1, m)
    return (slice(start, min(start + step, m)) for start in range(0, m, step))


def _put_band(K: np.ndarray, rows: slice, values: np.ndarray) -> None:
    """Write a band and its transpose into a symmetric matrix."""
    K[rows, : rows.stop] = values
    K[: rows.start, rows] = values[:, : rows.start].T


def is_stationary(term: Kernel) -> bool:
    """Whether :class:`StationaryCovariance` can evaluate this term of a sum."""
    parts = [term.k1, term.k2] if type(term) is Product else [term]
    shapes = [f for f in parts if type(f) is not ConstantKernel]
    return len(shapes) == 1 and profile_of(shapes[0]) is not None

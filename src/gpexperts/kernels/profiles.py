"""Stationary correlation functions f(ρ²) and their slopes: RBF, Matérn 1/2, 3/2, 5/2, RationalQuadratic.

ρ is the Euclidean distance in units of the length scales. All functions work in place where they can:
the arrays are the size of covariance matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Kernel, Matern, RationalQuadratic

__all__ = ["Profile", "profile_of", "slope_in_alpha"]

_FAR = 172.0
"""exp(−172) = 2e-75: every larger exponent is replaced by this one. With much smaller correlations, products
such as q_iᵀ k q_j become subnormal numbers, with which processors are many times slower."""


class Profile(NamedTuple):
    """A stationary correlation f as a function of the squared scaled distance ρ².

    The derivative with respect to the log of length scale l_k is W ∘ (z_k − z'_k)², where
    W = −f'(ρ)/ρ and z = x / l.
    """

    correlation: Callable[[np.ndarray, float], np.ndarray]
    """(ρ², α) ↦ f; may overwrite ρ²."""
    with_slope: Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]]
    """(ρ², α) ↦ (f, W); may overwrite ρ²."""
    far: float
    """Larger ρ² are replaced by this one; infinite if f has a heavy tail."""
    reach: float
    """f < 1e-20 for every ρ larger than this; infinite if f has a heavy tail."""
    has_cusp: bool = False
    """Whether f is linear in ρ near 0, and not in ρ²: half of the digits lost in a small ρ² are then lost
    in f."""


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


_PROFILES: dict[str, Profile] = {
    "rbf": Profile(_rbf, _rbf_with_slope, 2.0 * _FAR, 9.6),
    "matern12": Profile(_matern12, _matern12_with_slope, _FAR**2, 46.1, has_cusp=True),
    "matern32": Profile(_matern32, _matern32_with_slope, _FAR**2 / 3.0, 29.0),
    "matern52": Profile(_matern52, _matern52_with_slope, _FAR**2 / 5.0, 24.0),
    "rational_quadratic": Profile(_rational_quadratic, _rational_quadratic_with_slope, np.inf, np.inf),
}


def profile_of(shape: Kernel) -> Profile | None:
    """Return the correlation function of a scikit-learn kernel, or None if it has none here."""
    # type(), not isinstance: a subclass may compute something else.
    if type(shape) is RBF:
        return _PROFILES["rbf"]
    if type(shape) is RationalQuadratic:
        return _PROFILES["rational_quadratic"]
    if type(shape) is Matern:
        name = {0.5: "matern12", 1.5: "matern32", 2.5: "matern52", np.inf: "rbf"}.get(shape.nu)
        return None if name is None else _PROFILES[name]
    return None


def slope_in_alpha(f: np.ndarray, alpha: float) -> np.ndarray:
    """∂f / ∂ log α of f = b^(−α), b = 1 + ρ² / 2α: α f (1 − 1/b − log b), and log b = −log(f) / α."""
    log_b = np.log(f, out=np.zeros_like(f), where=f > 0) / -alpha  # f log f tends to 0 with f
    return alpha * f * (-np.expm1(-log_b) - log_b)

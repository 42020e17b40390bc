"""Transformed targets: the model is fitted to z = T(y), and its predictions are brought back to y.

    p(y) = N(T(y); m, v) · T'(y)      E[y] = ∫ T⁻¹(z) N(z; m, v) dz

Integrals are Gauss-Hermite sums. Quantiles are those of z, transformed. T is increasing, and T⁻¹ is defined
for all numbers.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize_scalar

from gpexperts.row_noise import stretched
from gpexperts.rows.base import Rows

__all__ = ["NAMES", "Log", "ScoreTerms", "TargetTransform", "UserTransform", "YeoJohnson", "fitted_transform"]

NAMES = ("log", "yeo-johnson")
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_LARGEST = 700.0
"""Exponents are bounded: e^700 is about the largest double."""
_STEP = 1e-5
"""Of the difference that is the slope of a user's transformer, relative to the spread of the targets."""


class TargetTransform:
    """An increasing function of each target."""

    name: str

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Transform the targets of training rows; see `RowSource.mapped`.

        Given standard deviations are those of y; for z they are multiplied by the slope.
        """
        slope = np.exp(self.log_slope(rows.y)[:, 0]) if rows.y.shape[1] == 1 else np.ones(len(rows.y))
        return rows.X, self.forward(rows.y), stretched(rows.noise, slope)

    def log_density(self, y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
        """Log density of y (n, p) for Gaussian z; −∞ outside the range of the targets."""
        inside = np.isfinite(self.log_slope(y))
        z = np.where(inside, (self.forward(np.where(inside, y, 1.0)) - mean) / std, np.inf)
        density = -0.5 * z**2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)
        return density + np.where(inside, self.log_slope(np.where(inside, y, 1.0)), 0.0)

    def forward(self, y: np.ndarray) -> np.ndarray:
        """T(y), (n, p)."""
        raise NotImplementedError

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """T⁻¹(z), (n, p)."""
        raise NotImplementedError

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """Log T'(y), (n, p)."""
        raise NotImplementedError

    def moments(self, mean: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of y (n, p) for Gaussian z."""
        first = np.zeros_like(mean)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            first += weight * self.inverse(mean + node * std)
        second = np.zeros_like(mean)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            second += weight * (self.inverse(mean + node * std) - first) ** 2
        return first, np.sqrt(second)


@dataclass(frozen=True)
class Log(TargetTransform):
    """T(y) = log y, for positive targets."""

    name = "log"

    def forward(self, y: np.ndarray) -> np.ndarray:
        return np.log(y)

    def inverse(self, z: np.ndarray) -> np.ndarray:
        return np.exp(np.clip(z, -_LARGEST, _LARGEST))

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        return np.where(y > 0, -np.log(np.where(y > 0, y, 1.0)), -np.inf)


@dataclass(frozen=True)
class YeoJohnson(TargetTransform):
    """Yeo & Johnson (2000) of u = y / scale, with a power from 0 to 2, for targets of any sign.

    T(u) = ((1 + u)^λ − 1)/λ for u ≥ 0, and −((1 − u)^(2 − λ) − 1)/(2 − λ) for u < 0; a power of 0 stands for
    the logarithm. λ = 1 changes nothing.
    """

    power: np.ndarray
    """(p,) λ."""
    scale: np.ndarray
    """(p,)"""
    name = "yeo-johnson"

    def forward(self, y: np.ndarray) -> np.ndarray:
        u = y / self.scale
        return np.where(u >= 0, _power(np.abs(u), self.power), -_power(np.abs(u), 2.0 - self.power))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        up, down = _root(np.maximum(z, 0.0), self.power), _root(np.maximum(-z, 0.0), 2.0 - self.power)
        return self.scale * np.where(z >= 0, up, -down)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        u = y / self.scale
        return np.sign(u) * (self.power - 1.0) * np.log1p(np.abs(u)) - np.log(self.scale)


def _power(u: np.ndarray, power: np.ndarray) -> np.ndarray:
    """((1 + u)^a − 1)/a for u ≥ 0, log(1 + u) for a = 0."""
    safe = np.where(power == 0.0, 1.0, power)
    return np.where(power == 0.0, np.log1p(u), np.expm1(safe * np.log1p(u)) / safe)


def _root(z: np.ndarray, power: np.ndarray) -> np.ndarray:
    """The inverse of `_power`, for z ≥ 0."""
    safe = np.where(power == 0.0, 1.0, power)
    exponent = np.where(power == 0.0, z, np.log1p(safe * z) / safe)
    return np.expm1(np.minimum(exponent, _LARGEST))


@dataclass(frozen=True)
class UserTransform(TargetTransform):
    """A fitted transformer of the user, with `transform` and `inverse_transform`."""

    transformer: Any
    spread: np.ndarray
    """(p,) standard deviation of the targets."""
    bounds: tuple[np.ndarray, np.ndarray] | None = None
    """(p,) smallest and largest z that the inverse is taken at; values beyond them are moved there."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """The class of the transformer."""
        return type(self.transformer).__name__

    def forward(self, y: np.ndarray) -> np.ndarray:
        return self._finite(self.transformer.transform(y), "transform", y)

    def inverse(self, z: np.ndarray) -> np.ndarray:
        z = z if self.bounds is None else np.clip(z, *self.bounds)
        return self._finite(self.transformer.inverse_transform(z), "inverse_transform", z)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        step = _STEP * self.spread
        slope = (self.forward(y + step) - self.forward(y - step)) / (2.0 * step)
        return np.log(np.maximum(slope, np.finfo(float).tiny))

    def _finite(self, values: Any, method: str, given: np.ndarray) -> np.ndarray:
        found = np.asarray(values, dtype=float)
        if found.shape != given.shape or not np.isfinite(found).all():
            raise ValueError(
                f"target_transform={self.name}: its {method} must give one finite number for each of the "
                f"{given.shape} given, got shape {found.shape} with {int((~np.isfinite(found)).sum())} that "
                "are not finite."
            )
        return found


class ScoreTerms(NamedTuple):
    """Observed targets compared with their predictions; arrays of shape (n, p)."""

    z: np.ndarray
    """Standardised residuals of the transformed targets."""
    z_std: np.ndarray
    """Standard deviations of the transformed targets, on which the widths of intervals depend."""
    log_density: np.ndarray
    """Of the targets themselves."""

    @classmethod
    def of(cls, target: TargetTransform | None, y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> Self:
        """Compare targets y (n, p) with mean and std (n, p) of the transformed targets."""
        if target is None:
            z = (y - mean) / std
            return cls(z, std, -0.5 * z**2 - np.log(std) - 0.5 * np.log(2.0 * np.pi))
        density = target.log_density(y, mean, std)
        known = np.isfinite(density)
        z = np.where(known, (target.forward(np.where(known, y, 1.0)) - mean) / std, np.inf)
        return cls(z, std, density)


def fitted_transform(setting: Any, y: np.ndarray, low: float) -> TargetTransform:
    """Fit the transform that a setting names to targets y (n, p), or a sample; `low` is the smallest of all.

    Raises
    ------
    ValueError
        For "log" and targets that are not positive, and for a transformer that does not increase.
    """
    if isinstance(setting, str) and setting == "log":
        if low <= 0:
            raise ValueError(
                f"target_transform='log' needs positive targets, but the smallest is {low:g}. Use "
                "'yeo-johnson', or add a constant to the target."
            )
        return Log()
    spread = np.where(y.std(axis=0) > 0, y.std(axis=0), 1.0)
    if isinstance(setting, str) and setting == "yeo-johnson":
        powers = [_best_power(column) for column in (y / spread).T]
        return YeoJohnson(np.array(powers), spread)
    from sklearn.base import clone

    transform = UserTransform(clone(setting).fit(y), spread)
    grid = np.sort(y, axis=0)[:: max(1, len(y) // 200)]
    rises = np.diff(transform.forward(grid), axis=0)[np.diff(grid, axis=0) > 0]
    if (rises <= 0).any():
        raise ValueError(
            f"target_transform={transform.name}: its transform must increase with the target, but it falls "
            "or stays constant for some."
        )
    return replace(transform, bounds=_bounds(transform, transform.forward(y)))


def _bounds(transform: UserTransform, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The widest range of z, beyond that of the targets z (n, p), where the inverse is finite.

    The inverse of some transforms is not defined for all numbers, such as that of a negative power.
    """
    low, high = z.min(axis=0), z.max(axis=0)
    for share in (1.0, 0.5, 0.2, 0.1, 0.03, 0.01, 0.0):
        bounds = low - share * (high - low), high + share * (high - low)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # where the inverse is not defined
            ends = np.asarray(transform.transformer.inverse_transform(np.stack(bounds)), dtype=float)
        if np.isfinite(ends).all():
            break
    return bounds


def _best_power(u: np.ndarray) -> float:
    """λ with the largest likelihood of Gaussian T(u) for u (n,), between 0 and 2."""
    size = float((np.sign(u) * np.log1p(np.abs(u))).mean())

    def loss(power: float) -> float:
        z = YeoJohnson(np.array([power]), np.ones(1)).forward(u[:, None])
        variance = float(z.var())
        return 0.5 * float(np.log(max(variance, 1e-300))) - (power - 1.0) * size

    found = minimize_scalar(loss, bounds=(0.0, 2.0), method="bounded", options={"xatol": 1e-4})
    return float(round(float(found.x), 4))

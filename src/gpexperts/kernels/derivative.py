"""Derivatives of stationary kernels with respect to their inputs."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import Matern

from gpexperts.kernels.base import Covariance
from gpexperts.kernels.raw import RawInputs
from gpexperts.kernels.stationary import StationaryCovariance

__all__ = ["has_input_gradient", "input_gradient", "slope_variance"]


def _stationary(covariance: Covariance) -> Covariance:
    return covariance.raw if isinstance(covariance, RawInputs) else covariance


def has_input_gradient(covariance: Covariance) -> bool:
    """Whether :func:`input_gradient` is available: for the stationary kernels of this library."""
    return isinstance(_stationary(covariance), StationaryCovariance)


def input_gradient(covariance: Covariance, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """∂k(x, z)/∂x for every row z of Z (m, d), shape (m, d); x is (d,)."""
    stationary = _stationary(covariance)
    assert isinstance(stationary, StationaryCovariance)
    metric = covariance.metric(np.ones(len(x)))
    away = (x - Z) / metric
    slope = stationary.slope(np.einsum("md,md->m", away, away))
    return -slope[:, None] * away / metric


def slope_variance(covariance: Covariance, d: int) -> np.ndarray | None:
    """Prior variance of ∂f/∂x_j, (d,); None where f has no derivative in mean square (Matérn 1/2)."""
    stationary = _stationary(covariance)
    assert isinstance(stationary, StationaryCovariance)
    if isinstance(stationary.shape, Matern) and stationary.shape.nu == 0.5:
        return None
    return np.asarray(stationary.slope(np.zeros(1)) / covariance.metric(np.ones(d)) ** 2)

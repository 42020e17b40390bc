"""Distances between points with many inputs, most of which do not vary."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from gpexperts.kernels.distances import varying
from gpexperts.kernels.named import covariance_of


@pytest.mark.parametrize(("d", "n_levels"), [(8, 8), (200, 5), (200, 200)])
def test_inputs_that_do_not_vary_change_no_covariance(d: int, n_levels: int) -> None:
    rng = np.random.default_rng(0)
    points = np.eye(d)[rng.integers(0, n_levels, (7, 20))] + 0.1 * rng.standard_normal((7, 1, d))
    offsets = points - points[:, :1]
    assert varying(offsets).shape[2] <= min(d, 20) if n_levels < d else varying(offsets).shape[2] <= d
    covariance = covariance_of(ConstantKernel(2.0) * Matern(np.linspace(0.5, 3.0, d), nu=1.5))
    A = np.zeros((7, 20, 20))
    covariance.fill_grams(A, points)
    for filled, X in zip(A, points, strict=True):
        np.testing.assert_allclose(np.triu(2.0 * filled), np.triu(covariance.kernel(X)), rtol=1e-9)


def test_no_points() -> None:
    assert varying(np.empty((0, 5, 100))).shape == (0, 5, 1)
    assert varying(np.zeros((2, 5, 100))).shape == (2, 5, 1)

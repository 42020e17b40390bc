"""Leave-one-out predictions against models that are fitted without the row."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from gpexperts.kernels.named import covariance_of
from gpexperts.linalg.cholesky import factorise
from gpexperts.linalg.leave_one_out import LeaveOneOut


def test_leave_one_out_is_a_fit_without_the_row() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), rng.normal(size=(12, 2))
    kernel = 1.5 * RBF([0.7, 1.2]) + WhiteKernel(0.1)
    factor = factorise(covariance_of(kernel).noisy_gram(X))
    alpha = factor.solve(np.array(y.T, order="C"))
    left_out = LeaveOneOut(alpha, factor.inverted().precision())
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        gp = GaussianProcessRegressor(kernel, alpha=1e-300, optimizer=None).fit(X[others], y[others])
        mean, std = gp.predict(X[[i]], return_std=True)
        np.testing.assert_allclose(left_out.residual[:, i], y[i] - mean[0], rtol=1e-9)
        np.testing.assert_allclose(left_out.variance[i], std[0] ** 2, rtol=1e-9)
        np.testing.assert_allclose(left_out.squared_z[:, i], ((y[i] - mean[0]) / std[0]) ** 2, rtol=1e-9)

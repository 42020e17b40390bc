"""Trained covariances in a file: the kernel, and whether it is evaluated in the user's units."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from gpexperts.io.values import Decoder, require
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.named import covariance_of
from gpexperts.kernels.raw import RawInputs
from gpexperts.scaling import Standardizer

__all__ = ["check_kernel", "covariance_values", "restored_covariance"]


def check_kernel(kernel: Kernel) -> None:
    """Refuse a kernel whose hyperparameters cannot be read or printed."""
    require(bool(np.isfinite(kernel.theta).all()) and str(kernel) != "", "the kernel is not finite")


def covariance_values(covariance: Covariance) -> dict[str, Any]:
    """Return what a file holds of a covariance."""
    return {"kernel": covariance.kernel, "raw_inputs": isinstance(covariance, RawInputs)}


def restored_covariance(
    read: Decoder,
    tree: dict[str, Any],
    x_scale: Standardizer,
    X: np.ndarray,
    scale_index: np.ndarray | None,
) -> Covariance:
    """Restore the covariance and evaluate it on two rows of X: its parameters may have any values."""
    kernel = read.decode(tree["kernel"])
    require(isinstance(kernel, Kernel), "the kernel is not a kernel")
    check_kernel(kernel)
    if tree["raw_inputs"]:
        covariance: Covariance = RawInputs(kernel, x_scale, scale_index)
    else:
        covariance = covariance_of(kernel, scale_index)
    X, d = X[:2], X.shape[1]
    gram, variance, metric = covariance(X, X), covariance.prior_variance(X), covariance.metric(np.ones(d))
    require(
        0.0 <= covariance.noise_variance < np.inf
        and gram.shape == (len(X), len(X))
        and bool(np.isfinite(gram).all())
        and np.allclose(gram, gram.T)
        and variance.shape == (len(X),)
        and bool(((variance >= 0) & (variance < np.inf)).all())
        and metric.shape == (d,)
        and bool(((metric > 0) & (metric < np.inf)).all()),
        "the kernel is not a covariance of the inputs",
    )
    return covariance

"""Warnings about the result of training."""

from __future__ import annotations

import warnings

from gpexperts.exceptions import NoNoiseWarning
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.named import has_noise
from gpexperts.training.likelihood import TraceRow, warn_of_bounds, warn_of_jitter

__all__ = ["warn_of_training"]

NOISY = 0.01
"""Leave-one-out error, as a share of the target's variance, above which data are taken to be noisy."""


def warn_of_training(
    covariance: Covariance, last: TraceRow, *, trainable: bool, kernel_is_object: bool, variance: float
) -> None:
    """Warn of hyperparameters at a bound, of jitter, and of a kernel without noise on noisy data.

    Parameters
    ----------
    covariance : Covariance
        Trained.
    last : TraceRow
        The last step of training.
    trainable : bool
        Whether hyperparameters were free to move.
    kernel_is_object : bool
        Whether the user chose the bounds.
    variance : float
        Of the targets.
    """
    kernel = covariance.kernel
    if trainable:
        warn_of_bounds(kernel, named=not kernel_is_object)
    if last.jittered:
        warn_of_jitter(f"{last.jittered} training blocks")
    if variance > 0 and not has_noise(kernel) and last.loo_error > NOISY * variance:
        warnings.warn(
            f"The kernel {kernel} has no WhiteKernel, so that the model interpolates every target, but the "
            f"leave-one-out error of the training rows is {last.loo_error / variance:.2g} of the target's "
            "variance: the data look noisy. Add + WhiteKernel() to the kernel.",
            NoNoiseWarning,
            stacklevel=4,
        )

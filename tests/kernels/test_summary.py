"""The text of a kernel stays short."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from gpexperts.kernels.summary import kernel_summary


def test_few_length_scales_are_written_out() -> None:
    kernel = 2.0**2 * RBF([1.0, 2.0]) + WhiteKernel(0.5)
    assert kernel_summary(kernel) == str(kernel)


def test_many_length_scales_are_summarised() -> None:
    kernel = 2.0**2 * RBF(np.arange(1.0, 401.0)) + WhiteKernel(0.5)
    text = kernel_summary(kernel)
    assert text == "2**2 * RBF(length_scale=[400 values from 1 to 400]) + WhiteKernel(noise_level=0.5)"

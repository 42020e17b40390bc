"""Named kernels, and the checks of kernel objects."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    ExpSineSquared,
    Kernel,
    Matern,
    WhiteKernel,
)

from gpexperts.kernels.named import (
    AUTOMATIC_KERNELS,
    NAMED_KERNELS,
    candidate_kernels,
    covariance_of,
    has_noise,
    hyperparameter_names,
    named_kernel,
)
from gpexperts.kernels.stationary import StationaryCovariance

SPREAD_X, SPREAD_Y = np.array([1e-3, 1.0, 1e4]), np.array([50.0])


@pytest.mark.parametrize("name", NAMED_KERNELS)
def test_a_named_kernel_starts_inside_its_bounds_at_the_scale_of_the_data(name: str) -> None:
    (kernel,) = candidate_kernels(name, SPREAD_X, SPREAD_Y).values()
    low, high = kernel.bounds.T
    assert ((low < kernel.theta) & (kernel.theta < high)).all()
    covariance = covariance_of(kernel)
    assert isinstance(covariance, StationaryCovariance)
    np.testing.assert_allclose(covariance.metric(SPREAD_X), np.sqrt(3) * SPREAD_X)
    np.testing.assert_allclose(covariance.signal_variance, 2500.0)


def test_several_targets_share_their_mean_spread() -> None:
    (kernel,) = candidate_kernels("rbf", SPREAD_X, np.array([1.0, 3.0])).values()
    assert kernel == named_kernel("rbf", SPREAD_X, 2.0)


@pytest.mark.parametrize("kernel", [None, "auto"])
def test_no_kernel_means_auto(kernel: str | None) -> None:
    assert tuple(candidate_kernels(kernel, SPREAD_X, SPREAD_Y)) == AUTOMATIC_KERNELS


@pytest.mark.parametrize("given", [1.0 * RBF(2.0), RBF([1.0, 2.0, 3.0]) + WhiteKernel(0.1)])
def test_a_kernel_object_is_cloned_and_keeps_its_values(given: Kernel) -> None:
    (kernel,) = candidate_kernels(given, SPREAD_X, SPREAD_Y).values()
    assert kernel == given
    assert kernel is not given


@pytest.mark.parametrize("kernel", ["rfb", 3, RBF])
def test_an_unknown_kernel_is_an_error(kernel: object) -> None:
    with pytest.raises(ValueError, match="known names are 'auto', 'rbf'"):
        candidate_kernels(kernel, SPREAD_X, SPREAD_Y)  # type: ignore[arg-type]


@pytest.mark.parametrize("kernel", [CompoundKernel([RBF(), Matern()]), CompoundKernel([RBF()]) + RBF()])
def test_a_compound_kernel_is_an_error(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match=r"CompoundKernel is not supported.*Fit one model per kernel"):
        candidate_kernels(kernel, SPREAD_X, SPREAD_Y)


def test_length_scales_must_fit_the_inputs() -> None:
    with pytest.raises(ValueError, match=r"k1__k2__length_scale has 2 entries, but X has 3 features"):
        candidate_kernels(1.0 * RBF([1.0, 2.0]) + WhiteKernel(), SPREAD_X, SPREAD_Y)


def test_a_kernel_of_noise_alone_is_an_error() -> None:
    with pytest.raises(ValueError, match="only noise; add a signal"):
        covariance_of(WhiteKernel(0.1) + WhiteKernel(0.2))


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (RBF(), False),
        (2.0 * RBF() + ExpSineSquared(), False),
        (WhiteKernel(), True),
        (ExpSineSquared() + 1.0 * RBF() + WhiteKernel(), True),
        (RBF() + 2.0 * WhiteKernel(), True),
        ((RBF() + WhiteKernel()) ** 2, True),
    ],
    ids=str,
)
def test_has_noise(kernel: Kernel, expected: bool) -> None:
    assert has_noise(kernel) is expected


def test_each_hyperparameter_has_its_name() -> None:
    kernel = 1.7 * RBF([0.7, 1.9, 0.4]) + WhiteKernel(0.1)
    names = hyperparameter_names(kernel)
    assert names[1:4] == [f"k1__k2__length_scale[{i}]" for i in range(3)]
    assert len(names) == len(kernel.theta)
    assert hyperparameter_names(ConstantKernel(2.0, "fixed") * RBF(1.0, "fixed")) == []

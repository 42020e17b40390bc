"""The user's units: kernel objects are evaluated on X as given, while experts store standardised inputs."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from gpexperts.kernels.base import Covariance, SignalGradient
from gpexperts.kernels.named import candidate_kernels, covariance_of
from gpexperts.kernels.stationary import StationaryCovariance
from gpexperts.scaling import Standardizer

__all__ = ["RawInputs", "candidate_covariances", "kernel_in_user_units", "of_scales"]


class RawInputs(Covariance):
    """A covariance that is evaluated in the user's units of X.

    Parameters
    ----------
    kernel : Kernel
        With lengths in the units of X.
    x_scale : Standardizer
        The user's units ↔ the units of the inputs that are passed to this object.
    scale_index : ndarray of int, shape (d,), optional
        The length scale of each input, where several share one.
    """

    def __init__(self, kernel: Kernel, x_scale: Standardizer, scale_index: np.ndarray | None = None) -> None:
        super().__init__(kernel, scale_index)
        self.x_scale = x_scale
        self._raw = covariance_of(kernel, scale_index)

    def with_kernel(self, kernel: Kernel) -> RawInputs:
        return RawInputs(kernel, self.x_scale, self.scale_index)

    def __call__(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        return self._raw(self.x_scale.restore(X), self.x_scale.restore(Z))

    def gram(self, X: np.ndarray) -> np.ndarray:
        return self._raw.gram(self.x_scale.restore(X))

    def gram_with_gradient(self, X: np.ndarray) -> tuple[np.ndarray, SignalGradient]:
        return self._raw.gram_with_gradient(self.x_scale.restore(X))

    @property
    def scale(self) -> float:
        return self._raw.scale

    def fill_grams(self, A: np.ndarray, points: np.ndarray) -> None:
        self._raw.fill_grams(A, self.x_scale.restore(points))

    def prior_variance(self, X: np.ndarray) -> np.ndarray:
        return self._raw.prior_variance(self.x_scale.restore(X))

    def vanishes(self, X: np.ndarray, Z: np.ndarray) -> bool:
        return self._raw.vanishes(self.x_scale.restore(X), self.x_scale.restore(Z))

    def metric(self, spread: np.ndarray) -> np.ndarray:
        return self._raw.metric(spread * self.x_scale.scale) / self.x_scale.scale


def candidate_covariances(
    kernel: str | Kernel | None,
    spread_X: np.ndarray,
    spread_y: np.ndarray,
    x_scale: Standardizer,
    scale_index: np.ndarray | None = None,
) -> dict[str, Covariance]:
    """Return the covariances to choose from, by name: several for "auto", one otherwise.

    Parameters
    ----------
    kernel : str, Kernel or None
        A kernel object is evaluated in the user's units of X.
    spread_X, spread_y : ndarray of shape (d,) and (p,)
        Standard deviations, in the units of the experts; equal for inputs that share a length scale.
    x_scale : Standardizer
        The user's units ↔ the units of the experts.
    scale_index : ndarray of int, shape (d,), optional
        The length scale of each input, where several share one.
    """
    kernels = candidate_kernels(kernel, of_scales(spread_X, scale_index), spread_y)
    if not isinstance(kernel, Kernel):
        return {name: covariance_of(candidate, scale_index) for name, candidate in kernels.items()}
    unchanged = bool((x_scale.shift == 0).all() and (x_scale.scale == 1).all())
    return {
        name: covariance_of(candidate, scale_index)
        if unchanged
        else RawInputs(candidate, x_scale, scale_index)
        for name, candidate in kernels.items()
    }


def of_scales(values: np.ndarray, scale_index: np.ndarray | None) -> np.ndarray:
    """Return one of the equal values (d,) of the inputs of each length scale, (g,)."""
    return values if scale_index is None else values[np.unique(scale_index, return_index=True)[1]]


def kernel_in_user_units(covariance: Covariance, x_scale: Standardizer, y_scale: Standardizer) -> Kernel:
    """Return the kernel with lengths in the units of X and, for one output, variances in those of y².

    A kernel object of the user is in these units already. Passed as `kernel`, it gives the same model again.
    """
    if not isinstance(covariance, StationaryCovariance):
        return covariance.kernel
    kernel = clone(covariance.kernel)
    variance = float(y_scale.scale[0]) ** 2 if len(y_scale.scale) == 1 else 1.0
    units, scaled = of_scales(x_scale.scale, covariance.scale_index), {}
    for name, value in kernel.get_params().items():
        factor = units if name.endswith("length_scale") else variance
        if name.endswith(("length_scale", "constant_value", "noise_level")):
            bounds = kernel.get_params()[f"{name}_bounds"]
            scaled[name] = value * factor
            if not isinstance(bounds, str):
                scaled[f"{name}_bounds"] = np.atleast_2d(bounds) * np.reshape(factor, (-1, 1))
    return kernel.set_params(**scaled)

"""Which kernel is used: scikit-learn kernel objects, and the kernels that have a name.

:func:`covariance_of` splits the top-level sum of a scikit-learn kernel into WhiteKernel terms, whose levels
add up to the noise variance σ², and the signal k(x, x'). It returns :class:`StationaryCovariance` if the
signal is one of its forms, and :class:`GenericCovariance` otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    Kernel,
    Matern,
    WhiteKernel,
)

from gpexperts.kernels.base import Covariance, terms_of
from gpexperts.kernels.generic import GenericCovariance
from gpexperts.kernels.stationary import StationaryCovariance, is_stationary

__all__ = [
    "AUTOMATIC_KERNELS",
    "NAMED_KERNELS",
    "Covariance",
    "candidate_kernels",
    "covariance_of",
    "has_noise",
    "hyperparameter_names",
    "named_kernel",
]


def covariance_of(kernel: Kernel, scale_index: np.ndarray | None = None) -> Covariance:
    """Return the fastest :class:`Covariance` that evaluates a scikit-learn kernel.

    Parameters
    ----------
    kernel : Kernel
    scale_index : ndarray of int, shape (d,), optional
        The length scale of each input, where several share one.

    Raises
    ------
    ValueError
        If the kernel has no signal, only noise.
    """
    signal = [t for t in terms_of(kernel) if not isinstance(t, WhiteKernel)]
    if not signal:
        raise ValueError(
            f"The kernel {kernel} is only noise; add a signal, as in 1.0 * RBF() + WhiteKernel()."
        )
    if len(signal) == 1 and is_stationary(signal[0]):
        return StationaryCovariance(kernel, scale_index)
    return GenericCovariance(kernel, scale_index)


def has_noise(kernel: Kernel) -> bool:
    """Whether a kernel contains a WhiteKernel."""
    return any(isinstance(part, WhiteKernel) for part in _parts_of(kernel))


def hyperparameter_names(kernel: Kernel) -> list[str]:
    """One name per entry of `kernel.theta`, for example 'k1__k2__length_scale[3]'."""
    names = []
    for hyperparameter in kernel.hyperparameters:
        if hyperparameter.fixed:
            continue
        if hyperparameter.n_elements == 1:
            names.append(hyperparameter.name)
        else:
            names += [f"{hyperparameter.name}[{i}]" for i in range(hyperparameter.n_elements)]
    return names


_SHAPES: dict[str, Callable[[np.ndarray, tuple[float, float]], Kernel]] = {
    "rbf": lambda scale, bounds: RBF(scale, bounds),
    "matern12": lambda scale, bounds: Matern(scale, bounds, nu=0.5),
    "matern32": lambda scale, bounds: Matern(scale, bounds, nu=1.5),
    "matern52": lambda scale, bounds: Matern(scale, bounds, nu=2.5),
}

NAMED_KERNELS: tuple[str, ...] = tuple(_SHAPES)
"""Names accepted by ``kernel=``, each constant × shape with one length scale per input + noise."""

AUTOMATIC_KERNELS: tuple[str, ...] = ("matern52", "rbf", "matern32", "matern12")
"""Candidates of ``kernel="auto"``. The first stage of training uses the first one, which is of middle
smoothness."""


def candidate_kernels(
    kernel: str | Kernel | None, spread_X: np.ndarray, spread_y: np.ndarray
) -> dict[str, Kernel]:
    """Return the kernels to choose from, by name: several for "auto", one otherwise.

    Parameters
    ----------
    kernel : str, Kernel or None
        A name, or a kernel object; None means "auto". The object is cloned.
    spread_X : ndarray of shape (g,)
        Standard deviation of the inputs of each length scale, in the units in which the kernel is evaluated;
        1 for constant inputs. Named kernels are initialised from it.
    spread_y : ndarray of shape (p,)
        The same for the targets.

    Raises
    ------
    ValueError
        If the name is unknown, if length scales do not fit the inputs, or if the kernel is a CompoundKernel.
    """
    d = len(spread_X)
    if isinstance(kernel, Kernel):
        _check_kernel(kernel, d)
        return {"given": clone(kernel)}
    kernel = "auto" if kernel is None else kernel
    names = ("auto", *NAMED_KERNELS)
    if not isinstance(kernel, str) or kernel not in names:
        raise ValueError(
            f"Unknown kernel {kernel!r}; known names are {', '.join(map(repr, names))}, "
            "or give a kernel of sklearn.gaussian_process.kernels."
        )
    chosen = AUTOMATIC_KERNELS if kernel == "auto" else (kernel,)
    return {name: named_kernel(name, spread_X, float(np.mean(spread_y))) for name in chosen}


def _check_kernel(kernel: Kernel, n_features: int) -> None:
    """Refuse a kernel object that cannot be evaluated on `n_features` inputs."""
    if any(isinstance(part, CompoundKernel) for part in _parts_of(kernel)):
        raise ValueError(
            "A CompoundKernel is not supported: it returns a stack of covariance matrices, one per kernel. "
            "Fit one model per kernel."
        )
    for name, value in kernel.get_params().items():
        if name.endswith("length_scale") and np.size(value) not in (1, n_features):
            raise ValueError(
                f"The kernel's {name} has {np.size(value)} entries, but X has {n_features} features; "
                "give one length scale, or one per feature."
            )


def _parts_of(kernel: Kernel) -> Iterator[Kernel]:
    """Yield a kernel and all kernels it is composed of."""
    yield kernel
    yield from (value for value in kernel.get_params().values() if isinstance(value, Kernel))


def named_kernel(name: str, spread_X: np.ndarray, spread_y: float) -> Kernel:
    """Return constant × shape(one length scale per input) + white noise, initialised from the data.

    Parameters
    ----------
    name : str
        One of `NAMED_KERNELS`.
    spread_X : ndarray of shape (d,)
        Standard deviation of each input, in the units in which the kernel is evaluated.
    spread_y : float
        The same for the target.

    Notes
    -----
    Two random rows are √(2d) standard deviations apart. An initial length scale of √d standard deviations
    lets them correlate, and the optimiser can move in both directions. The bounds are wide, so that the
    length scale of an irrelevant input and the noise of noise-free data do not end at a bound.
    """
    amplitude = spread_y**2
    scale = np.sqrt(len(spread_X)) * spread_X
    lower, upper = float(scale.min()) * 1e-3, float(scale.max()) * 1e5
    shape = _SHAPES[name](scale, (lower, upper))
    signal = ConstantKernel(amplitude, (1e-4 * amplitude, 1e5 * amplitude))
    return signal * shape + WhiteKernel(0.1 * amplitude, (1e-10 * amplitude, 1e2 * amplitude))

"""scikit-learn kernels: how they are read, and those that go by a name.

A kernel is written in scikit-learn's language. :func:`covariance_of` splits its top-level sum into
the WhiteKernel terms, whose levels add up to the noise variance σ², and the rest, the signal k(x, x'), and
picks who evaluates it: :class:`StationaryCovariance` where the form allows it, otherwise the kernel itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern, WhiteKernel

from gpexperts.kernels.base import Covariance, GenericCovariance, terms_of
from gpexperts.kernels.stationary import StationaryCovariance, is_stationary
from gpexperts.scaling import Standardizer

__all__ = [
    "NAMED_KERNELS",
    "Covariance",
    "candidate_kernels",
    "covariance_of",
    "hyperparameter_names",
    "named_kernel",
]


def covariance_of(kernel: Kernel) -> Covariance:
    """Return the fastest :class:`Covariance` that evaluates a scikit-learn kernel.

    Raises
    ------
    ValueError
        If the kernel has no signal, only noise.
    """
    signal = [t for t in terms_of(kernel) if not isinstance(t, WhiteKernel)]
    if not signal:
        raise ValueError(
            f"The kernel {kernel} is nothing but noise; add a signal, as in 1.0 * RBF() + WhiteKernel()."
        )
    if len(signal) == 1 and is_stationary(signal[0]):
        return StationaryCovariance(kernel)
    return GenericCovariance(kernel)


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
"""Candidates of ``kernel="auto"``; the first, neither rough nor smooth, learns the first metric."""


def candidate_kernels(kernel: Any, X: np.ndarray, y: np.ndarray) -> dict[str, Kernel]:
    """Return the kernels that `kernel` leaves to choose from, by name: one unless it is "auto".

    Parameters
    ----------
    kernel : str or Kernel
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, p)
        The data the kernel will see, from which named kernels take their start.
    """
    d = X.shape[1]
    if isinstance(kernel, Kernel):
        for name, value in kernel.get_params().items():
            if name.endswith("length_scale") and np.size(value) not in (1, d):
                raise ValueError(
                    f"The kernel's {name} has {np.size(value)} entries, but X has {d} features; "
                    "give one length scale, or one per feature."
                )
        return {"given": clone(kernel)}
    names = ("auto", *NAMED_KERNELS)
    if not isinstance(kernel, str) or kernel not in names:
        raise ValueError(
            f"Unknown kernel {kernel!r}; known names are {', '.join(map(repr, names))}, "
            "or give a kernel of sklearn.gaussian_process.kernels."
        )
    spread = np.concatenate([Standardizer.fit(X).scale, [np.mean(Standardizer.fit(y).scale)]])
    chosen = AUTOMATIC_KERNELS if kernel == "auto" else (kernel,)
    return {name: named_kernel(name, d, standardized=spread) for name in chosen}


def named_kernel(name: str, n_features: int, *, standardized: np.ndarray) -> Kernel:
    """Return constant × shape(one length scale per input) + white noise, started from the data.

    Parameters
    ----------
    name : str
        One of `NAMED_KERNELS`.
    n_features : int
        d.
    standardized : ndarray of shape (d + 1,)
        The standard deviation of each input and, last, of the target, in the units the kernel
        will see (all 1 after standardisation).

    Notes
    -----
    Two random rows lie √(2d) standard deviations apart, so that a start of √d per input lets them
    correlate and leaves the optimiser room both ways. The bounds are wide: an input that does not
    matter should be able to say so without running into one, and data without noise likewise.
    """
    spread, amplitude = standardized[:-1], float(standardized[-1]) ** 2
    scale = np.sqrt(n_features) * spread
    lower, upper = float(scale.min()) * 1e-3, float(scale.max()) * 1e5
    shape = _SHAPES[name](scale, (lower, upper))
    signal = ConstantKernel(amplitude, (1e-4 * amplitude, 1e5 * amplitude))
    return signal * shape + WhiteKernel(0.1 * amplitude, (1e-10 * amplitude, 1e2 * amplitude))

"""The contract of a kernel: a signal covariance k, a noise variance σ², and derivatives.

The derivative of L = log p(y | X) with respect to hyperparameter t, for C = K + σ²I and α = C⁻¹y, is
½ Σ_ij S_ij ∂C_ij/∂t with S = ααᵀ − C⁻¹. Callers pass S and get the derivatives in the order of
`kernel.theta`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Self

import numpy as np
from sklearn.gaussian_process.kernels import Kernel, Sum, WhiteKernel

from gpexperts.row_noise import copies, slope, variance

__all__ = ["Covariance", "Gradient", "SignalGradient", "is_length_scale", "terms_of"]

Gradient = Callable[[np.ndarray, float], np.ndarray]
SignalGradient = Callable[[np.ndarray, float], Iterator[np.ndarray]]

_TINY_DIAGONAL = 1e-10
"""Added to the diagonal of a noise-free kernel, relative to its mean; scikit-learn's `alpha`."""


class Covariance(ABC):
    """A signal covariance k and a noise variance σ², read from a scikit-learn kernel.

    Attributes
    ----------
    kernel : Kernel
        The whole scikit-learn kernel.
    noise_variance : float
        σ², the sum of the levels of the top-level WhiteKernel terms.
    scale_index : ndarray of int, shape (d,), or None
        The length scale of each input, for inputs that share one, as those of a category; None if each has
        its own.
    """

    def __init__(self, kernel: Kernel, scale_index: np.ndarray | None = None) -> None:
        self.kernel, self.scale_index = kernel, scale_index
        self._terms = list(terms_of(kernel))
        whites = [t for t in self._terms if isinstance(t, WhiteKernel)]
        self.noise_variance = float(sum(t.noise_level for t in whites))
        self._signal_terms = [t for t in self._terms if not isinstance(t, WhiteKernel)]

    def at(self, theta: np.ndarray) -> Self:
        """Return this covariance with the log-hyperparameters `theta`."""
        return self.with_kernel(self.kernel.clone_with_theta(theta))

    def with_kernel(self, kernel: Kernel) -> Self:
        """Return a covariance of the same form with another kernel."""
        return type(self)(kernel, self.scale_index)

    def noisy_gram(self, X: np.ndarray, noise: np.ndarray | None = None) -> np.ndarray:
        """C = k(X, X) + D, shape (m, m), free to overwrite.

        D is σ²I, or the noise of each row by its table `noise` (see `row_noise`). For a noise-free kernel, a
        tiny multiple of the mean diagonal is added to σ².
        """
        return self._add_noise(self.gram(X), noise)

    def row_noise(self, noise: np.ndarray | None) -> np.ndarray | float:
        """Noise variance of each row of a table, or σ² for all."""
        return variance(noise, self.noise_variance)

    def copies(self, noise: np.ndarray | None) -> tuple[float, np.ndarray]:
        """Log likelihood of the copies that weights stand for (see `row_noise`), and its gradient."""
        value, slope_of_noise = copies(noise, self.noise_variance)
        gradient = [
            np.full(term.n_dims, slope_of_noise * term.noise_level if isinstance(term, WhiteKernel) else 0.0)
            for term in self._terms
        ]
        return value, np.concatenate(gradient)

    def noisy_gram_with_gradient(
        self, X: np.ndarray, noise: np.ndarray | None = None
    ) -> tuple[np.ndarray, Gradient]:
        """C as in `noisy_gram`, and the function that turns S = ααᵀ − C⁻¹ into derivatives.

        That function takes S (m, m), symmetric, and the jitter that was added to factorise C (a multiple
        of its mean diagonal); it returns ½ Σ_ij S_ij ∂C_ij/∂θ in the order of `kernel.theta`.
        """
        gram, signal_gradient = self.gram_with_gradient(X)

        def gradient(S: np.ndarray, jitter: float) -> np.ndarray:
            trace, share = float(np.trace(S)), slope(noise)
            by_noise = float((np.diagonal(S) * share).sum())
            signal = iter(signal_gradient(S, trace * jitter + by_noise * self._tiny_diagonal))
            by_noise += jitter * trace * float(np.mean(share))
            return np.concatenate(
                [
                    np.full(term.n_dims, 0.5 * term.noise_level * by_noise)
                    if isinstance(term, WhiteKernel)
                    else next(signal)
                    for term in self._terms
                ]
            )

        return self._add_noise(gram, noise), gradient

    def vanishes(self, X: np.ndarray, Z: np.ndarray) -> bool:
        """Whether all of k(X, Z) is zero to rounding, if that can be decided without computing it."""
        return False

    @property
    def _tiny_diagonal(self) -> float:
        return 0.0 if self.noise_variance else _TINY_DIAGONAL

    def _add_noise(self, gram: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        diagonal = np.einsum("ii->i", gram)
        diagonal += variance(noise, self.noise_variance + self._tiny_diagonal * float(diagonal.mean()))
        return gram

    @property
    def scale(self) -> float:
        """What `fill_grams` divides by: the signal variance where it is one number, else 1."""
        return 1.0

    def fill_grams(self, A: np.ndarray, points: np.ndarray) -> None:
        """Put k(points, points) / `scale` into the upper triangles of the leading blocks of A.

        Parameters
        ----------
        A : ndarray of shape (B, ≥ n, ≥ n)
        points : ndarray of shape (B, n, d)
            B small sets of points; near points are near the first one of their set.
        """
        n = points.shape[1]
        for matrix, some in zip(A, points, strict=True):
            matrix[:n, :n] = self.gram(some)

    @abstractmethod
    def __call__(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Signal covariance k(X, Z), shape (len(X), len(Z)), C-contiguous and free to overwrite."""

    @abstractmethod
    def gram(self, X: np.ndarray) -> np.ndarray:
        """Signal covariance k(X, X), shape (m, m), symmetric to rounding, free to overwrite."""

    @abstractmethod
    def prior_variance(self, X: np.ndarray) -> np.ndarray:
        """k(x, x) for every row, shape (m,)."""

    @abstractmethod
    def metric(self, spread: np.ndarray) -> np.ndarray:
        """Unit of distance of each input, by which near rows are found.

        Parameters
        ----------
        spread : ndarray of shape (d,)
            Standard deviation of each input, in the units in which the kernel is evaluated.

        Returns
        -------
        ndarray of shape (d,)
            The length scale of each input, or `spread` if the kernel has no length scale per input.
        """

    @abstractmethod
    def gram_with_gradient(self, X: np.ndarray) -> tuple[np.ndarray, SignalGradient]:
        """k(X, X), and a function of S and t that yields, for each signal term in turn, ½ Σ S_ij ∂K_ij/∂θ
        + ½ t ∂mean(diag K)/∂θ.
        """


def terms_of(kernel: Kernel) -> Iterator[Kernel]:
    """Yield the terms of the top-level sum, in the order in which `theta` lists them."""
    if isinstance(kernel, Sum):
        yield from terms_of(kernel.k1)
        yield from terms_of(kernel.k2)
    else:
        yield kernel


def is_length_scale(kernel: Kernel) -> np.ndarray:
    """Which of the log-hyperparameters `kernel.theta` are those of length scales."""
    free = [h for h in kernel.hyperparameters if not h.fixed]
    return np.concatenate([np.full(h.n_elements, h.name.endswith("length_scale")) for h in free])

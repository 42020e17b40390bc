"""What this library asks of a kernel: a signal covariance k, a noise variance σ², and derivatives.

The derivative with respect to hyperparameter t of L = log p(y | X), for C = K + σ²I and α = C⁻¹y, is
½ Σ_ij S_ij ∂C_ij/∂t with S = ααᵀ − C⁻¹: callers hand in S and get the derivatives in the order of
`kernel.theta`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np
from sklearn.gaussian_process.kernels import Kernel, Sum, WhiteKernel

__all__ = ["Covariance", "GenericCovariance", "SignalGradient", "terms_of"]

Gradient = Callable[[np.ndarray, float], np.ndarray]
SignalGradient = Callable[[np.ndarray, float], Iterator[np.ndarray]]

_TINY_DIAGONAL = 1e-10
"""Added to a noise-free kernel's diagonal, relative to its mean; scikit-learn's `alpha`."""


_LEAST_VARIANCE = 1e-100
"""Of the prior. Where a kernel has none, as x xᵀ has at 0, all that is known of an expert would be 0/0."""


class Covariance(ABC):
    """A kernel as this library uses it: a signal covariance k and a noise variance σ².

    Attributes
    ----------
    kernel : Kernel
        The whole scikit-learn kernel.
    noise_variance : float
        σ², the sum of the levels of the top-level WhiteKernel terms.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._terms = list(terms_of(kernel))
        whites = [t for t in self._terms if isinstance(t, WhiteKernel)]
        self.noise_variance = float(sum(t.noise_level for t in whites))
        self._signal_terms = [t for t in self._terms if not isinstance(t, WhiteKernel)]

    def at(self, theta: np.ndarray) -> Covariance:
        """Return this covariance with the log-hyperparameters `theta`."""
        return type(self)(self.kernel.clone_with_theta(theta))

    def noisy_gram(self, X: np.ndarray) -> np.ndarray:
        """C = k(X, X) + σ²I, shape (m, m), free to overwrite; see `_add_noise`."""
        return self._add_noise(self.gram(X))

    def noisy_gram_with_gradient(self, X: np.ndarray) -> tuple[np.ndarray, Gradient]:
        """C as in `noisy_gram`, and the function that turns S = ααᵀ − C⁻¹ into derivatives.

        That function takes S (m, m), symmetric, and the jitter that factorising C took (a multiple
        of its mean diagonal); it returns ½ Σ_ij S_ij ∂C_ij/∂θ in the order of `kernel.theta`.
        """
        gram, signal_gradient = self._gram_with_gradient(X)

        def gradient(S: np.ndarray, jitter: float) -> np.ndarray:
            trace = float(np.trace(S))
            signal = iter(signal_gradient(S, trace * (jitter + self._tiny_diagonal)))
            return np.concatenate(
                [
                    np.full(term.n_dims, 0.5 * term.noise_level * (1.0 + jitter) * trace)
                    if isinstance(term, WhiteKernel)
                    else next(signal)
                    for term in self._terms
                ]
            )

        return self._add_noise(gram), gradient

    def vanishes(self, X: np.ndarray, Z: np.ndarray) -> bool:
        """Whether k(X, Z) is zero to rounding throughout, where that can be told without computing it."""
        return False

    @property
    def _tiny_diagonal(self) -> float:
        return 0.0 if self.noise_variance else _TINY_DIAGONAL

    def _add_noise(self, gram: np.ndarray) -> np.ndarray:
        """Add σ² to the diagonal; a noise-free kernel gets a tiny multiple of its mean instead."""
        diagonal = np.einsum("ii->i", gram)
        diagonal += self.noise_variance + self._tiny_diagonal * float(diagonal.mean())
        return gram

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
    def length_scale(self, n_features: int) -> np.ndarray:
        """One length scale per input, shape (n_features,); 1 where the kernel has none."""

    @abstractmethod
    def _gram_with_gradient(self, X: np.ndarray) -> tuple[np.ndarray, SignalGradient]:
        """k(X, X), and a function of S and t that yields, for each signal term in turn, ½ Σ S_ij ∂K_ij/∂θ
        + ½ t ∂mean(diag K)/∂θ.
        """


class GenericCovariance(Covariance):
    """Any scikit-learn kernel, evaluated by the kernel itself."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        signal = self._signal_terms[0]
        for term in self._signal_terms[1:]:
            signal = Sum(signal, term)
        self._signal = signal

    def __call__(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        return np.array(self._signal(X, Z), dtype=float, order="C")

    def gram(self, X: np.ndarray) -> np.ndarray:
        gram = np.array(self._signal(X), dtype=float, order="C")
        # Some kernels are symmetric only to rounding; one triangle decides.
        return np.tril(gram) + np.tril(gram, -1).T

    def prior_variance(self, X: np.ndarray) -> np.ndarray:
        return np.maximum(self._signal.diag(X), _LEAST_VARIANCE)

    def length_scale(self, n_features: int) -> np.ndarray:
        return np.ones(n_features)

    def _gram_with_gradient(self, X: np.ndarray) -> tuple[np.ndarray, SignalGradient]:
        def signal_gradient(S: np.ndarray, t: float) -> Iterator[np.ndarray]:
            for term in self._signal_terms:
                _, slopes = term(X, eval_gradient=True)
                mean_diagonal = np.einsum("iik->k", slopes) / len(X)
                yield 0.5 * (np.einsum("ij,ijk->k", S, slopes) + t * mean_diagonal)

        return self.gram(X), signal_gradient


def terms_of(kernel: Kernel) -> Iterator[Kernel]:
    """Yield the terms of the top-level sum, in the order in which `theta` lists them."""
    if isinstance(kernel, Sum):
        yield from terms_of(kernel.k1)
        yield from terms_of(kernel.k2)
    else:
        yield kernel

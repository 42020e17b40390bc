"""Any scikit-learn kernel, evaluated by the kernel itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.gaussian_process.kernels import Kernel, Sum

from gpexperts.kernels.base import Covariance, SignalGradient

__all__ = ["GenericCovariance"]

_LEAST_VARIANCE = 1e-100
"""Lower limit of the prior variance. A kernel such as x xᵀ has none at 0, and correlations would be 0/0."""


def _has_several_scales(kernel: Kernel) -> bool:
    return any(np.size(v) > 1 for name, v in kernel.get_params().items() if name.endswith("length_scale"))


class GenericCovariance(Covariance):
    """Any scikit-learn kernel, evaluated by the kernel itself."""

    def __init__(self, kernel: Kernel, scale_index: np.ndarray | None = None) -> None:
        super().__init__(kernel, scale_index)
        if scale_index is not None and _has_several_scales(kernel):
            raise ValueError(
                f"The kernel {kernel} has one length scale per input, but some inputs encode categories or "
                "dates with several columns. Only constant × RBF, Matern or RationalQuadratic "
                "+ noise can share length scales; otherwise give one length scale for all inputs."
            )
        signal = self._signal_terms[0]
        for term in self._signal_terms[1:]:
            signal = Sum(signal, term)
        self._signal = signal

    def __call__(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        return np.array(self._signal(X, Z), dtype=float, order="C")

    def gram(self, X: np.ndarray) -> np.ndarray:
        gram = np.array(self._signal(X), dtype=float, order="C")
        # Some kernels are symmetric only to rounding: the lower triangle is used for both.
        return np.tril(gram) + np.tril(gram, -1).T

    def prior_variance(self, X: np.ndarray) -> np.ndarray:
        return np.maximum(self._signal.diag(X), _LEAST_VARIANCE)

    def metric(self, spread: np.ndarray) -> np.ndarray:
        return np.array(spread, dtype=float)

    def gram_with_gradient(self, X: np.ndarray) -> tuple[np.ndarray, SignalGradient]:
        def signal_gradient(S: np.ndarray, t: float) -> Iterator[np.ndarray]:
            for term in self._signal_terms:
                _, slopes = term(X, eval_gradient=True)
                mean_diagonal = np.einsum("iik->k", slopes) / len(X)
                yield 0.5 * (np.einsum("ij,ijk->k", S, slopes) + t * mean_diagonal)

        return self.gram(X), signal_gradient

"""scikit-learn kernels, split into signal and noise, and evaluated fast where their form allows it.

A kernel is written in scikit-learn's language. :func:`covariance_of` splits its top-level sum into
the WhiteKernel terms, whose levels add up to the noise variance σ², and the rest, the signal k(x, x').
Two classes then evaluate k and the derivatives of a likelihood:

`StationaryCovariance`
    (constant ×) RBF, Matérn 1/2, 3/2, 5/2 with one length scale per input, or RationalQuadratic:
    matrix products only, never an m × m × d array.
`GenericCovariance`
    any other kernel, through its own `eval_gradient`.

The derivative with respect to hyperparameter t of L = log p(y | X), for C = K + σ²I and α = C⁻¹y, is
½ Σ_ij S_ij ∂C_ij/∂t with S = ααᵀ − C⁻¹: callers hand in S and get the derivatives in the order of
`kernel.theta`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Kernel,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from gpexperts.standardize import Standardizer

__all__ = [
    "NAMED_KERNELS",
    "Covariance",
    "candidate_kernels",
    "covariance_of",
    "hyperparameter_names",
    "named_kernel",
]

Gradient = Callable[[np.ndarray, float], np.ndarray]
SignalGradient = Callable[[np.ndarray, float], Iterator[np.ndarray]]

_TINY_DIAGONAL = 1e-10
"""Added to a noise-free kernel's diagonal, relative to its mean; scikit-learn's `alpha`."""


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
        self._terms = list(_terms(kernel))
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


# ------------------------------------------------------------------------------------ stationary


class _Profile(NamedTuple):
    """A stationary correlation f as a function of the squared scaled distance ρ².

    The derivative with respect to the log of length scale l_k is W ∘ (z_k − z'_k)², where
    W = −f'(ρ)/ρ and z = x / l.
    """

    correlation: Callable[[np.ndarray, float], np.ndarray]
    """(ρ², α) ↦ f; may overwrite ρ²."""
    with_slope: Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]]
    """(ρ², α) ↦ (f, W); leaves ρ² alone."""
    reach: float
    """f is below 1e-20 for every ρ larger than this; infinite if f has a heavy tail."""


def _rbf(sq: np.ndarray, _: float) -> np.ndarray:
    sq *= -0.5
    return np.exp(sq, out=sq)


def _rbf_with_slope(sq: np.ndarray, _: float) -> tuple[np.ndarray, np.ndarray]:
    f = _rbf(sq.copy(), _)
    return f, f


def _matern12(sq: np.ndarray, _: float) -> np.ndarray:
    rho = np.sqrt(sq, out=sq)
    np.negative(rho, out=rho)
    return np.exp(rho, out=rho)


def _matern12_with_slope(sq: np.ndarray, _: float) -> tuple[np.ndarray, np.ndarray]:
    rho = np.sqrt(sq)
    f = np.exp(-rho)
    # W = exp(−ρ)/ρ has a pole at ρ = 0, where it multiplies (z − z')² = 0: the product tends to 0.
    rho[rho == 0] = np.inf
    return f, f / rho


def _matern32(sq: np.ndarray, _: float) -> np.ndarray:
    a = _sqrt_scaled(sq, 3.0)
    f = np.exp(-a)
    a += 1.0
    a *= f
    return a


def _matern32_with_slope(sq: np.ndarray, _: float) -> tuple[np.ndarray, np.ndarray]:
    a = _sqrt_scaled(sq.copy(), 3.0)
    w = np.exp(-a)
    a += 1.0
    a *= w
    w *= 3.0
    return a, w


def _matern52(sq: np.ndarray, _: float) -> np.ndarray:
    f = sq * (5.0 / 3.0)
    a = _sqrt_scaled(sq, 5.0)
    f += a
    f += 1.0
    np.negative(a, out=a)
    f *= np.exp(a, out=a)
    return f


def _matern52_with_slope(sq: np.ndarray, _: float) -> tuple[np.ndarray, np.ndarray]:
    a = _sqrt_scaled(sq.copy(), 5.0)
    w = np.exp(-a)
    f = sq * (5.0 / 3.0)
    a += 1.0
    f += a
    f *= w
    w *= a
    w *= 5.0 / 3.0
    return f, w


def _rational_quadratic(sq: np.ndarray, alpha: float) -> np.ndarray:
    sq /= 2.0 * alpha
    sq += 1.0
    return np.power(sq, -alpha, out=sq)


def _rational_quadratic_with_slope(sq: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    f = _rational_quadratic(sq.copy(), alpha)
    return f, f / (1.0 + sq / (2.0 * alpha))


def _sqrt_scaled(sq: np.ndarray, factor: float) -> np.ndarray:
    """√(factor · ρ²), in place."""
    sq *= factor
    return np.sqrt(sq, out=sq)


_PROFILES: dict[str, _Profile] = {
    "rbf": _Profile(_rbf, _rbf_with_slope, 9.6),
    "matern12": _Profile(_matern12, _matern12_with_slope, 46.1),
    "matern32": _Profile(_matern32, _matern32_with_slope, 29.0),
    "matern52": _Profile(_matern52, _matern52_with_slope, 24.0),
    "rational_quadratic": _Profile(_rational_quadratic, _rational_quadratic_with_slope, np.inf),
}


class StationaryCovariance(Covariance):
    """s² f(|x − x'| in units of the length scales), all of it by matrix products."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        (term,) = self._signal_terms
        self._factors = [term.k1, term.k2] if isinstance(term, Product) else [term]
        constants = [f for f in self._factors if isinstance(f, ConstantKernel)]
        (self._shape,) = [f for f in self._factors if not isinstance(f, ConstantKernel)]
        self.signal_variance = float(np.prod([c.constant_value for c in constants]))
        self._profile = _PROFILES[_profile_name(self._shape)]
        self._alpha = float(getattr(self._shape, "alpha", 1.0))

    @property
    def reach(self) -> float:
        """Distance, in length scales, beyond which the correlation is below 1e-20."""
        return self._profile.reach

    def length_scale(self, n_features: int) -> np.ndarray:
        return np.broadcast_to(np.asarray(self._shape.length_scale, dtype=float), (n_features,)).copy()

    def prior_variance(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.signal_variance)

    def __call__(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        scale = self._shape.length_scale
        X, Z = X / scale, Z / scale
        centre = Z.mean(axis=0) if len(Z) else 0.0
        return self._scaled(
            self._profile.correlation(_squared_distances(X - centre, Z - centre), self._alpha)
        )

    def gram(self, X: np.ndarray) -> np.ndarray:
        return self._scaled(self._profile.correlation(self._squared_gram(X)[0], self._alpha))

    def _scaled(self, f: np.ndarray) -> np.ndarray:
        if self.signal_variance != 1.0:
            f *= self.signal_variance
        return f

    def _squared_gram(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        Z = X / self._shape.length_scale
        Z -= Z.mean(axis=0)
        sq = _squared_distances(Z, Z)
        np.fill_diagonal(sq, 0.0)
        return sq, Z

    def _gram_with_gradient(self, X: np.ndarray) -> tuple[np.ndarray, SignalGradient]:
        s2, alpha = self.signal_variance, self._alpha
        sq, Z = self._squared_gram(X)
        f, W = self._profile.with_slope(sq, alpha)

        def signal_gradient(S: np.ndarray, t: float) -> Iterator[np.ndarray]:
            pieces = [np.empty(0)]
            for factor in self._factors:
                if factor.n_dims == 0:  # every hyperparameter of this factor is fixed
                    continue
                if isinstance(factor, ConstantKernel):
                    pieces.append(np.array([0.5 * s2 * (_inner(S, f) + t)]))
                    continue
                if isinstance(factor, RationalQuadratic) and not factor.hyperparameter_alpha.fixed:
                    base = 1.0 + sq / (2.0 * alpha)
                    slope = alpha * f * (sq / (2.0 * alpha * base) - np.log(base))
                    pieces.append(np.array([0.5 * s2 * _inner(S, slope)]))
                if not factor.hyperparameter_length_scale.fixed:
                    # G = S ∘ W:  ½ Σ_ij G_ij (z_ik − z_jk)² = Σ_i (G1)_i z_ik² − Σ_i z_ik (GZ)_ik.
                    G = S * W
                    per_input = G.sum(axis=0) @ Z**2 - np.einsum("ik,ik->k", Z, G @ Z)
                    isotropic = np.size(factor.length_scale) == 1
                    pieces.append(s2 * (per_input.sum(keepdims=True) if isotropic else per_input))
            yield np.concatenate(pieces)

        return s2 * f, signal_gradient


def _squared_distances(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """|x − z|² for all pairs, (len(X), len(Z)), as one matrix product; never negative."""
    sq = X @ (-2.0 * Z.T)
    sq += np.einsum("ij,ij->i", X, X)[:, None]
    sq += np.einsum("ij,ij->i", Z, Z)
    return np.maximum(sq, 0.0, out=sq)


def _inner(A: np.ndarray, B: np.ndarray) -> float:
    return float(np.vdot(A, B))


# --------------------------------------------------------------------------------------- generic


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
        return np.array(self._signal.diag(X), dtype=float)

    def length_scale(self, n_features: int) -> np.ndarray:
        return np.ones(n_features)

    def _gram_with_gradient(self, X: np.ndarray) -> tuple[np.ndarray, SignalGradient]:
        def signal_gradient(S: np.ndarray, t: float) -> Iterator[np.ndarray]:
            for term in self._signal_terms:
                _, slopes = term(X, eval_gradient=True)
                mean_diagonal = np.einsum("iik->k", slopes) / len(X)
                yield 0.5 * (np.einsum("ij,ijk->k", S, slopes) + t * mean_diagonal)

        return self.gram(X), signal_gradient


# --------------------------------------------------------------------------------------- reading


def covariance_of(kernel: Kernel) -> Covariance:
    """Return the fastest :class:`Covariance` that evaluates a scikit-learn kernel.

    Raises
    ------
    ValueError
        If the kernel has no signal, only noise.
    """
    signal = [t for t in _terms(kernel) if not isinstance(t, WhiteKernel)]
    if not signal:
        raise ValueError(
            f"The kernel {kernel} is nothing but noise; add a signal, as in 1.0 * RBF() + WhiteKernel()."
        )
    if len(signal) == 1 and _is_stationary(signal[0]):
        return StationaryCovariance(kernel)
    return GenericCovariance(kernel)


def _terms(kernel: Kernel) -> Iterator[Kernel]:
    """Yield the terms of the top-level sum, in the order in which `theta` lists them."""
    if isinstance(kernel, Sum):
        yield from _terms(kernel.k1)
        yield from _terms(kernel.k2)
    else:
        yield kernel


def _is_stationary(term: Kernel) -> bool:
    factors = [term.k1, term.k2] if type(term) is Product else [term]
    shapes = [f for f in factors if type(f) is not ConstantKernel]
    return len(shapes) == 1 and _profile_name(shapes[0]) is not None


def _profile_name(shape: Kernel) -> Any:
    # type(), not isinstance: a user's subclass may override what we would compute ourselves.
    if type(shape) is RBF:
        return "rbf"
    if type(shape) is RationalQuadratic:
        return "rational_quadratic"
    if type(shape) is Matern:
        return {0.5: "matern12", 1.5: "matern32", 2.5: "matern52", np.inf: "rbf"}.get(shape.nu)
    return None


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


# ----------------------------------------------------------------------------------------- names

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

"""Functions drawn from the posterior, by Matheron's rule.

With f_0 a draw from the prior and ε the noise of the training rows, the function

    f(x) = f_0(x) + w(x)ᵀ (y − f_0(X) − ε)

has the mean of `predict`, and its errors have the covariance of :mod:`gpexperts.joint.covariance`. Only rows
that have a weight are evaluated. f_0 and ε are fixed when the functions are drawn: a function has one value
at every point, whatever the other points of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from scipy.sparse import csc_array
from sklearn.utils import check_random_state

from gpexperts.engines import ThreadEngine
from gpexperts.joint.weights import (
    LinearPredictions,
    check_linear,
    linear_batches,
    most_entries,
    row_noise,
)
from gpexperts.kernels.spectral import draw_prior, has_fourier_features
from gpexperts.predictor import Predictor
from gpexperts.trend.sparse import SparseGP

__all__ = ["DrawnFunctions", "Draws", "draw", "sampled"]

FREQUENCIES = 1024
_TOGETHER = 4096
"""Functions, of all outputs, that are drawn together for samples."""
_NOISE_ROWS = 256
"""Rows whose noise is drawn together, so that the noise of a row does not depend on the other rows."""
_GROUP, _PIECE = 2**21, 2048
"""Residuals that are kept at the same time, and rows of a piece of work."""


def draw(predictor: Predictor, n_functions: int, random_state: Any) -> Draws:
    """Draw functions from the posterior of a predictor.

    Raises
    ------
    ValueError
        If the aggregation or the kernel does not allow it.
    """
    check_linear(predictor, "Drawing functions")
    covariance = predictor.model.covariance
    if not has_fourier_features(covariance):
        raise ValueError(
            f"Functions cannot be drawn for the kernel {covariance.kernel}: it has no Fourier features here. "
            "Use (constant ×) RBF, Matern with nu 0.5, 1.5 or 2.5, or RationalQuadratic, plus WhiteKernel; "
            "or draw from predict(X, return_cov=True) with numpy's multivariate_normal."
        )
    seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    return Draws(predictor, n_functions, seed)


def sampled(
    predictor: Predictor, X: np.ndarray, n_samples: int, random_state: Any, *, latent: bool
) -> np.ndarray:
    """Values (n, p, n_samples) of drawn functions at X (n, d), both in the user's units.

    Functions are drawn a few thousand at a time, so that only the values of all of them are in memory.

    Parameters
    ----------
    predictor : Predictor
    X : ndarray of shape (n, d)
    n_samples : int
    random_state : int, RandomState or None
    latent : bool
        Whether they are values of the noise-free functions instead of observations.
    """
    random_state = check_random_state(random_state)
    step, pieces = max(1, _TOGETHER // predictor.model.n_outputs), []
    for start in range(0, n_samples, step):
        draws = draw(predictor, min(step, n_samples - start), random_state)
        noise = None if latent else np.random.default_rng(random_state.randint(np.iinfo(np.int32).max))
        pieces.append(draws.values(X, noise=noise))
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=2)


class Draws:
    """Functions drawn from the posterior; they do not change when the estimator is fitted again.

    Parameters
    ----------
    predictor : Predictor
    n_functions : int
        S.
    seed : int
    """

    def __init__(self, predictor: Predictor, n_functions: int, seed: int) -> None:
        self.predictor, self.n_functions, self.seed = predictor, n_functions, seed
        model = predictor.model
        self.prior = draw_prior(
            model.covariance,
            n_functions * model.n_outputs,
            FREQUENCIES,
            model.centroids.mean(axis=0),
            np.random.default_rng([seed, 0]),
        )
        trend = model.trend
        sparse = None if trend is None else trend.sparse
        self.trend = None if sparse is None else TrendDraws(sparse, n_functions, [seed, 2])

    def values(self, X: np.ndarray, *, noise: np.random.Generator | None = None) -> np.ndarray:
        """Values (n, p, S) at queries X (n, d), both in the user's units.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        noise : Generator, optional
            Draws observations instead: noise is added, and the corrections of the variance apply.
        """
        model, formula = self.predictor.model, self.predictor.formula
        errors: np.ndarray | float = 0.0
        trend_values = None
        if self.trend is not None and model.trend is not None:
            errors, *moments = self.trend(X)
            trend_values = model.trend.uncertain(*moments)
        X, added = formula.inputs(X, trend_values)
        n, p, S = len(X), model.n_outputs, self.n_functions
        values = np.empty((n, p, S))
        per_query = 32 * most_entries(self.predictor) + 16 * p * S
        step = max(16, self.predictor.settings.work_budget // per_query)
        noise_std = np.empty((n, p))
        for some, linear in linear_batches(self.predictor, X, step):
            f = self._latent(linear).reshape(len(linear.X), p, S)
            if noise is not None:
                mean, factor = linear.mean[:, :, None], np.sqrt(linear.correction)
                contained = added.contained[some] / (linear.correction * model.y_scale.scale**2)
                noise_std[some] = factor * np.sqrt(np.maximum(formula.noise_variance - contained, 0.0))
                f = mean + factor[:, :, None] * (f - mean)
            values[some] = f
        if noise is not None:
            for start in range(0, n, step):
                part = slice(start, start + step)
                values[part] += noise_std[part, :, None] * noise.standard_normal(values[part].shape)
        values *= model.y_scale.scale[:, None]
        values += (model.y_scale.shift + np.broadcast_to(added.mean, (n, p)))[:, :, None] + errors
        if model.target is not None:
            for s in range(S):
                values[:, :, s] = model.target.inverse(values[:, :, s])
        return values

    def _latent(self, linear: LinearPredictions) -> np.ndarray:
        """Values (n, p · S) of the noise-free functions, in the units of the experts."""
        engine = ThreadEngine(self.predictor.settings["n_jobs"])
        S, columns = self.n_functions, csc_array(linear.weights)
        inputs, targets, noise = linear.rows()
        std = np.sqrt(row_noise(linear.covariance, noise))

        def residuals(some: slice) -> np.ndarray:
            y = np.repeat(targets[some], S, axis=1)
            return y - self.prior(inputs[some]) - self._noise(linear.positions[some]) * std[some, None]

        f = np.concatenate(engine.map(lambda some: self.prior(linear.X[some]), _pieces(0, len(linear.X))))
        step = max(_PIECE, _GROUP // f.shape[1])
        for start in range(0, len(inputs), step):
            stop = min(start + step, len(inputs))
            f += columns[:, start:stop] @ np.concatenate(engine.map(residuals, _pieces(start, stop)))
        return f

    def _noise(self, positions: np.ndarray) -> np.ndarray:
        """Standard normal noise of training rows at ascending positions, (u, p · S)."""
        width = self.prior.coefficients.shape[1]
        noise = np.empty((len(positions), width))
        block = positions // _NOISE_ROWS
        first = np.flatnonzero(np.diff(block, prepend=-1))
        for start, stop in zip(first, [*first[1:], len(positions)], strict=True):
            b = int(block[start])
            drawn = np.random.default_rng([self.seed, 1, b]).standard_normal((width, _NOISE_ROWS))
            noise[start:stop] = drawn[:, positions[start:stop] - b * _NOISE_ROWS].T
        return noise


def _pieces(start: int, stop: int) -> list[slice]:
    return [slice(at, min(at + _PIECE, stop)) for at in range(start, max(stop, start + 1), _PIECE)]


class TrendDraws:
    """Errors of a trend that is a sparse GP, drawn from its posterior.

    With f_0 a draw from its prior and z standard normal, v the features of a point and A as in
    `gpexperts.trend.sparse`, f_0(x) − v(x)ᵀ L⁻¹ f_0(Z) + v(x)ᵀ A^(−½) z has the posterior covariance.

    Parameters
    ----------
    sparse : SparseGP
    n_functions : int
    seed : list of int
    """

    def __init__(self, sparse: SparseGP, n_functions: int, seed: list[int]) -> None:
        self.sparse, points, rng = sparse, sparse.points, np.random.default_rng(seed)
        self.prior = draw_prior(points.covariance, n_functions, FREQUENCIES, points.Z.mean(axis=0), rng)
        self.known = points.whitened(self.prior(points.Z))
        self.unknown = rng.standard_normal((len(points.Z), n_functions))

    def __call__(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Errors (n, 1, S) at inputs X (n, d), in the units of the target, and mean and variance (n,)."""
        mean, var = np.empty(len(X)), np.empty(len(X))
        errors = np.empty((len(X), 1, self.unknown.shape[1]))
        for some in self.sparse.features(X):
            mean[some.rows], var[some.rows] = self.sparse.moments_of(some)
            posterior = some.conditioned.T @ self.unknown - some.v.T @ self.known
            errors[some.rows, 0] = self.prior(some.X) + posterior
        return errors * np.sqrt(self.sparse.variance_unit), mean, var


class DrawnFunctions(Sequence["DrawnFunctions"]):
    """Noise-free functions drawn from the posterior, to be called with inputs.

    ``functions(X)`` evaluates all of them, ``functions[0](X)`` the first one, which costs almost as much.

    Parameters
    ----------
    draws : Draws
    chosen : ndarray of int
        Which of the drawn functions.
    check : callable
        Checks inputs as `predict` does.
    """

    def __init__(self, draws: Draws, chosen: np.ndarray, check: Any, *, one: bool = False) -> None:
        self._draws, self._chosen, self._check, self._one = draws, chosen, check, one

    def __call__(self, X: Any) -> np.ndarray:
        """Evaluate the functions at X (n, d).

        Returns
        -------
        values : ndarray of shape (n, n_functions) or (n, n_outputs, n_functions)
            Without the last axis for a single function.
        """
        values = self._draws.values(self._check(X))[:, :, self._chosen]
        if self._draws.predictor.model.one_output:
            values = values[:, 0]
        return values[..., 0] if self._one else values

    def __len__(self) -> int:
        return len(self._chosen)

    def __repr__(self) -> str:
        return f"DrawnFunctions(n_functions={len(self)})"

    @overload
    def __getitem__(self, at: int) -> DrawnFunctions: ...
    @overload
    def __getitem__(self, at: slice) -> DrawnFunctions: ...
    def __getitem__(self, at: int | slice) -> DrawnFunctions:
        one = not isinstance(at, slice)
        return DrawnFunctions(self._draws, np.atleast_1d(self._chosen[at]), self._check, one=one)

"""Which inputs matter, and how: effect curves and permutation importance, on predictions of the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpexperts import inspection
from gpexperts.inspection import ModelColumn

__all__ = ["Effect", "Importance", "effect", "importance", "most_relevant"]

_MAX_LEVELS = 20
"""Levels of a category for which an effect is computed."""
_BAND = (0.1, 0.9)
"""Quantiles of the rows between which the band of an effect lies."""


@dataclass(frozen=True)
class Effect:
    """Predictions as one input varies and the others keep their values in each of some rows."""

    name: str
    values: list[Any]
    """The values of the input: numbers, or levels."""
    mean: np.ndarray
    """(k,) averaged over the rows (partial dependence)."""
    low: np.ndarray
    """(k,) the lower end of the band: 10 % of the rows are below. Its width shows interactions."""
    high: np.ndarray
    """(k,) the upper end of the band: 10 % of the rows are above."""


@dataclass(frozen=True)
class Importance:
    """Permutation importance of one input."""

    name: str
    increase: float
    """Increase of the root mean squared error if the values of this input are shuffled among the rows."""
    std: float
    """Standard deviation over the shuffles."""


def effect(model: Any, column: ModelColumn, X: np.ndarray, *, n_points: int = 25) -> Effect:
    """Compute the effect of one input.

    Parameters
    ----------
    model : DistributedGPRegressor
        Fitted to one target.
    column : ModelColumn
        Of `inspection.model_columns`.
    X : ndarray of shape (n, d)
        The rows to average over, encoded as numbers.
    n_points : int
        Values of a number, between its 1 % and 99 % quantiles in X.
    """
    values, codes = _varied(column, X, n_points)
    k, n = len(values), len(X)
    Z = np.tile(X, (k, 1))
    Z[:, column.inputs] = np.repeat(codes, n, axis=0)
    mean = predicted(model, Z).reshape(k, n)
    low, high = np.quantile(mean, _BAND, axis=1)
    return Effect(column.name, values, mean.mean(axis=1), low, high)


def importance(
    model: Any,
    X: np.ndarray,
    y: np.ndarray,
    *,
    columns: list[ModelColumn] | None = None,
    n_repeats: int = 3,
    random_state: int = 0,
) -> list[Importance]:
    """Compute the permutation importance of all inputs, the largest first.

    Parameters
    ----------
    model : DistributedGPRegressor
        Fitted to one target.
    X : ndarray of shape (n, d)
        Encoded as numbers.
    y : ndarray of shape (n,)
        Observed targets.
    columns : list of ModelColumn, optional
        The inputs; all by default.
    n_repeats : int
        Shuffles of each input.
    random_state : int
    """
    rng = np.random.default_rng(random_state)
    base = _rmse(y, predicted(model, X))
    results = []
    for column in inspection.model_columns(model) if columns is None else columns:
        errors = []
        for _ in range(n_repeats):
            Z = X.copy()
            Z[:, column.inputs] = X[rng.permutation(len(X))][:, column.inputs]
            errors.append(_rmse(y, predicted(model, Z)))
        results.append(Importance(column.name, float(np.mean(errors)) - base, float(np.std(errors))))
    return sorted(results, key=lambda one: -one.increase)


def most_relevant(model: Any, n: int) -> list[ModelColumn]:
    """Return at most n inputs: those whose training values vary most, in units of their length scales."""
    ratios = inspection.scale_spreads(model, inspection.training_inputs(model)) / inspection.length_scales(
        model
    )
    largest: dict[int, float] = {}
    columns = inspection.model_columns(model)
    scales = iter(ratios.tolist())
    for k, column in enumerate(columns):
        largest[k] = max(next(scales) for _ in column.column.parts)
    return [columns[k] for k in sorted(largest, key=lambda k: -largest[k])[:n]]


def predicted(model: Any, X: np.ndarray) -> np.ndarray:
    """Return means (n,) for encoded rows, whose names need no check."""
    predict: Callable[..., Any] = model.predictor_.predict
    mean, _ = predict(X, return_std=False, latent=False)
    return np.asarray(mean[:, 0])


def _varied(column: ModelColumn, X: np.ndarray, n_points: int) -> tuple[list[Any], np.ndarray]:
    """The values of an input, and their codes (k, width)."""
    codes, at = np.unique(X[:, column.inputs], axis=0, return_inverse=True)
    if column.kind == "number" and len(codes) > n_points and not column.column.gaps:
        low, high = np.quantile(X[:, column.inputs], [0.01, 0.99])
        grid = np.linspace(low, high, n_points)
        return grid.tolist(), grid[:, None]
    if column.kind in ("number", "date"):  # values of the rows, evenly spaced in their order
        known = np.flatnonzero([value is not None for value in column.column.decode(codes)])
        codes = codes[known[np.linspace(0, len(known) - 1, min(len(known), n_points)).astype(int)]]
    else:
        codes = codes[np.sort(np.argsort(-np.bincount(at.ravel()), kind="stable")[:_MAX_LEVELS])]
    values = column.column.decode(codes)
    return ["missing" if value is None else value for value in values], codes


def _rmse(y: np.ndarray, mean: np.ndarray) -> float:
    return float(np.sqrt(np.mean((y - mean) ** 2)))

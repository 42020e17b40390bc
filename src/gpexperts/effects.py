"""Which inputs matter, and how: effect curves and permutation importance, on predictions of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpexperts import inspection
from gpexperts.inspection import ModelColumn

__all__ = ["Effect", "Importance", "effect", "effects", "importance", "most_relevant"]

_MAX_LEVELS = 20
"""Levels of a category for which an effect is computed."""
_FEW = 10
"""Values of a number up to which the effect is computed at these."""
_MOST = 40
"""Inputs that are compared by shuffling them."""
_ROWS = 100
"""Rows among which they are shuffled."""
_CYCLES: dict[str, tuple[Sequence[Any], np.ndarray]] = {
    "hour": (list(range(24)), np.arange(24) / 24),
    "weekday": (("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), np.arange(7) / 7),
    "season": (
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
        (np.arange(12) + 0.5) / 12,
    ),
}
"""Cycle ↦ the values that are shown, and their places in it, as shares."""
_BAND = (0.1, 0.9)
"""Quantiles of the rows between which the band of an effect lies."""


@dataclass(frozen=True)
class Effect:
    """Predictions as one input varies and the others keep their values in each of some rows."""

    name: str
    values: list[Any]
    """The values of the input: numbers, levels, or dates as ISO 8601."""
    mean: np.ndarray
    """(k,) averaged over the rows (partial dependence)."""
    low: np.ndarray
    """(k,) the lower end of the band: 10 % of the rows are below. Its width shows interactions."""
    high: np.ndarray
    """(k,) the upper end of the band: 10 % of the rows are above."""
    dates: bool = False
    """Whether the values are dates."""


@dataclass(frozen=True)
class Importance:
    """Permutation importance of one input."""

    name: str
    increase: float
    """Increase of the root mean squared error if the values of this input are shuffled among the rows."""
    std: float
    """Standard deviation over the shuffles."""


def effect(
    model: Any, column: ModelColumn, X: np.ndarray, *, n_points: int = 25, cycle: str | None = None
) -> Effect:
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
        Values of a number or a date, between the 1 % and 99 % quantiles in X.
    cycle : {"hour", "weekday", "season"}, optional
        Vary this cycle of a date and keep the elapsed time of each row. By default the elapsed time varies,
        and each row keeps its place in the cycles.
    """
    if column.kind == "date":
        known = [value is not None for value in column.column.decode(X[:, column.inputs])]
        X = X[known] if any(known) else X
    values, codes, inputs = _varied(column, X, n_points, cycle)
    k, n = len(values), len(X)
    Z = np.tile(X, (k, 1))
    Z[:, inputs] = np.repeat(codes, n, axis=0)
    mean = predicted(model, Z).reshape(k, n)
    low, high = np.quantile(mean, _BAND, axis=1)
    name = column.name if cycle is None else f"{column.name} ({cycle})"
    return Effect(name, values, mean.mean(axis=1), low, high, column.kind == "date" and cycle is None)


def effects(model: Any, columns: list[ModelColumn], X: np.ndarray, *, n_points: int = 25) -> list[Effect]:
    """Compute the effects of several inputs; of a date, also those of its cycles.

    Parameters
    ----------
    model : DistributedGPRegressor
        Fitted to one target.
    columns : list of ModelColumn
    X : ndarray of shape (n, d)
        The rows to average over, encoded as numbers.
    n_points : int
        Values of a number or a date.
    """
    cycles = [(column, cycle) for column in columns for cycle in (None, *column.column.cycles)]
    return [effect(model, column, X, n_points=n_points, cycle=cycle) for column, cycle in cycles]


def importance(
    model: Any,
    X: np.ndarray,
    y: np.ndarray,
    *,
    columns: list[ModelColumn] | None = None,
    n_repeats: int = 3,
    random_state: int = 0,
) -> list[Importance]:
    """Compute the permutation importance of inputs, the largest first.

    Parameters
    ----------
    model : DistributedGPRegressor
        Fitted to one target.
    X : ndarray of shape (n, d)
        Encoded as numbers.
    y : ndarray of shape (n,)
        Observed targets.
    columns : list of ModelColumn, optional
        The inputs; by default all, or of more than 40 those with the shortest length scales.
    n_repeats : int
        Shuffles of each input.
    random_state : int
    """
    rng = np.random.default_rng(random_state)
    base = _rmse(y, predicted(model, X))
    results = []
    for column in _compared(model) if columns is None else columns:
        errors = []
        for _ in range(n_repeats):
            Z = X.copy()
            Z[:, column.inputs] = X[rng.permutation(len(X))][:, column.inputs]
            errors.append(_rmse(y, predicted(model, Z)))
        results.append(Importance(column.name, float(np.mean(errors)) - base, float(np.std(errors))))
    return sorted(results, key=lambda one: -one.increase)


def most_relevant(model: Any, n: int, X: np.ndarray | None = None) -> list[ModelColumn]:
    """Return at most n inputs: those that change predictions most if their values are shuffled among rows.

    Parameters
    ----------
    model : DistributedGPRegressor
        Fitted to one target.
    n : int
    X : ndarray of shape (n_rows, d), optional
        Encoded as numbers; by default up to 100 training rows.
    """
    if X is None:
        X = inspection.training_inputs(model)
        X = X[np.linspace(0, len(X) - 1, min(len(X), _ROWS)).astype(int)]
    columns = {column.name: column for column in inspection.model_columns(model)}
    if len(columns) == 1:
        return list(columns.values())
    changes = importance(model, X, predicted(model, X), n_repeats=1)
    return [columns[one.name] for one in changes[:n]]


def _compared(model: Any) -> list[ModelColumn]:
    """Return the inputs that are compared: all, or of more than 40 those with the shortest length scales."""
    columns = inspection.model_columns(model)
    spreads = inspection.scale_spreads(model, inspection.training_inputs(model))
    scales = iter((spreads / inspection.length_scales(model)).tolist())
    largest = [max(next(scales) for _ in column.column.parts) for column in columns]
    order = sorted(range(len(columns)), key=lambda k: -largest[k])
    return [columns[k] for k in sorted(order[:_MOST])]


def predicted(model: Any, X: np.ndarray) -> np.ndarray:
    """Return means (n,) for encoded rows, whose names need no check."""
    predict: Callable[..., Any] = model.predictor_.predict
    mean, _ = predict(X, return_std=False, latent=False)
    return np.asarray(mean[:, 0])


def _varied(
    column: ModelColumn, X: np.ndarray, n_points: int, cycle: str | None
) -> tuple[list[Any], np.ndarray, Any]:
    """The values of an input, their codes (k, w), and the positions of these codes among the inputs."""
    start = column.inputs.start
    if cycle is not None:
        k = column.column.cycles.index(cycle)
        shown, shares = _CYCLES[cycle]
        angle = 2.0 * np.pi * shares
        codes = np.stack([np.sin(angle), np.cos(angle)], axis=1)
        return list(shown), codes, slice(start + 1 + 2 * k, start + 3 + 2 * k)
    block = X[:, column.inputs]
    if column.kind in ("number", "date"):
        known = np.array([value is not None for value in column.column.decode(block)], dtype=bool)
        x = block[known, 0] if known.any() else np.array([column.column.fill])
        values = np.unique(x)
        if len(values) > _FEW:
            low, high = np.quantile(x, [0.01, 0.99])
            values = np.linspace(float(low), float(high), n_points)
        positions = [start, *([column.inputs.stop - 1] if column.column.gaps else [])]  # and no gap
        codes = np.zeros((len(values), len(positions)))
        codes[:, 0] = values
        return _written(column, values), codes, positions
    codes, at = np.unique(block, axis=0, return_inverse=True)
    codes = codes[np.sort(np.argsort(-np.bincount(at.ravel()), kind="stable")[:_MAX_LEVELS])]
    levels = column.column.decode(codes)
    return ["missing" if level is None else level for level in levels], codes, column.inputs


def _written(column: ModelColumn, values: np.ndarray) -> list[Any]:
    if column.kind == "number":
        return list(values.tolist())
    Z = np.zeros((len(values), column.column.width))
    Z[:, 0] = values
    return list(column.column.decode(Z))


def _rmse(y: np.ndarray, mean: np.ndarray) -> float:
    return float(np.sqrt(np.mean((y - mean) ** 2)))

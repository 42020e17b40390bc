"""Where the model fails: the worst rows, residuals over every input, and regions of large error."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from gpexperts import inspection

__all__ = ["date_text", "places_by_input", "regions", "residual_rows", "worst_rows"]

_MIN_RESIDUALS, _MAX_RESIDUALS = 200, 600
"""Rows of a plot of residuals."""
_MAX_VALUES = 20_000
"""Values of all inputs in these plots, if there are few enough inputs."""
_MAX_REGIONS = 4
_CLEARLY = 1.25
"""A region is shown if its error is that many times the error of all rows."""
_MAX_SHOWN = 5
"""Levels of a category in the description of a region."""


def worst_rows(z: np.ndarray, n: int) -> np.ndarray:
    """Return the numbers of the n rows with the largest standardised residuals z (n_rows,), worst first."""
    return np.argsort(-np.abs(z), kind="stable")[:n]


def residual_rows(n: int, n_inputs: int) -> np.ndarray:
    """Return the rows whose residuals are drawn: some hundred, fewer if there are many inputs."""
    most = int(np.clip(_MAX_VALUES // n_inputs, _MIN_RESIDUALS, _MAX_RESIDUALS))
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


def places_by_input(model: Any, X: np.ndarray) -> list[dict[str, Any]]:
    """Return the places of rows along each input, over which residuals are drawn.

    The places of categories are numbers, in the order of `levels`; dates are days, and `dates` writes some of
    them out. None is a gap.
    """
    found = []
    for column in inspection.model_columns(model):
        x, levels = _places(column, X)
        known = np.isfinite(x)
        found.append(
            {
                "name": column.name,
                "levels": levels,
                "dates": _written_out(column, x[known]),
                "x": [float(f"{v:.5g}") if np.isfinite(v) else None for v in x.tolist()],
            }
        )
    return found


def _written_out(column: Any, x: np.ndarray) -> list[list[Any]]:
    """Four evenly spaced places of a column of dates, and their dates."""
    if column.kind != "date" or not len(x):
        return []
    return [[float(at), date_text(column, at)] for at in np.linspace(x.min(), x.max(), 6)[1:-1]]


def _places(column: Any, X: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Numbers (n,) for the values of a column, NaN for gaps; and the levels of a category."""
    values = column.column.decode(X[:, column.inputs])
    if column.kind in ("number", "date"):
        first = X[:, column.inputs.start]
        return np.where([value is None for value in values], np.nan, first), []
    levels = sorted({str(value) for value in values if value is not None})
    place = {level: k for k, level in enumerate(levels)}
    return np.array([np.nan if v is None else place[str(v)] for v in values], dtype=float), levels


def regions(model: Any, X: np.ndarray, error: np.ndarray, inside: np.ndarray) -> list[dict[str, Any]]:
    """Find regions of the inputs with a large error, by a small regression tree.

    The tree predicts |error|, bounded by its 99 % quantile, so that a single outlier makes no region.

    Parameters
    ----------
    model : DistributedGPRegressor
    X : ndarray of shape (n, d)
        Encoded rows.
    error, inside : ndarray of shape (n,)

    Returns
    -------
    list of dict
        With `where` (text), `n`, `rmse` and `inside`, the largest errors first.
    """
    columns = inspection.model_columns(model)
    size = np.minimum(np.abs(error), np.quantile(np.abs(error), 0.99))
    inputs, orders = np.empty((len(X), len(columns))), []
    for k, column in enumerate(columns):
        x, levels = _places(column, X)
        if levels:  # in the order of their errors, so that a split is a set of levels
            means = [float(size[x == code].mean()) for code in range(len(levels))]
            order = np.argsort(means, kind="stable")
            x = np.where(np.isfinite(x), np.argsort(order)[np.nan_to_num(x).astype(int)], np.nan)
            levels = [levels[code] for code in order]
        inputs[:, k] = np.where(np.isfinite(x), x, np.inf if not levels else len(levels))
        orders.append(levels)
    inputs = np.where(np.isfinite(inputs), inputs, np.finfo(np.float32).max)  # gaps are last
    leaf = max(20, len(X) // 25)
    if len(X) < 2 * leaf:
        return []
    tree = DecisionTreeRegressor(max_depth=3, min_samples_leaf=leaf, random_state=0)
    leaves = tree.fit(inputs.astype(np.float32), size).apply(inputs.astype(np.float32))
    overall = float(np.sqrt(np.mean(error**2)))
    found: list[dict[str, Any]] = []
    for number, conditions in _leaves(tree.tree_).items():
        member = leaves == number
        rmse = float(np.sqrt(np.mean(error[member] ** 2)))
        alone = np.abs(error[member]).max() > np.sqrt(0.5 * member.sum()) * rmse  # one outlier
        if rmse > _CLEARLY * overall and conditions and not alone:
            found.append(
                {
                    "where": _described(conditions, columns, orders),
                    "n": int(member.sum()),
                    "rmse": rmse,
                    "inside": float(inside[member].mean()),
                }
            )
    return sorted(found, key=lambda region: -region["rmse"])[:_MAX_REGIONS]


Conditions = dict[int, tuple[float, float]]


def _leaves(tree: Any) -> dict[int, Conditions]:
    """For each leaf of a tree the limits (above, at most) of the inputs on the way to it."""
    found: dict[int, Conditions] = {}

    def visit(node: int, limits: Conditions) -> None:
        if tree.children_left[node] < 0:
            found[node] = limits
            return
        feature, threshold = int(tree.feature[node]), float(tree.threshold[node])
        low, high = limits.get(feature, (-np.inf, np.inf))
        visit(tree.children_left[node], {**limits, feature: (low, min(high, threshold))})
        visit(tree.children_right[node], {**limits, feature: (max(low, threshold), high)})

    visit(0, {})
    return found


def _described(conditions: Conditions, columns: list[Any], orders: list[list[str]]) -> str:
    return ", ".join(
        _condition(columns[k], orders[k], low, high) for k, (low, high) in sorted(conditions.items())
    )


def _condition(column: Any, levels: list[str], low: float, high: float) -> str:
    if levels:
        chosen = [level for code, level in enumerate(levels) if low < code <= high]
        shown = ", ".join(chosen[:_MAX_SHOWN]) + (", …" if len(chosen) > _MAX_SHOWN else "")
        return f"{column.name} is {shown or 'missing'}"
    ends = [_value(column, end) for end in (low, high)]
    if np.isinf(low):
        return f"{column.name} ≤ {ends[1]}"
    return f"{column.name} > {ends[0]}" if np.isinf(high) else f"{ends[0]} < {column.name} ≤ {ends[1]}"


def _value(column: Any, x: float) -> str:
    return date_text(column, x) if column.kind == "date" and np.isfinite(x) else f"{x:.4g}"


def date_text(column: Any, x: float) -> str:
    """Return the date, to the minute, of the first encoded number of a column of dates."""
    Z = np.zeros((1, column.column.width))
    Z[0, 0] = x
    return str(column.column.decode(Z)[0])[:16].replace("T", " ")

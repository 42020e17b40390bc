"""What the report shows of rows with a known target, as plain values for JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpexperts import inspection
from gpexperts.effects import Importance, importance
from gpexperts.metrics import score
from gpexperts.report.comparison import compared
from gpexperts.report.failures import date_text, places_by_input, regions, residual_rows

__all__ = [
    "LEVEL",
    "MAX_BARS",
    "MAX_WORST",
    "Observed",
    "evenly_spaced",
    "explained_rows",
    "importances",
    "observed_data",
    "residuals",
    "row_numbers",
]

LEVEL = 0.95
MAX_BARS = 20
MAX_WORST = 40
"""Rows with the largest errors, which are explained first."""
_MAX_QUERIES = 120
"""Queries that the page explains."""
_MAX_POINTS = 1500
"""Rows in the plot of predictions over observations."""
_MAX_LISTED, _MAX_LISTED_BYTES = 10_000, 800_000
"""Rows that can be found by their number, and the size of their inputs as JSON."""
_IMPORTANCE_ROWS = 300
_BINS = 8
_ENOUGH = 10
"""Rows from which on one that dominates the error is named."""


class Observed(NamedTuple):
    """Predictions for rows with a known target."""

    source: str
    X: np.ndarray
    """(n, d) as the model's encoder returns them."""
    y: np.ndarray
    """(n,)"""
    mean: np.ndarray
    """(n,)"""
    std: np.ndarray
    """(n,) for a new observation."""
    seconds: float
    """Time of all predictions."""
    numbers: np.ndarray | None = None
    """(n,) of the rows in their file; from 1 if not given."""
    outside: Sequence[str] = ()
    """(n,) names of the columns outside the range of the training rows; "" if none is."""


def residuals(model: Any, observed: Observed) -> np.ndarray:
    """Standardised residuals (n,); those of the transformed target if it is transformed."""
    z = inspection.scored(model, observed.X, observed.y).get("z")
    return (observed.y - observed.mean) / observed.std if z is None else z


def importances(model: Any, observed: Observed) -> list[Importance]:
    """Permutation importance of the inputs, the largest first."""
    rows = evenly_spaced(len(observed.y), _IMPORTANCE_ROWS)
    return importance(model, observed.X[rows], observed.y[rows], n_repeats=2)


def row_numbers(model: Any, observed: Observed | None) -> np.ndarray:
    """The numbers of the rows that are explained, in their file."""
    if observed is None:
        return inspection.training_row_numbers(model)
    return np.arange(1, len(observed.y) + 1) if observed.numbers is None else observed.numbers


def explained_rows(n: int, worst: np.ndarray) -> np.ndarray:
    """The rows that the page explains: those with the largest errors, then evenly spaced ones."""
    others = evenly_spaced(n, _MAX_QUERIES)
    return np.concatenate([worst, others[~np.isin(others, worst)]])[:_MAX_QUERIES]


def observed_data(
    model: Any, observed: Observed, counted: np.ndarray, index: np.ndarray, worst: np.ndarray, z: np.ndarray
) -> dict[str, Any]:
    y, mean, std = observed.y, observed.mean, observed.std
    width = model.interval_width
    more = inspection.scored(model, observed.X, y)
    scores = score(y, mean, std, inspection.training_targets(model), observed.seconds, width=width, **more)
    levels, shares = inspection.calibration_curve(y, mean, std, width, more.get("z"), more.get("z_std"))
    drawn = residual_rows(len(y), len(inspection.model_columns(model)))
    points = np.union1d(evenly_spaced(len(y), _MAX_POINTS), explained_rows(len(y), worst))
    _, lower, upper = (ends[:, 0] for ends in model.predictor_.interval(observed.X, LEVEL))
    error, inside = y - mean, np.abs(z) <= width(LEVEL, more.get("z_std", std))
    return {
        "source": observed.source,
        "n_outside": sum(map(bool, observed.outside)),
        "outside": _outside(observed.outside),
        "scores": scores.as_dict(),
        "dominant": _dominant(error, row_numbers(model, observed)),
        "compared": compared(model, observed.X, y, scores.as_dict()),
        "worst": [
            {
                "row": int(row),
                "number": int(row_numbers(model, observed)[row]),
                "y": float(y[row]),
                "mean": float(mean[row]),
                "std": float(std[row]),
                "z": float(z[row]),
            }
            for row in worst
        ],
        "residuals": places_by_input(model, observed.X[drawn]),
        "z": np.round(z[drawn], 3).tolist(),
        "regions": regions(model, observed.X, error, inside),
        "listed": _listed(model, observed, lower, upper),
        "width": float(np.median((upper - lower) / (2 * std))),
        "calibration": {"level": levels.tolist(), "share": shares.tolist()},
        "points": {
            "row": points.tolist(),
            "number": row_numbers(model, observed)[points].tolist(),
            "y": _short(y[points]),
            "mean": _short(mean[points]),
            "std": _short(std[points]),
            "lower": _short(lower[points]),
            "upper": _short(upper[points]),
        },
        "by_input": _by_inputs(model, observed.X, error, inside),
        "by_expert": _by_expert(index[:, :1], error[counted], inside[counted]),
    }


def _dominant(error: np.ndarray, numbers: np.ndarray) -> tuple[int, float, float] | None:
    """The row with more than half of the squared error: its number, its share, and the RMSE of the others."""
    squared = error**2
    worst, total = int(np.argmax(squared)), float(squared.sum())
    if len(error) < _ENOUGH or squared[worst] <= 0.5 * total:
        return None
    rest = float(np.sqrt(np.delete(squared, worst).mean()))
    return int(numbers[worst]), float(squared[worst] / total), rest


def _listed(model: Any, observed: Observed, lower: np.ndarray, upper: np.ndarray) -> dict[str, Any]:
    """All rows, or evenly spaced ones, for the search by number; rounded."""
    rows = evenly_spaced(len(observed.y), _MAX_LISTED)
    inputs = [[_rounded(v) for v in row] for row in model.model_.encoder.decode(observed.X[rows]).tolist()]
    few = len(json.dumps(inputs, separators=(",", ":"))) <= _MAX_LISTED_BYTES
    columns = {"y": observed.y[rows], "mean": observed.mean[rows], "lower": lower[rows], "upper": upper[rows]}
    return {
        "number": row_numbers(model, observed)[rows].tolist(),
        **{name: _short(values) for name, values in columns.items()},
        "inputs": inputs if few else [],
    }


def _short(values: np.ndarray) -> list[float]:
    """Five digits are more than a figure or a sentence shows."""
    return [float(f"{v:.5g}") for v in values.tolist()]


def _rounded(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _outside(texts: Sequence[str]) -> list[list[Any]]:
    """The columns with most rows outside the range of the training rows, and the numbers of these rows."""
    counts = Counter(name for text in texts if text for name in text.split("; "))
    return [[name, count] for name, count in counts.most_common(5)]


def _by_inputs(
    model: Any, X: np.ndarray, error: np.ndarray, inside: np.ndarray
) -> list[list[dict[str, Any]]]:
    """Errors by each input."""
    found = []
    for column, values in zip(inspection.model_columns(model), model.model_.encoder.decode(X).T, strict=True):
        if column.kind != "date":
            found.append(_by_input(values, error, inside))
            continue
        known = np.array([value is not None for value in values])
        bins = _by_input(X[known, column.inputs.start], error[known], inside[known])
        found.append([{**b, **{end: date_text(column, b[end]) for end in ("low", "high")}} for b in bins])
    return found


def _by_input(x: np.ndarray, error: np.ndarray, inside: np.ndarray) -> list[dict[str, Any]]:
    """Errors in bins of one input that have about equally many rows, or for its most frequent levels."""
    if x.dtype == object:
        known = np.array([value is not None for value in x])
        x, error, inside = x[known], error[known], inside[known]
        if any(isinstance(value, str) for value in x):
            return _by_level(x, error, inside)
        x = x.astype(float)
    values = np.unique(x)
    if len(values) <= _BINS:
        edges = np.append(values, np.inf)
    else:
        edges = np.unique(np.quantile(x, np.linspace(0, 1, _BINS + 1)))
        edges[-1] = np.inf
    number = np.searchsorted(edges, x, side="right") - 1
    return [_bin(x, error, inside, number == b) for b in range(len(edges) - 1)]


def _by_level(x: np.ndarray, error: np.ndarray, inside: np.ndarray) -> list[dict[str, Any]]:
    levels, code = np.unique(x.astype(str), return_inverse=True)
    most = np.argsort(-np.bincount(code), kind="stable")[:_BINS]
    bins = [_bin(code, error, inside, code == c) for c in most]
    return [{**one, "low": str(levels[c]), "high": str(levels[c])} for c, one in zip(most, bins, strict=True)]


def _by_expert(first: np.ndarray, error: np.ndarray, inside: np.ndarray) -> list[dict[str, float]]:
    """Errors of the rows whose first selected expert is i; the largest sums of squares only.

    Parameters
    ----------
    first : ndarray of shape (n, 1) or, where no experts are selected, (n, 0)
    error, inside : ndarray of shape (n,)
    """
    if first.shape[1] == 0:
        return []
    first = first[:, 0]
    bars = [
        {"expert": int(i), **_bin(first, error, inside, first == i)} for i in np.unique(first[first >= 0])
    ]
    bars.sort(key=lambda bar: -np.sqrt(bar["n"]) * bar["rmse"])
    return bars[:MAX_BARS]


def _bin(x: np.ndarray, error: np.ndarray, inside: np.ndarray, member: np.ndarray) -> dict[str, float]:
    return {
        "low": float(x[member].min()),
        "high": float(x[member].max()),
        "n": int(member.sum()),
        "rmse": float(np.sqrt(np.mean(error[member] ** 2))),
        "inside": float(inside[member].mean()),
    }


def evenly_spaced(n: int, most: int) -> np.ndarray:
    """At most `most` of n row numbers, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))

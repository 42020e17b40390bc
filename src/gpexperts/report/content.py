"""What the report shows, as plain values that JSON can hold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpexperts import inspection
from gpexperts.evaluation import score
from gpexperts.plot.calibration import calibration_curve
from gpexperts.plot.expert_map import map_of_experts, times_asked

__all__ = ["Observed", "gather"]

_MOST_QUERIES = 120
"""Queries that can be picked."""
_MOST_POINTS = 1500
"""Rows in the picture of predicted against observed."""
_MOST_ROWS = 20_000
"""Rows from which errors by expert and the experts' calls are counted."""
_MOST_BARS = 20
_BINS = 8
_LEVEL = 0.95


class Observed(NamedTuple):
    """Predictions for rows whose target is known."""

    source: str
    X: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    seconds: float


def gather(model: Any, observed: Observed | None, target: str) -> dict[str, Any]:
    """Gather the page's data.

    Parameters
    ----------
    model : DistributedGPRegressor
        Fitted, of one target.
    observed : Observed or None
        Without it the page shows what the model has learned, and explains training rows.
    target : str
        Name of the target.
    """
    inspection.single_output(model, "The report")
    X = inspection.training_inputs(model) if observed is None else observed.X
    counted = _spread(len(X), _MOST_ROWS)
    index = _quietly(model.select, X[counted])
    table = getattr(model, "table_", None)
    data: dict[str, Any] = {
        "target": target,
        "features": inspection.feature_names(model),
        "level": _LEVEL,
        "width": float(model._width(_LEVEL)),
        "trained_on": {
            "rows": len(inspection.training_targets(model)),
            "source": None if table is None else table.source,
        },
        "experts": _experts(model, index),
        "relevance": _relevance(model),
        "trace": [[row.log_marginal_likelihood for row in stage] for stage in inspection.stages(model)],
        "noise_std": inspection.noise_std(model),
        "kernel": str(model.kernel_),
        "choices": inspection.choices(model),
        "queries": _queries(model, X, None if observed is None else observed.y),
        "observed": None,
    }
    if observed is not None:
        data["observed"] = _observed(model, observed, counted, index)
    return data


def _experts(model: Any, index: np.ndarray) -> dict[str, Any]:
    return {
        "place": map_of_experts(model).tolist(),
        "size": model._experts.sizes.tolist(),
        "asked": times_asked(index, model.n_experts_).tolist(),
        "n_queries": len(index),
        "n_selected": int(index.shape[1]),
    }


def _relevance(model: Any) -> list[dict[str, Any]]:
    """Spread of each input in length scales: how many wiggles' worth of it the data hold."""
    scales = inspection.length_scales(model)
    spread = inspection.training_inputs(model).std(axis=0)
    names = inspection.feature_names(model)
    order = np.argsort(-spread / scales, kind="stable")[: 2 * _MOST_BARS]
    return [
        {"name": names[k], "value": float(spread[k] / scales[k]), "length_scale": float(scales[k])}
        for k in order
    ]


def _queries(model: Any, X: np.ndarray, y: np.ndarray | None) -> list[dict[str, Any]]:
    """Rows that can be picked, each with its explanation: numbers as Python has them, not rounded."""
    rows = _spread(len(X), _MOST_QUERIES)
    told = _quietly(model.explain, X[rows])
    width = float(model._width(_LEVEL))
    queries = []
    for q, row in enumerate(rows):
        asked = told.experts[q] >= 0
        query = {
            "row": int(row),
            "inputs": X[row].tolist(),
            "observed": None if y is None else float(y[row]),
            "mean": float(told.mean[q]),
            "std": float(told.std[q]),
            "lower": float(told.mean[q] - width * told.std[q]),
            "upper": float(told.mean[q] + width * told.std[q]),
            "experts": told.experts[q][asked].tolist(),
            "said": told.said[q][asked].tolist(),
            "said_std": told.said_std[q][asked].tolist(),
            "weight": told.weight[q][asked].tolist(),
            "prior_weight": float(told.prior_weight[q]),
            "prior_mean": float(told.prior_mean),
            "communication": None,
        }
        if told.communication_said is not None and told.communication_weight is not None:
            query["communication"] = {
                "said": float(told.communication_said[q]),
                "weight": float(told.communication_weight[q]),
            }
        queries.append(query)
    return queries


def _observed(model: Any, seen: Observed, counted: np.ndarray, index: np.ndarray) -> dict[str, Any]:
    told = seen.y, seen.mean, seen.std
    scores = score(*told, inspection.training_targets(model), seen.seconds, width=model._width)
    levels, shares = calibration_curve(*told, model._width)
    points = _spread(len(seen.y), _MOST_POINTS)
    inside = np.abs(seen.y - seen.mean) <= model._width(_LEVEL) * seen.std
    return {
        "source": seen.source,
        "scores": scores.as_dict(),
        "calibration": {"level": levels.tolist(), "share": shares.tolist()},
        "points": {
            "row": points.tolist(),
            "y": seen.y[points].tolist(),
            "mean": seen.mean[points].tolist(),
            "std": seen.std[points].tolist(),
        },
        "by_input": [_by_input(seen, k, inside) for k in range(seen.X.shape[1])],
        "by_expert": _by_expert(seen.y[counted] - seen.mean[counted], index[:, 0], inside[counted]),
    }


def _by_input(seen: Observed, k: int, inside: np.ndarray) -> list[dict[str, float]]:
    """Errors in bins of input k that hold about equally many rows."""
    x = seen.X[:, k]
    values = np.unique(x)
    if len(values) <= _BINS:
        edges = np.append(values, np.inf)
    else:
        edges = np.unique(np.quantile(x, np.linspace(0, 1, _BINS + 1)))
        edges[-1] = np.inf
    place = np.searchsorted(edges, x, side="right") - 1
    return [_bin(seen.y - seen.mean, inside, place == b, x) for b in range(len(edges) - 1)]


def _bin(error: np.ndarray, inside: np.ndarray, here: np.ndarray, x: np.ndarray) -> dict[str, float]:
    return {
        "low": float(x[here].min()),
        "high": float(x[here].max()),
        "n": int(here.sum()),
        "rmse": float(np.sqrt(np.mean(error[here] ** 2))),
        "inside": float(inside[here].mean()),
    }


def _by_expert(error: np.ndarray, first: np.ndarray, inside: np.ndarray) -> list[dict[str, float]]:
    """Errors of the rows that asked each expert first; those experts with the largest sum of squares."""
    bars = []
    for i in np.unique(first[first >= 0]):
        bars.append({"expert": int(i), **_bin(error, inside, first == i, first)})
    bars.sort(key=lambda bar: -bar["n"] * bar["rmse"] ** 2)
    return bars[:_MOST_BARS]


def _spread(n: int, most: int) -> np.ndarray:
    """At most `most` of n rows, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


def _quietly(method: Any, X: np.ndarray) -> Any:
    """Call with an array whose columns are the model's, which scikit-learn would warn of."""
    with inspection.names_were_checked():
        return method(X)

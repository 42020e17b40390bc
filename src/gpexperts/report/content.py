"""The data of the report, as plain values for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpexperts import inspection
from gpexperts.explanation import OwnExplanation
from gpexperts.metrics import score

__all__ = ["Observed", "page_data"]

_MAX_QUERIES = 120
"""Queries that the page explains."""
_MAX_POINTS = 1500
"""Rows in the plot of predictions over observations."""
_MAX_ROWS = 20_000
"""Rows for the errors by expert and for the number of queries per expert."""
_MAX_BARS = 20
_MAX_NEIGHBOURS = 10
"""Rows of an own expert that the page shows."""
_BINS = 8
_LEVEL = 0.95


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


def page_data(model: Any, observed: Observed | None, target: str) -> dict[str, Any]:
    """Collect the data of the page.

    Parameters
    ----------
    model : DistributedGPRegressor
        Fitted to one target.
    observed : Observed or None
        Without it, the page describes the model and explains predictions for training rows.
    target : str
        Name of the target.
    """
    inspection.single_output(model, "The report")
    training_inputs = inspection.training_inputs(model)
    X = training_inputs if observed is None else observed.X
    counted = _evenly_spaced(len(X), _MAX_ROWS)
    index = model.predictor_.select(X[counted])
    table = getattr(model, "table_", None)
    data: dict[str, Any] = {
        "target": target,
        "features": inspection.feature_names(model),
        "level": _LEVEL,
        "width": float(model.interval_width(_LEVEL)),
        "training": {
            "rows": inspection.n_training_rows(model),
            "source": None if table is None else table.source,
        },
        "experts": _experts(model, index),
        "relevance": _relevance(model, training_inputs),
        "trace": [[row.log_marginal_likelihood for row in stage] for stage in inspection.stages(model)],
        "noise_std": inspection.noise_std(model),
        "kernel": str(model.kernel_),
        "choices": inspection.choices(model),
        "queries": _queries(model, X, observed),
        "observed": None,
    }
    if observed is not None:
        data["observed"] = _observed(model, observed, counted, index)
    return data


def _experts(model: Any, index: np.ndarray) -> dict[str, Any]:
    return {
        "position": inspection.expert_positions(model).tolist(),
        "size": model.model_.experts.sizes.tolist(),
        "count": inspection.selection_counts(index, model.n_experts_).tolist(),
        "n_queries": len(index),
        "n_selected": int(index.shape[1]),
        "n_neighbors": model.predictor_.tuning.n_neighbors,
    }


def _relevance(model: Any, X: np.ndarray) -> list[dict[str, Any]]:
    """Standard deviations in length scales, the largest first."""
    scales = inspection.length_scales(model)
    ratio = inspection.scale_spreads(model, X) / scales
    names = inspection.scale_names(model)
    return [
        {"name": names[k], "value": float(ratio[k]), "length_scale": float(scales[k])}
        for k in np.argsort(-ratio, kind="stable")[: 2 * _MAX_BARS]
    ]


def _numbers(model: Any, observed: Observed | None) -> np.ndarray:
    """The numbers of the rows that are explained, in their file."""
    if observed is None:
        return inspection.training_row_numbers(model)
    return np.arange(1, len(observed.y) + 1) if observed.numbers is None else observed.numbers


def _queries(model: Any, X: np.ndarray, observed: Observed | None) -> list[dict[str, Any]]:
    """Explanations of some rows; the numbers are not rounded."""
    rows = _evenly_spaced(len(X), _MAX_QUERIES)
    explained = model.predictor_.explain(X[rows])
    shown = model.model_.encoder.decode(X[rows])
    numbers = _numbers(model, observed)
    outside = observed.outside if observed is not None else ()
    half = float(model.interval_width(_LEVEL)) * explained.std
    queries = []
    for q, row in enumerate(rows):
        selected = explained.experts[q] >= 0
        query = {
            "row": int(row),
            "number": int(numbers[row]),
            "outside": outside[row] if outside else "",
            "inputs": shown[q].tolist(),
            "observed": None if observed is None else float(observed.y[row]),
            "mean": float(explained.mean[q]),
            "std": float(explained.std[q]),
            "lower": float(explained.mean[q] - half[q]),
            "upper": float(explained.mean[q] + half[q]),
            "experts": explained.experts[q][selected].tolist(),
            "expert_mean": explained.expert_mean[q][selected].tolist(),
            "expert_std": explained.expert_std[q][selected].tolist(),
            "weight": explained.weight[q][selected].tolist(),
            "prior_weight": float(explained.prior_weight[q]),
            "prior_mean": float(explained.prior_mean),
            "communication": None,
            "own": None if explained.own is None else _own(model, explained.own, q),
        }
        if explained.communication_mean is not None and explained.communication_weight is not None:
            query["communication"] = {
                "mean": float(explained.communication_mean[q]),
                "weight": float(explained.communication_weight[q]),
            }
        queries.append(query)
    return queries


def _own(model: Any, own: OwnExplanation, q: int) -> dict[str, Any]:
    """The own expert of query q, and its rows with the largest weights."""
    numbers = inspection.file_row_numbers(model, own.rows[q])
    rows = [
        {
            "row": int(own.rows[q, j]),
            "number": int(numbers[j]),
            "inputs": own.inputs[q, j].tolist(),
            "target": float(own.targets[q, j]),
            "weight": float(own.row_weight[q, j]),
        }
        for j in own.largest(_MAX_NEIGHBOURS)[q]
    ]
    return {
        "mean": float(own.mean[q]),
        "std": float(own.std[q]),
        "weight": float(own.weight[q]),
        "n_rows": int(own.rows.shape[1]),
        "rows": rows,
    }


def _observed(model: Any, observed: Observed, counted: np.ndarray, index: np.ndarray) -> dict[str, Any]:
    y, mean, std = observed.y, observed.mean, observed.std
    width = model.interval_width
    more = inspection.scored(model, observed.X, y)
    z = more.get("z")
    scores = score(y, mean, std, inspection.training_targets(model), observed.seconds, width=width, **more)
    levels, shares = inspection.calibration_curve(y, mean, std, width, z)
    points = _evenly_spaced(len(y), _MAX_POINTS)
    error, inside = y - mean, np.abs((y - mean) / std if z is None else z) <= width(_LEVEL)
    return {
        "source": observed.source,
        "n_outside": sum(map(bool, observed.outside)),
        "outside": _outside(observed.outside),
        "scores": scores.as_dict(),
        "calibration": {"level": levels.tolist(), "share": shares.tolist()},
        "points": {
            "row": points.tolist(),
            "number": _numbers(model, observed)[points].tolist(),
            "y": y[points].tolist(),
            "mean": mean[points].tolist(),
            "std": std[points].tolist(),
        },
        "by_input": [_by_input(x, error, inside) for x in model.model_.encoder.decode(observed.X).T],
        "by_expert": _by_expert(index[:, :1], error[counted], inside[counted]),
    }


def _outside(texts: Sequence[str]) -> list[list[Any]]:
    """The columns with most rows outside the range of the training rows, and the numbers of these rows."""
    counts = Counter(name for text in texts if text for name in text.split(", "))
    return [[name, count] for name, count in counts.most_common(5)]


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
    bars.sort(key=lambda bar: -bar["n"] * bar["rmse"] ** 2)
    return bars[:_MAX_BARS]


def _bin(x: np.ndarray, error: np.ndarray, inside: np.ndarray, member: np.ndarray) -> dict[str, float]:
    return {
        "low": float(x[member].min()),
        "high": float(x[member].max()),
        "n": int(member.sum()),
        "rmse": float(np.sqrt(np.mean(error[member] ** 2))),
        "inside": float(inside[member].mean()),
    }


def _evenly_spaced(n: int, most: int) -> np.ndarray:
    """At most `most` of n row numbers, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))

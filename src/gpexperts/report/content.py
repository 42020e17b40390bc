"""The data of the report, as plain values for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpexperts import inspection
from gpexperts.effects import effects, most_relevant
from gpexperts.explanation import OwnExplanation
from gpexperts.report.failures import worst_rows
from gpexperts.report.observed import (
    LEVEL,
    MAX_BARS,
    MAX_WORST,
    Observed,
    evenly_spaced,
    explained_rows,
    importances,
    observed_data,
    residuals,
    row_numbers,
)
from gpexperts.report.soundness import findings

__all__ = ["Observed", "page_data"]

_MAX_ROWS = 20_000
"""Rows for the errors by expert and for the number of queries per expert."""
_MAX_NEIGHBOURS = 10
"""Rows of an own expert that the page shows."""
_MAX_INPUTS = 12
"""Inputs of these rows that it shows."""
_EFFECTS, _EFFECT_ROWS = 6, 60
_MATTERS = 0.01
"""Effects are shown of inputs with at least this share of the largest permutation importance."""


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
    counted = evenly_spaced(len(X), _MAX_ROWS)
    index = model.predictor_.select(X[counted])  # encoded already, so that no names are checked
    table = getattr(model, "table_", None)
    names = inspection.feature_names(model)
    data: dict[str, Any] = {
        "target": target,
        "features": names,
        "level": LEVEL,
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
        "transformed": model.model_.target is not None,
        "importance": [],
        "neighbour_features": names,
        "observed": None,
    }
    worst = np.empty(0, dtype=int)
    if observed is None:
        relevant = most_relevant(model, MAX_BARS)
        n_effects = _EFFECTS
    else:
        z = residuals(model, observed)
        worst = worst_rows(z, min(MAX_WORST, len(z) // 4))
        found = importances(model, observed)
        data["importance"] = [
            {"name": one.name, "increase": one.increase, "std": one.std} for one in found[:MAX_BARS]
        ]
        columns = {column.name: column for column in inspection.model_columns(model)}
        relevant = [columns[one.name] for one in found]
        matter = sum(one.increase >= _MATTERS * found[0].increase for one in found)
        n_effects = max(1, min(_EFFECTS, matter))
        data["observed"] = observed_data(model, observed, counted, index, worst, z)
    data["effects"] = _effects(model, X, relevant[:n_effects])
    # A table of many inputs cannot be read: the rows behind a prediction are shown by those that matter.
    among = {column.name for column in relevant[:_MAX_INPUTS]}
    places = [k for k, name in enumerate(names) if name in among]
    data["neighbour_features"] = [names[k] for k in places]
    data["queries"] = _queries(model, X, observed, worst, places)
    outside = ([], 0) if observed is None else (data["observed"]["outside"], data["observed"]["n_outside"])
    data["findings"] = findings(model, training_inputs, *outside)
    return data


def _effects(model: Any, X: np.ndarray, columns: list[inspection.ModelColumn]) -> list[dict[str, Any]]:
    rows = X[evenly_spaced(len(X), _EFFECT_ROWS)]
    return [
        {
            "name": e.name,
            "values": e.values,
            "mean": e.mean.tolist(),
            "low": e.low.tolist(),
            "high": e.high.tolist(),
            "dates": e.dates,
        }
        for e in effects(model, columns, rows, n_points=20)
    ]


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
        for k in np.argsort(-ratio, kind="stable")[: 2 * MAX_BARS]
    ]


def _queries(
    model: Any, X: np.ndarray, observed: Observed | None, worst: np.ndarray, places: list[int]
) -> list[dict[str, Any]]:
    """Explanations of some rows; the numbers are not rounded.

    All standard deviations are those of a new observation: those of experts include the noise.
    """
    noise = inspection.noise_std(model)
    rows = explained_rows(len(X), worst)
    explained = model.predictor_.explain(X[rows])
    shown = model.model_.encoder.decode(X[rows])
    numbers = row_numbers(model, observed)
    outside = observed.outside if observed is not None else ()
    _, lower, upper = model.predictor_.interval(X[rows], LEVEL)
    targets = inspection.targets_by_number(model)
    added = explained.trend if explained.trend_role in ("mean", "both") else None
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
            "lower": float(lower[q, 0]),
            "upper": float(upper[q, 0]),
            "experts": explained.experts[q][selected].tolist(),
            "expert_mean": explained.expert_mean[q][selected].tolist(),
            "expert_std": np.hypot(explained.expert_std[q][selected], noise).tolist(),
            "weight": explained.weight[q][selected].tolist(),
            "prior_weight": float(explained.prior_weight[q]),
            "prior_mean": float(explained.prior_mean),
            "communication": None,
            "trend": None if added is None else float(added[q]),
            "own": None if explained.own is None else _own(model, explained.own, q, targets, noise, places),
        }
        if explained.communication_mean is not None and explained.communication_weight is not None:
            query["communication"] = {
                "mean": float(explained.communication_mean[q]),
                "weight": float(explained.communication_weight[q]),
            }
        queries.append(query)
    return queries


def _own(
    model: Any, own: OwnExplanation, q: int, targets: np.ndarray | None, noise: float, places: list[int]
) -> dict[str, Any]:
    """The own expert of query q, and its rows with the largest weights."""
    numbers = inspection.file_row_numbers(model, own.rows[q])
    rows = [
        {
            "row": int(own.rows[q, j]),
            "number": int(numbers[j]),
            "inputs": own.inputs[q, j, places].tolist(),
            "target": float(own.targets[q, j] if targets is None else targets[own.rows[q, j]]),
            "weight": float(own.row_weight[q, j]),
        }
        for j in own.largest(_MAX_NEIGHBOURS)[q]
    ]
    return {
        "mean": float(own.mean[q]),
        "std": float(np.hypot(own.std[q], noise)),
        "weight": float(own.weight[q]),
        "n_rows": int(own.rows.shape[1]),
        "rows": rows,
    }

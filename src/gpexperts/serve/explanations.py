"""What the page shows of a prediction: the training rows and the experts that it rests on."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpexperts.engines.threads import ThreadEngine
from gpexperts.serve.inputs import Inputs

__all__ = ["explained"]

_MAX_ROWS = 10
"""Training rows of an explanation."""


def explained(model: Any, inputs: Inputs, X: np.ndarray, level: float) -> list[dict[str, Any]]:
    """Explain the predictions of some rows.

    Parameters
    ----------
    model : DistributedGPRegressor
        Fitted to one target.
    inputs : Inputs
    X : ndarray of shape (n, d)
    level : float
        Probability of the intervals.

    Returns
    -------
    list of dict
        Standard deviations are those of a new observation, but `latent_std` of an expert is that of the
        noise-free function.
    """
    explanation = model.predictor_.explain(X)
    half = float(model.interval_width(level)) * explanation.std
    rows = _weighted(explanation.own, inputs) if explanation.own is not None else _nearest(model, inputs, X)
    outside = inputs.outside(X)
    return [
        {
            "mean": float(explanation.mean[q]),
            "std": float(explanation.std[q]),
            "lower": float(explanation.mean[q] - half[q]),
            "upper": float(explanation.mean[q] + half[q]),
            "outside": outside[q],
            "rows": rows[q],
            "experts": _experts(explanation, q),
        }
        for q in range(len(X))
    ]


def _experts(explanation: Any, q: int) -> list[dict[str, Any]]:
    """The experts of query q, its own one first, and the prior last: weights and means give the mean."""
    members = []
    if explanation.own is not None:
        own = explanation.own
        members.append(_expert("own expert", own.weight[q], own.mean[q], own.std[q]))
    for k, expert in enumerate(explanation.experts[q].tolist()):
        if expert >= 0:
            values = (explanation.weight[q, k], explanation.expert_mean[q, k], explanation.expert_std[q, k])
            members.append(_expert(f"expert {expert}", *values))
    if explanation.communication_mean is not None:
        shared = explanation.communication_weight[q], explanation.communication_mean[q]
        members.append(_expert("shared rows", *shared, None))
    members.append(_expert("prior", explanation.prior_weight[q], explanation.prior_mean, None))
    return members


def _expert(name: str, weight: Any, mean: Any, std: Any) -> dict[str, Any]:
    latent = None if std is None else float(std)
    return {"name": name, "weight": float(weight), "mean": float(mean), "latent_std": latent}


def _weighted(own: Any, inputs: Inputs) -> list[list[dict[str, Any]]]:
    """The rows of the own experts with the largest weights; rows are numbered from 1."""
    largest = own.largest(_MAX_ROWS)
    return [
        _rows(inputs, own.rows[q, j], own.inputs[q, j], own.targets[q, j], own.row_weight[q, j])
        for q, j in enumerate(largest)
    ]


def _nearest(model: Any, inputs: Inputs, X: np.ndarray) -> list[list[dict[str, Any]]]:
    """The nearest training rows in the metric of the kernel, where there are no weights of single rows."""
    fitted = model.model_
    near = fitted.experts.neighbourhood(fitted.x_scale.transform(X), _MAX_ROWS, ThreadEngine(1))
    values, targets = fitted.x_scale.restore(near.X), fitted.y_scale.restore(near.y)[..., 0]
    return [_rows(inputs, near.number[q], values[q], targets[q], None) for q in range(len(X))]


def _rows(inputs: Inputs, number: Any, X: Any, y: Any, weight: Any) -> list[dict[str, Any]]:
    weights = [None] * len(y) if weight is None else weight.tolist()
    decoded = inputs.decode(X)
    return [
        {"row": int(number[j]) + 1, "inputs": decoded[j], "target": float(y[j]), "weight": weights[j]}
        for j in range(len(y))
    ]

"""What the page shows of a prediction: the training rows and the experts that it rests on."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpexperts import inspection
from gpexperts.engines.threads import ThreadEngine
from gpexperts.serve.inputs import Inputs

__all__ = ["Explainer"]

_MAX_ROWS = 10
"""Training rows of an explanation."""


class Explainer:
    """Explains predictions.

    Parameters
    ----------
    model : DistributedGPRegressor
        Fitted to one target.
    inputs : Inputs
    """

    def __init__(self, model: Any, inputs: Inputs) -> None:
        self._model, self._inputs = model, inputs
        self._targets = inspection.targets_by_number(model)

    def __call__(self, X: np.ndarray, level: float) -> list[dict[str, Any]]:
        """Explain the predictions of encoded rows X (n, d), with intervals of the given level.

        Standard deviations are those of a new observation, but `latent_std` of an expert is that of the
        noise-free function.
        """
        predictor = self._model.predictor_
        explanation = predictor.explain(X)
        _, lower, upper = predictor.interval(X, level)
        rows = self._nearest(X) if explanation.own is None else self._weighted(explanation.own)
        outside = self._inputs.outside(X)
        return [
            {
                "mean": float(explanation.mean[q]),
                "std": float(explanation.std[q]),
                "lower": float(lower[q, 0]),
                "upper": float(upper[q, 0]),
                "outside": outside[q],
                "rows": rows[q],
                "experts": _experts(explanation, q),
            }
            for q in range(len(X))
        ]

    def _weighted(self, own: Any) -> list[list[dict[str, Any]]]:
        """The rows of the own experts with the largest weights."""
        largest = own.largest(_MAX_ROWS)
        return [
            self._rows(own.rows[q, j], own.inputs[q, j], own.targets[q, j], own.row_weight[q, j].tolist())
            for q, j in enumerate(largest)
        ]

    def _nearest(self, X: np.ndarray) -> list[list[dict[str, Any]]]:
        """The nearest training rows in the metric of the kernel, where single rows have no weights."""
        fitted = self._model.model_
        Z, _ = fitted.inputs(X)
        near = fitted.experts.neighbourhood(Z, _MAX_ROWS, ThreadEngine(1))
        values = fitted.encoder.decode(fitted.user_inputs(near.X))
        targets = fitted.y_scale.restore(near.y)[..., 0]
        return [self._rows(near.number[q], values[q], targets[q], None) for q in range(len(X))]

    def _rows(self, number: Any, X: Any, y: Any, weights: Any) -> list[dict[str, Any]]:
        shown = self._inputs.shown(X)
        names = inspection.file_row_numbers(self._model, number)
        targets = y if self._targets is None else self._targets[number]
        return [
            {
                "row": int(names[j]),
                "inputs": shown[j],
                "target": float(targets[j]),
                "weight": None if weights is None else weights[j],
            }
            for j in range(len(y))
        ]


def _experts(explanation: Any, q: int) -> list[dict[str, Any]]:
    """The experts of query q, its own one first; then the prior, and the trend if it is the mean."""
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
    if explanation.trend_role in ("mean", "both"):
        members.append(_expert("trend", 1.0, explanation.trend[q], None))
    return members


def _expert(name: str, weight: Any, mean: Any, std: Any) -> dict[str, Any]:
    latent = None if std is None else float(std)
    return {"name": name, "weight": float(weight), "mean": float(mean), "latent_std": latent}

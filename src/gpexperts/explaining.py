"""How an `Explanation` is computed: the moments of a prediction, kept instead of summed up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gpexperts.engines import Engine
from gpexperts.experts.moments import ExpertMoments, Prediction
from gpexperts.experts.own import own_predictions
from gpexperts.explanation import Explanation, OwnExplanation
from gpexperts.formula import Formula
from gpexperts.model import FittedModel

__all__ = ["Batches", "explained"]

Batches = Callable[[np.ndarray, np.ndarray], Iterator[tuple[np.ndarray, ExpertMoments, Prediction]]]
"""Queries (n, d) and their index (n, K) ↦ rows, moments and prediction of one batch after the other."""


def explained(
    model: FittedModel, formula: Formula, X: np.ndarray, batches: Batches, engine: Engine
) -> Explanation:
    """Return the selected experts of queries X (n, d) in the user's units, their predictions and weights."""
    trend = None if model.trend is None else model.trend.predict(X)
    X, added = formula.inputs(X, trend)
    n, p = len(X), model.n_outputs
    index = formula.select(X)
    own, K = formula.n_own, formula.n_own + index.shape[1]
    mean, var = np.empty((n, p)), np.empty((n, p))
    expert_mean, expert_var, weight = np.empty((n, K, p)), np.empty((n, K)), np.zeros((n, K))
    communication_mean, communication_weight = np.zeros((n, p)), np.zeros(n)
    for rows, moments, prediction in batches(X, index.copy()):
        index[rows] = moments.index[:, own:]
        mean[rows] = prediction.mean
        var[rows] = formula.variance(prediction, latent=False)
        expert_mean[rows], expert_var[rows] = moments.mean, moments.var
        weight[rows] = prediction.weight
        if prediction.communication_weight is not None:
            communication_mean[rows] = moments.communication_mean
            communication_weight[rows] = prediction.communication_weight
    restore, scale = model.y_scale.restore, model.y_scale.scale
    expert_std = np.sqrt(expert_var)[:, :, None] * scale
    shared = formula.aggregator.needs_communication
    mean, std = formula.restored(mean, var, added)
    return Explanation(
        experts=index,
        expert_mean=model.shaped(restore(expert_mean[:, own:])),
        expert_std=model.shaped(expert_std[:, own:]),
        weight=weight[:, own:],
        prior_weight=1.0 - weight.sum(axis=1) - communication_weight,
        prior_mean=model.shaped(model.y_scale.shift),
        mean=model.shaped(mean),
        std=model.shaped(std),
        communication_mean=model.shaped(restore(communication_mean)) if shared else None,
        communication_weight=communication_weight if shared else None,
        own=_own(model, formula, X, expert_mean, expert_std, weight, engine) if own else None,
        trend=None if trend is None else model.shaped(trend.mean),
        trend_role=None if model.trend is None else model.trend.role,
    )


def _own(
    model: FittedModel,
    formula: Formula,
    X: np.ndarray,
    mean: np.ndarray,
    std: np.ndarray,
    weight: np.ndarray,
    engine: Engine,
) -> OwnExplanation:
    """The rows of the own expert, which is the first column of mean, std and weight."""
    near = model.experts.neighbourhood(X, formula.n_neighbors, engine)
    q = own_predictions(model.covariance, near, X, engine, weights=True).weights
    assert q is not None
    return OwnExplanation(
        mean=model.shaped(model.y_scale.restore(mean[:, 0])),
        std=model.shaped(std[:, 0]),
        weight=weight[:, 0],
        rows=near.number if model.row_numbers is None else model.row_numbers[near.number],
        inputs=model.encoder.decode(model.user_inputs(near.X)),
        targets=model.shaped(model.y_scale.restore(near.y)),
        row_weight=weight[:, :1] * q,
    )

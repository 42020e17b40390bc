"""Scores of the model beside those of two simple predictors."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

from gpexperts import inspection
from gpexperts.metrics import score

__all__ = ["compared"]

_MAX_ROWS = 50_000
"""Training rows of the linear model."""


def compared(model: Any, X: np.ndarray, y: np.ndarray, scores: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the scores of the model, of a linear regression, and of the mean of the training targets.

    Parameters
    ----------
    model : DistributedGPRegressor
    X : ndarray of shape (n, d)
        Test rows, encoded.
    y : ndarray of shape (n,)
    scores : dict
        Of the model.
    """
    inputs, targets = inspection.training_inputs(model), np.asarray(inspection.training_targets(model))
    rows = np.unique(np.linspace(0, len(inputs) - 1, min(len(inputs), _MAX_ROWS)).round().astype(int))
    scale = inputs[rows].std(axis=0)
    scale[scale == 0] = 1.0
    linear = Ridge(1e-3).fit(inputs[rows] / scale, targets[rows])
    spread = float(np.std(targets[rows] - linear.predict(inputs[rows] / scale)))
    simple = {
        "linear regression": (linear.predict(X / scale), spread),
        "mean of the training targets": (np.full(len(y), targets.mean()), float(targets.std())),
    }
    found = [{"name": "this model", **scores}]
    for name, (mean, spread) in simple.items():
        std = np.full(len(y), spread if spread > 0 else np.finfo(float).tiny ** 0.25)
        found.append({"name": name, **score(y, mean, std, targets).as_dict()})
    return found

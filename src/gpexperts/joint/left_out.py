"""Leave-one-out predictions of all training rows, in the user's units."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpexperts.calibration import HELD_OUT
from gpexperts.leave_one_out import LeftOut, check_leave_one_out, left_out
from gpexperts.predictor import Predictor
from gpexperts.prepare import evaluation_engine

__all__ = ["LeaveOneOutPredictions", "leave_one_out"]


class LeaveOneOutPredictions(NamedTuple):
    """Every training row predicted without it; columns have shape (n,) or (n, n_outputs)."""

    row: np.ndarray
    """(n,) number of each row in the training data, ascending."""
    mean: np.ndarray
    std: np.ndarray
    """Standard deviation of an observation."""
    residual: np.ndarray
    """Target minus mean."""
    standardized_residual: np.ndarray
    """Residual divided by std; about standard normal if the model is right."""
    log_density: np.ndarray
    """Log density of the target under a normal distribution with this mean and std."""


def leave_one_out(predictor: Predictor) -> LeaveOneOutPredictions:
    """Predict every training row without it; rows that were held out are predicted by all experts."""
    model, formula, settings = predictor.model, predictor.formula, predictor.settings
    experts = check_leave_one_out(model, "loo")
    positions, engine = np.arange(len(experts.X)), evaluation_engine(model, settings)
    batches = list(left_out(model, formula, positions, settings.work_budget, engine))
    rows = [experts.numbers]
    if model.held_out is not None:
        assert model.labels is not None
        batches.append(_held_out(predictor, *model.held_out))
        rows.append(np.flatnonzero(model.labels == HELD_OUT))
    predictor.report_jitter()
    row = np.concatenate(rows)
    order = np.argsort(row)
    _, y, mean, var = (np.concatenate(columns)[order] for columns in zip(*batches, strict=True))
    std, scale = np.sqrt(var), model.y_scale.scale
    z = (y - mean) / std
    return LeaveOneOutPredictions(
        row=row[order],
        mean=model.shaped(model.y_scale.restore(mean)),
        std=model.shaped(std * scale),
        residual=model.shaped((y - mean) * scale),
        standardized_residual=model.shaped(z),
        log_density=model.shaped(-0.5 * (np.log(2.0 * np.pi) + z**2) - np.log(std * scale)),
    )


def _held_out(predictor: Predictor, X: np.ndarray, y: np.ndarray) -> LeftOut:
    mean, var = np.empty_like(y), np.empty_like(y)
    for rows, _, prediction in predictor.batches(X, predictor.formula.select(X)):
        mean[rows] = prediction.mean
        var[rows] = predictor.formula.variance(prediction, latent=False)
    return LeftOut(np.arange(len(X)), y, mean, var)

"""Leave-one-out predictions of all training rows, in the user's units."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpexperts.calibration import HELD_OUT
from gpexperts.experts.local import LocalExperts
from gpexperts.leave_one_out import check_known, check_leave_one_out, left_out, predicted
from gpexperts.metrics import gaussian_log_density
from gpexperts.model import FittedModel
from gpexperts.predictor import Predictor
from gpexperts.prepare import evaluation_engine

__all__ = ["LeaveOneOutPredictions", "leave_one_out"]


class LeaveOneOutPredictions(NamedTuple):
    """Every training row predicted without it; columns have shape (n,) or (n, n_outputs)."""

    row: np.ndarray
    """(n,) number of each row in the training data, ascending."""
    mean: np.ndarray
    std: np.ndarray
    """Standard deviation of an observation, with the `noise_std` of its row."""
    residual: np.ndarray
    """Target minus mean."""
    standardized_residual: np.ndarray
    """Residual divided by std, with `target_transform` those of the transformed target; about standard normal
    if the model is right."""
    log_density: np.ndarray
    """Log density of the target: normal with this mean and std, or so for the transformed target."""


def leave_one_out(predictor: Predictor) -> LeaveOneOutPredictions:
    """Predict every training row without it; rows that were held out are predicted by all experts.

    The trend of a row is the one that it was fitted with, by a regressor that has not seen it.
    """
    model, formula, settings = predictor.model, predictor.formula, predictor.settings
    experts = check_leave_one_out(model, "loo")
    check_known(model, "loo")
    positions, engine = np.arange(len(experts.X)), evaluation_engine(model, settings)
    batches = list(left_out(model, formula, positions, settings.work_budget, engine))
    known = model.row_numbers
    rows, given = [experts.numbers if known is None else known[experts.numbers]], [_targets(model, experts)]
    if model.held_out is not None:
        held = predicted(model.held_out, formula, predictor.batches)
        batches.append(held._replace(var=formula.variance_scale * held.var))
        rows.append(np.flatnonzero(model.labels == HELD_OUT))
        given.append(model.user_targets(model.held_out.X, model.held_out.y))
    predictor.report_jitter()
    row = np.concatenate(rows)
    order = np.argsort(row)
    observed = np.concatenate(given)[order]
    _, y, mean, var = (np.concatenate(columns)[order] for columns in zip(*batches, strict=True))
    std, error = np.sqrt(var) * model.y_scale.scale, (y - mean) * model.y_scale.scale
    shaped, target = model.shaped, model.target
    if target is None:
        mean, density = observed - error, gaussian_log_density(observed, observed - error, std)
        own_std, residual = std, error
    else:
        mean = target.forward(observed) - error
        density = target.log_density(observed, mean, std)
        mean, own_std = target.moments(mean, std)
        residual = observed - mean
    return LeaveOneOutPredictions(
        row[order], shaped(mean), shaped(own_std), shaped(residual), shaped(error / std), shaped(density)
    )


def _targets(model: FittedModel, experts: LocalExperts) -> np.ndarray:
    """Targets of the rows of experts in the user's units, in their order."""
    if model.targets is not None:
        return model.targets[experts.numbers]
    return model.user_targets(experts.X, experts.y)

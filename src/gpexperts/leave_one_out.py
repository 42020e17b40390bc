"""Leave-one-out: every training row predicted without it, at the hyperparameters and choices of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from gpexperts.engines import Engine
from gpexperts.experts.leave_one_out import moments_without
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.moments import ExpertMoments, Prediction
from gpexperts.experts.store import Observations
from gpexperts.formula import Formula
from gpexperts.model import FittedModel
from gpexperts.prepare import batch_size
from gpexperts.progress import reporters
from gpexperts.row_noise import observation_variance

__all__ = [
    "Batches",
    "LeftOut",
    "check_known",
    "check_leave_one_out",
    "left_out",
    "local_experts",
    "predicted",
]

Batches = Callable[[np.ndarray, np.ndarray], Iterator[tuple[np.ndarray, ExpertMoments, Prediction]]]
"""Queries (n, d) and their experts (n, K) in; rows, moments and predictions of batches out."""


class LeftOut(NamedTuple):
    """Some rows predicted without themselves, in the units of the experts."""

    positions: np.ndarray
    """(b,) among the rows of all experts, or among those that no expert has seen."""
    y: np.ndarray
    """(b, p)"""
    mean: np.ndarray
    """(b, p)"""
    var: np.ndarray
    """(b, p) of an observation, with the given noise of its row."""

    @property
    def z(self) -> np.ndarray:
        """(b, p) standardised residuals."""
        return (self.y - self.mean) / np.sqrt(self.var)


def local_experts(model: FittedModel, what: str) -> LocalExperts:
    """Return the experts, or refuse a model whose rows cannot be left out or changed."""
    experts = model.experts
    if not isinstance(experts, LocalExperts):
        raise ValueError(
            f"{what} needs the training rows in this process, but they are on a cluster: use "
            "model.to_local() if they fit into memory."
        )
    if experts.shared is not None:
        raise ValueError(
            f"{what} is not available for aggregation='grbcm', whose experts share rows. Use another rule."
        )
    return experts


def check_leave_one_out(model: FittedModel, what: str) -> LocalExperts:
    """Return the experts, or refuse a model whose rows cannot be left out."""
    experts = local_experts(model, what)
    if len(experts.X) < 2:
        raise ValueError(f"{what} needs at least 2 training rows.")
    return experts


def check_known(model: FittedModel, what: str) -> None:
    """Refuse a model that came from a cluster without the numbers or the targets of its rows."""
    missing = ""
    if model.labels is None and model.held_out is not None:
        missing = "the numbers of the rows that calibrate held out"
    elif model.targets is None and model.trend is not None and model.trend.is_mean:
        missing = "the targets before the trend was subtracted"
    if missing:
        raise ValueError(
            f"{what} needs {missing}, which stayed on the cluster. Fit the rows in this process."
        )


def left_out(
    model: FittedModel, formula: Formula, positions: np.ndarray, budget: int, engine: Engine
) -> Iterator[LeftOut]:
    """Predict training rows without themselves, in batches that fit the memory budget.

    Parameters
    ----------
    model : FittedModel
        One that :func:`check_leave_one_out` accepts.
    formula : Formula
        Of the predictor.
    positions : ndarray of int, shape (n,)
        Ascending, among the rows of all experts.
    budget : int
        Bytes for work arrays.
    engine : Engine
    """
    experts = model.experts
    assert isinstance(experts, LocalExperts)
    reporters().start("leaving rows out", len(positions))
    size = batch_size(experts, formula.request, formula.n_selected, budget)
    for start in range(0, len(positions), size):
        some = positions[start : start + size]
        index = formula.select_without(experts.X[some], some)
        moments = moments_without(experts, some, index, formula.request, engine)
        prediction = formula.aggregator.combine(moments)
        noise = observation_variance(experts.noise[some], formula.noise_variance)
        var = formula.variance_scale * prediction.observation_var(noise)
        yield LeftOut(some, experts.y[some], prediction.mean, var)
        reporters().advance(len(some))


def predicted(rows: Observations, formula: Formula, batches: Batches) -> LeftOut:
    """Predict rows that no expert has seen; the variance is without the factor of ``calibrate="scale"``."""
    X, y, noise = rows
    mean, var = np.empty_like(y), np.empty_like(y)
    variance = np.broadcast_to(observation_variance(noise, formula.noise_variance), len(y))
    for some, _, prediction in batches(X, formula.select(X)):
        mean[some], var[some] = prediction.mean, prediction.observation_var(variance[some])
    return LeftOut(np.arange(len(X)), y, mean, var)

"""Scorers of the predictive distribution, for `cross_validate`, `GridSearchCV` and the like.

Pass the objects themselves, as in ``scoring={"density": scorers.log_density, "crps": scorers.neg_crps}``.
They score a `DistributedGPRegressor`, alone, as the last step of a `Pipeline`, or inside a search. What they
need of the training targets is in the fitted model. As in scikit-learn, larger is better, and losses are
negated. Coverage is a share that should be near its level: `coverage` reports it, `neg_coverage_error` can be
maximised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpexperts.metrics.scores import checked_level, crps, interval_score

__all__ = [
    "DistributionScorer",
    "coverage",
    "log_density",
    "neg_coverage_error",
    "neg_crps",
    "neg_interval_score",
    "neg_msll",
]

Score = Callable[[Any, Any, np.ndarray, float], float]
"""(estimator, X, y, level) ↦ score."""


@dataclass(frozen=True)
class DistributionScorer:
    """A callable ``scorer(estimator, X, y)``, as scikit-learn's `scoring` accepts it.

    Parameters
    ----------
    name : str
    function : callable
    level : float
        Of the intervals, where the score is one of intervals.
    """

    name: str
    function: Score
    level: float = 0.95

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Score a fitted estimator; larger is better."""
        model, X = _model_and_inputs(estimator, X)
        return float(self.function(model, X, np.asarray(y, dtype=float), self.level))

    def at(self, level: float) -> DistributionScorer:
        """Return the same scorer for intervals of another level."""
        return DistributionScorer(self.name, self.function, checked_level(level))

    def __repr__(self) -> str:
        return f"<scorer {self.name}>"


def _model_and_inputs(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the last step of nested pipelines and searches, and the inputs that it gets."""
    while not hasattr(estimator, "log_density"):
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            if len(estimator) > 1:
                X = estimator[:-1].transform(X)
            estimator = estimator[-1]
        else:
            raise TypeError(
                f"This scorer needs a predictive distribution, but {type(estimator).__name__} has no method "
                "log_density(X, y); use it with a DistributedGPRegressor."
            )
    return estimator, X


def _log_density(model: Any, X: Any, y: np.ndarray, _: float) -> float:
    return float(np.mean(model.log_density(X, y)))


def _neg_msll(model: Any, X: Any, y: np.ndarray, _: float) -> float:
    return float(np.mean(model.log_density(X, y) - model.trivial_log_density(y)))


def _neg_crps(model: Any, X: Any, y: np.ndarray, _: float) -> float:
    return -crps(y, *model.predict(X, return_std=True))


def _coverage(model: Any, X: Any, y: np.ndarray, level: float) -> float:
    _, lower, upper = model.predict(X, return_interval=level)
    return float(np.mean((lower <= y) & (y <= upper)))


def _neg_coverage_error(model: Any, X: Any, y: np.ndarray, level: float) -> float:
    return -abs(_coverage(model, X, y, level) - level)


def _neg_interval_score(model: Any, X: Any, y: np.ndarray, level: float) -> float:
    _, lower, upper = model.predict(X, return_interval=level)
    return -interval_score(y, lower, upper, level)


log_density = DistributionScorer("log_density", _log_density)
"""Mean log density of the targets."""
neg_msll = DistributionScorer("neg_msll", _neg_msll)
"""Mean log density less that of a Gaussian with mean and variance of the training targets: −MSLL."""
neg_crps = DistributionScorer("neg_crps", _neg_crps)
"""−CRPS of mean and standard deviation, in the target's units."""
coverage = DistributionScorer("coverage", _coverage)
"""Share of targets inside their interval."""
neg_coverage_error = DistributionScorer("neg_coverage_error", _neg_coverage_error)
"""−|coverage − level|."""
neg_interval_score = DistributionScorer("neg_interval_score", _neg_interval_score)
"""− interval score, in the target's units."""

"""The fitted trend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpexperts.trend.regressors import Predictor
from gpexperts.trend.sparse import SparseGP

__all__ = ["ROLES", "FittedTrend", "TrendValues", "checked_prediction"]

ROLES = ("mean", "input", "both")
"""The trend is the mean that experts correct, one more input of the experts, or both."""


class TrendValues(NamedTuple):
    """What a trend adds to the predictions of n queries, in the units of the (transformed) targets."""

    mean: np.ndarray
    """(n, p), or (n, 1) zeros."""
    var: np.ndarray
    """(n, 1) variance of its error; 0 unless it is a sparse GP."""
    excess: np.ndarray
    """(n, 1) the same beyond that of an average training row, which the learned noise contains."""

    @property
    def contained(self) -> np.ndarray:
        """(n, 1) the part of the variance that the learned noise contains."""
        return self.var - self.excess

    @classmethod
    def known(cls, mean: np.ndarray) -> TrendValues:
        """Return values without an error."""
        zero = np.zeros((len(mean), 1))
        return cls(mean, zero, zero)

    @classmethod
    def nothing(cls, n: int) -> TrendValues:
        """Return what adds nothing to n queries."""
        return cls.known(np.zeros((n, 1)))


@dataclass(frozen=True)
class FittedTrend:
    """A trend for each output, in the units of the (transformed) targets."""

    role: str
    name: str
    """As in the setting, or the class of the regressor."""
    predictors: tuple[Predictor, ...]
    """One per output."""

    @property
    def is_mean(self) -> bool:
        """Whether it is added to what experts predict."""
        return self.role in ("mean", "both")

    @property
    def is_input(self) -> bool:
        """Whether it is one more input of the experts."""
        return self.role in ("input", "both")

    @property
    def n_inputs(self) -> int:
        """Inputs that it adds, after the user's."""
        return len(self.predictors) if self.is_input else 0

    @property
    def sparse(self) -> SparseGP | None:
        """The sparse GP whose error is part of the predicted variance; None for other trends and roles."""
        first = self.predictors[0] if self.predictors and self.is_mean else None
        return first if isinstance(first, SparseGP) else None

    def predict(self, X: np.ndarray) -> TrendValues:
        """Return the trend at inputs X (n, d) in the user's units."""
        if self.sparse is not None:
            return self.uncertain(*self.sparse.moments(X))
        return TrendValues.known(self.mean(X))

    def uncertain(self, mean: np.ndarray, var: np.ndarray) -> TrendValues:
        """Return the values of a sparse GP with this mean and variance (n,)."""
        assert self.sparse is not None
        excess = np.maximum(var - self.sparse.average_var, 0.0)
        return TrendValues(mean[:, None], var[:, None], excess[:, None])

    def mean(self, X: np.ndarray) -> np.ndarray:
        """Return the trend (n, p) at inputs X (n, d) in the user's units, without its error."""
        values = np.empty((len(X), len(self.predictors)))
        if len(X):
            for k, predictor in enumerate(self.predictors):
                values[:, k] = checked_prediction(predictor, X, self.name)
        return values

    def inputs(self, X: np.ndarray, trend: np.ndarray) -> np.ndarray:
        """Return the inputs of the experts, where `trend` (n, p) is what `predict` gives."""
        return np.concatenate([X, trend], axis=1) if self.is_input else X

    def rows(self, X: np.ndarray, y: np.ndarray, trend: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs and targets of the experts, where `trend` (n, p) is that of the rows."""
        return self.inputs(X, trend), y - trend if self.is_mean else y


def checked_prediction(predictor: Predictor, X: np.ndarray, name: str) -> np.ndarray:
    """Return the finite predictions (n,) of a regressor."""
    values = np.asarray(predictor.predict(X), dtype=float)
    if values.shape != (len(X),) and values.shape != (len(X), 1):
        raise ValueError(
            f"The trend {name!r} predicts an array of shape {values.shape} for {len(X)} rows; it must "
            "predict one number per row."
        )
    values = values.reshape(len(X))
    wrong = ~np.isfinite(values)
    if wrong.any():
        raise ValueError(
            f"The trend {name!r} predicts {values[np.argmax(wrong)]} for {int(wrong.sum())} of {len(X)} "
            "rows. Use another regressor, or trend=None."
        )
    return values

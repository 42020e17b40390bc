"""The fitted trend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpexperts.trend.regressors import Predictor

__all__ = ["ROLES", "FittedTrend", "checked_prediction"]

ROLES = ("mean", "input", "both")
"""The trend is the mean that experts correct, one more input of the experts, or both."""


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

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the trend (n, p) at inputs X (n, d) in the user's units."""
        values = np.empty((len(X), len(self.predictors)))
        if len(X):
            for k, predictor in enumerate(self.predictors):
                values[:, k] = checked_prediction(predictor, X, self.name)
        return values

    def inputs(self, X: np.ndarray, trend: np.ndarray) -> np.ndarray:
        """Return the inputs of the experts, where `trend` (n, p) is what `predict` gives."""
        return np.concatenate([X, trend], axis=1) if self.is_input else X

    def residuals(self, y: np.ndarray, trend: np.ndarray) -> np.ndarray:
        """Return the targets of the experts."""
        return y - trend if self.is_mean else y


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

"""The formula of a prediction, without the experts: what a Dask worker needs besides its shard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpexperts.aggregation import Aggregator
from gpexperts.calibration import Widths
from gpexperts.columns import ColumnEncoder
from gpexperts.experts.moments import Prediction, Request
from gpexperts.scaling import Standardizer
from gpexperts.selection import Selector
from gpexperts.selection.base import checked_index
from gpexperts.target import TargetTransform
from gpexperts.trend import FittedTrend, TrendValues

__all__ = ["Formula", "experts_inputs"]


@dataclass(frozen=True)
class Formula:
    """Turns queries into an index of experts, and the moments of experts into a prediction; picklable."""

    x_scale: Standardizer
    y_scale: Standardizer
    selector: Selector
    n_selected: int
    n_neighbors: int
    n_experts: int
    aggregator: Aggregator
    """With its corrections."""
    prune: float
    noise_variance: float
    variance_scale: np.ndarray
    """(p,) factor of an observation's variance."""
    encoder: ColumnEncoder
    """The columns of the user's table ↦ inputs."""
    trend: FittedTrend | None = None
    target: TargetTransform | None = None

    def inputs(
        self, X: np.ndarray, trend_values: TrendValues | None = None
    ) -> tuple[np.ndarray, TrendValues]:
        """Return encoded inputs (n, d) in the units of the experts, and what the trend adds.

        `trend_values` are those of the trend, where they are known already.
        """
        return experts_inputs(X, self.trend, self.x_scale, trend_values)

    def select(self, X: np.ndarray) -> np.ndarray:
        """Return the selected experts (n, K) of queries X (n, d), in the units of the experts."""
        if self.n_selected == 0:
            return np.empty((len(X), 0), dtype=np.int64)
        return checked_index(self.selector.select(X, self.n_selected), len(X), self.n_experts)

    def select_without(self, X: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Return the selected experts (n, K) of training rows, each as if it were not among the rows."""
        if self.n_selected == 0:
            return np.empty((len(X), 0), dtype=np.int64)
        index = self.selector.select_without(X, self.n_selected, positions)
        return checked_index(index, len(X), self.n_experts)

    @property
    def n_own(self) -> int:
        """Columns of the moments that belong to the own expert, the first ones: 0 or 1."""
        return int(self.n_neighbors > 0)

    @property
    def request(self) -> Request:
        """The moments that the aggregator needs."""
        return Request(
            covariance=self.aggregator.needs_covariance,
            communication=self.aggregator.needs_communication,
            local_noise=self.aggregator.needs_local_noise,
            n_neighbors=self.n_neighbors,
            prune=self.prune,
        )

    def variance(self, prediction: Prediction, latent: bool) -> np.ndarray:
        """(n, p), of the function or of a new observation, in the units of the experts."""
        if latent:
            return np.broadcast_to(prediction.var[:, None], prediction.mean.shape)
        return self.variance_scale * prediction.observation_var(self.noise_variance)

    def restored(
        self, mean: np.ndarray, var: np.ndarray, added: TrendValues, *, latent: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation (n, p) in the user's units; `added` is what the trend adds."""
        transformed = self.transformed(mean, var, added, latent=latent)
        return transformed if self.target is None else self.target.moments(*transformed)

    def transformed(
        self, mean: np.ndarray, var: np.ndarray, added: TrendValues, *, latent: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation (n, p) of the transformed targets, in their units."""
        error = np.sqrt(added.var if latent else added.excess)
        # Not the root of a sum of squares, which underflow for targets of 1e-200.
        return self.y_scale.restore(mean) + added.mean, np.hypot(np.sqrt(var) * self.y_scale.scale, error)

    def interval(
        self, mean: np.ndarray, var: np.ndarray, added: TrendValues, widths: Widths
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper ends (n, p) of intervals in the user's units.

        `widths` are those of the transformed targets, which depend on the std of these.
        """
        centre, std = self.transformed(mean, var, added)
        half = widths(std) * std
        ends = centre - half, centre + half
        return ends if self.target is None else (self.target.inverse(ends[0]), self.target.inverse(ends[1]))


def experts_inputs(
    X: np.ndarray,
    trend: FittedTrend | None,
    x_scale: Standardizer,
    trend_values: TrendValues | None = None,
) -> tuple[np.ndarray, TrendValues]:
    """Return encoded inputs (n, d) in the units of the experts, and what the trend adds.

    `trend_values` are those of the trend, where they are known already.
    """
    if trend is None:
        return x_scale.transform(X), TrendValues.nothing(len(X))
    values = trend.predict(X) if trend_values is None else trend_values
    inputs = x_scale.transform(trend.inputs(X, values.mean))
    return inputs, values if trend.is_mean else TrendValues.nothing(len(X))

"""The fitted model: everything that prediction needs, frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from gpexperts.choices import Choice
from gpexperts.columns import ColumnEncoder
from gpexperts.experts.store import ExpertStore, Observations
from gpexperts.formula import experts_inputs
from gpexperts.kernels.base import Covariance
from gpexperts.rows.base import Rows, Units
from gpexperts.scaling import Standardizer
from gpexperts.target import TargetTransform
from gpexperts.training.likelihood import TraceRow
from gpexperts.trend import FittedTrend, TrendValues

__all__ = ["FittedModel", "Seeds"]


class Seeds(NamedTuple):
    """Seeds of the random choices that are made after the fit."""

    selection: int
    """Of selectors that learn."""
    tuning: int
    """Of the rows that are held out to choose K."""


@dataclass(frozen=True)
class FittedModel:
    """What `fit` learns. To change something, make a new one with `dataclasses.replace`."""

    x_scale: Standardizer
    """The user's inputs ↔ the units of the experts."""
    y_scale: Standardizer
    """The user's targets, transformed and less the trend ↔ the units of the experts."""
    experts: ExpertStore
    """Rows, hyperparameters and factors."""
    centroids: np.ndarray
    """(M, d) mean input of each expert, in the units of the experts."""
    labels: np.ndarray | None
    """(n,) expert of each training row; −1 for rows that GRBCM shares, −2 for rows held out by `calibrate`,
    −3 for rows of weight 0 and forgotten rows; None where the rows are on a cluster."""
    one_output: bool
    """Whether y had one dimension."""
    trace: tuple[TraceRow, ...]
    """The steps of training."""
    choices: dict[str, Choice]
    """What every "auto" was resolved to."""
    seeds: Seeds
    calibrate: str | None = None
    """The method that rows were held out for."""
    encoder: ColumnEncoder = field(kw_only=True)
    """The columns of the user's table ↦ inputs."""
    y_summary: tuple[np.ndarray, np.ndarray] = field(kw_only=True)
    """Mean and standard deviation (p,) of the training targets, in the user's units."""
    held_out: Observations | None = None
    """Rows that no expert has seen, in the units of the experts."""
    trend: FittedTrend | None = None
    """What is added to the experts' prediction, or to their inputs."""
    target: TargetTransform | None = None
    """What the targets were transformed by; None for nothing."""
    targets: np.ndarray | None = None
    """(n, p) targets of the rows that experts have seen, in their order, in the user's units; None where the
    experts hold them, or where the rows are on a cluster."""
    weight_unit: float = 1.0
    """The weight of a row that counts as 1."""
    part_size: int = 0
    """Rows of the largest part of the fit, for updates: larger parts than twice that are split. 0 before."""

    @property
    def covariance(self) -> Covariance:
        """The trained covariance, shared by all experts."""
        return self.experts.covariance

    def inputs(self, X: np.ndarray) -> tuple[np.ndarray, TrendValues]:
        """Return encoded inputs (n, d) in the units of the experts, and what the trend adds."""
        return experts_inputs(X, self.trend, self.x_scale)

    def nearest_parts(self, X: np.ndarray) -> np.ndarray:
        """Return the part (k,) with the nearest centroid to inputs X (k, d), in the units of the experts."""
        metric = self.covariance.metric(np.ones(X.shape[1]))
        return np.asarray(cKDTree(self.centroids / metric).query(X / metric)[1])

    def user_inputs(self, X: np.ndarray) -> np.ndarray:
        """Return inputs (…, d') of experts in the user's units, encoded, without those of the trend."""
        return self.x_scale.restore(X)[..., : self.n_inputs]

    def observations(self, X: np.ndarray, y: np.ndarray, noise: np.ndarray) -> Observations:
        """Return new rows as experts see them.

        The trend has not seen them, so that its values are those of queries.

        Parameters
        ----------
        X : ndarray of shape (k, d)
            Encoded inputs.
        y : ndarray of shape (k, p)
            In the user's units.
        noise : ndarray of shape (k, 2) or (k, 0)
            Weights and given noise, see `row_noise`; those of the user.
        """
        if self.target is not None:
            X, y, noise = self.target(Rows(np.arange(len(X)), X, y, noise))
        if self.trend is not None:
            X, y = self.trend.rows(X, y, self.trend.mean(X))
        return Observations(*Units(self.x_scale, self.y_scale, self.weight_unit).apply(X, y, noise))

    def user_targets(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return targets (k, p) of experts in the user's units; the trend at X (k, d') is that of queries."""
        y = self.y_scale.restore(y)
        if self.trend is not None and self.trend.is_mean:
            y = y + self.trend.mean(self.user_inputs(X))
        return np.asarray(y if self.target is None else self.target.inverse(y))

    @property
    def n_inputs(self) -> int:
        """Number of encoded inputs, without those of the trend."""
        return self.encoder.width

    @property
    def row_numbers(self) -> np.ndarray | None:
        """The user's number of each row that experts have seen; None where the rows are on a cluster."""
        return None if self.labels is None else np.flatnonzero(self.labels >= -1)

    @property
    def n_outputs(self) -> int:
        """Number of targets."""
        return self.experts.n_outputs

    def shaped(self, values: np.ndarray) -> np.ndarray:
        """Drop the last axis, of the outputs, where y had one dimension."""
        return values[..., 0] if self.one_output else values

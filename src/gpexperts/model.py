"""The fitted model: everything that prediction needs, frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpexperts.choices import Choice
from gpexperts.experts.store import ExpertStore
from gpexperts.kernels.base import Covariance
from gpexperts.scaling import Standardizer
from gpexperts.training.likelihood import TraceRow

__all__ = ["FORGOTTEN", "FittedModel", "Seeds"]

FORGOTTEN = -3
"""Label of a row that was forgotten; its number is not used again."""


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
    """The user's targets ↔ the units of the experts."""
    experts: ExpertStore
    """Rows, hyperparameters and factors."""
    centroids: np.ndarray
    """(M, d) mean input of each expert, in the units of the experts."""
    labels: np.ndarray | None
    """(n,) expert of each training row; −1 for rows that GRBCM shares, −2 for rows held out by `calibrate`,
    −3 for forgotten rows; None where the rows are on a cluster."""
    one_output: bool
    """Whether y had one dimension."""
    trace: tuple[TraceRow, ...]
    """The steps of training."""
    choices: dict[str, Choice]
    """What every "auto" was resolved to."""
    seeds: Seeds
    calibrate: str | None = None
    """The method that rows were held out for."""
    held_out: tuple[np.ndarray, np.ndarray] | None = None
    """Inputs (n, d) and targets (n, p) that no expert has seen, in the units of the experts."""
    part_size: int = 0
    """Rows of the largest part of the fit, for updates: larger parts than twice that are split. 0 before."""

    @property
    def covariance(self) -> Covariance:
        """The trained covariance, shared by all experts."""
        return self.experts.covariance

    @property
    def n_outputs(self) -> int:
        """Number of targets."""
        return self.experts.n_outputs

    def shaped(self, values: np.ndarray) -> np.ndarray:
        """Drop the last axis, of the outputs, where y had one dimension."""
        return values[..., 0] if self.one_output else values

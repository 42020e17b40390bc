"""Predictive training on the neighbourhoods that a sampler draws, and scores on fresh ones."""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

from gpexperts.engines.base import Engine
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.stationary import StationaryCovariance
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.corrected import predicted_from_neighbours
from gpexperts.training.evidence import Evidence
from gpexperts.training.predictive import maximise_density

__all__ = ["PREDICTED", "Stage", "evidence_of_fresh_rows", "is_trainable", "trained_on_neighbours"]

PREDICTED = 4
"""Rows of each neighbourhood that are predicted in training."""


class Stage(NamedTuple):
    """A stage of predictive training."""

    n_rows: int
    """At most half of all rows are drawn."""
    n_neighbors: int
    max_steps: int


def is_trainable(covariance: Covariance) -> TypeGuard[StationaryCovariance]:
    """Whether the density of rows given their neighbours has gradients with respect to θ."""
    return isinstance(covariance, StationaryCovariance) and not covariance.has_shape_parameter


def trained_on_neighbours(
    covariance: StationaryCovariance, sampler: BlockSampler, engine: Engine, stages: tuple[Stage, ...]
) -> StationaryCovariance:
    """Maximise density and accuracy of rows given their neighbours, which each stage finds again."""
    for stage in stages:
        n_rows = min(stage.n_rows, sampler.n // 2)
        rows = sampler.neighbourhoods(covariance.metric(sampler.spread), n_rows, stage.n_neighbors)
        covariance = maximise_density(
            covariance, rows, engine, predicted=PREDICTED, max_steps=stage.max_steps
        )
    return covariance


def evidence_of_fresh_rows(
    covariance: StationaryCovariance, sampler: BlockSampler, engine: Engine, n_rows: int, n_neighbors: int
) -> Evidence:
    """Corrected log density and squared error of rows that training has not drawn, per row and output."""
    rows = sampler.fresh_neighbourhoods(covariance.metric(sampler.spread), n_rows, n_neighbors)
    return predicted_from_neighbours(covariance, rows, engine).evidence()

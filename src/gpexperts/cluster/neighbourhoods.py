"""Training blocks as dense as the data, around rows of a sample that is not.

    sample ─► centres, one of each region
    block  ─► its rows nearest to each centre ─┐
    block  ─► its rows nearest to each centre ─┴─► the nearest of both ─► …  ─► here

Fine structure shows in rows that are close together, and those of a sample are the further apart the more
rows it stands for. Regions do not need more rows than the sample has; neighbours do. Every draw passes once
over all the rows, and what comes here does not grow with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from gpexperts.cluster.inputs import Block
from gpexperts.engines import traffic
from gpexperts.engines.dask import DaskEngine
from gpexperts.scaling import Standardizer
from gpexperts.training.blocks import regions, sample_blocks
from gpexperts.training.likelihood import Block as TrainingBlock

__all__ = ["Neighbourhoods"]

FAN_IN = 16
"""Blocks, or groups of blocks, whose nearest rows are compared in one task."""


class _Wanted(NamedTuple):
    """Whose neighbours are wanted, and in which units."""

    centres: np.ndarray
    """(C, d) standardised."""
    scale: np.ndarray
    """(d,) lengths that count as equal."""
    n_neighbours: int
    x_scale: Standardizer
    y_scale: Standardizer
    teaches: Any
    """Which outputs are wanted."""


class _Nearest(NamedTuple):
    """The k rows nearest to each of C centres, nearest first."""

    distance: np.ndarray
    """(C, k)"""
    X: np.ndarray
    """(C, k, d)"""
    y: np.ndarray
    """(C, k, p)"""


class Neighbourhoods:
    """Draws blocks from rows on a cluster; called as :func:`gpexperts.training.blocks.sample_blocks`.

    Parameters
    ----------
    engine : DaskEngine
    blocks : list of Delayed
        All rows, (X, y) of each block.
    x_scale, y_scale : Standardizer
        The units of the sample.
    teaches : ndarray of bool or slice
        The outputs that the sample has.
    """

    def __init__(
        self,
        engine: DaskEngine,
        blocks: Sequence[Any],
        x_scale: Standardizer,
        y_scale: Standardizer,
        teaches: Any,
    ) -> None:
        self._engine, self._blocks = engine, list(blocks)
        self._units = x_scale, y_scale, teaches

    def __call__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        scale: np.ndarray,
        *,
        n_blocks: int,
        block_size: int,
        random_state: np.random.RandomState,
    ) -> list[TrainingBlock]:
        """Cut the sample X (k, d) into regions and return the neighbours of a random row of each.

        Where the sample has no more rows than the blocks take, its own rows are the blocks.
        """
        if n_blocks * block_size >= len(X):
            return sample_blocks(
                X, y, scale, n_blocks=n_blocks, block_size=block_size, random_state=random_state
            )
        centres = [
            rows[random_state.randint(len(rows))] for rows in regions(X / scale, n_blocks, random_state)
        ]
        task = self._engine.task
        wanted = task("places to train at", _Wanted, X[centres], scale, block_size, *self._units)
        found = [
            task(f"neighbours in block {b}", _nearest, block, wanted) for b, block in enumerate(self._blocks)
        ]
        row_bytes = 8 * (1 + X.shape[1] + y.shape[1])
        while len(found) > 1:
            traffic.count(exchanged=len(found) * n_blocks * block_size * row_bytes)
            found = [
                task(f"neighbours {k}", _nearest_of_all, found[k : k + FAN_IN], wanted)
                for k in range(0, len(found), FAN_IN)
            ]
        (nearest,) = self._engine.compute(found)
        return [TrainingBlock(*rows) for rows in zip(nearest.X, nearest.y, strict=True)]


def _nearest(block: Block, wanted: _Wanted) -> _Nearest:
    """The rows of a block that are nearest to each centre."""
    X, y = wanted.x_scale.transform(block[0]), wanted.y_scale.transform(block[1])[:, wanted.teaches]
    k = min(wanted.n_neighbours, len(X))
    if k == 0:
        none = (len(wanted.centres), 0)
        return _Nearest(np.empty(none), np.empty((*none, X.shape[1])), np.empty((*none, y.shape[1])))
    # A tree that is asked a few hundred times pays for no more than a quick cut.
    tree = cKDTree(X / wanted.scale, leafsize=64, balanced_tree=False, compact_nodes=False)
    distance, row = tree.query(wanted.centres / wanted.scale, k=np.arange(1, k + 1))
    return _Nearest(distance, X[row], y[row])


def _nearest_of_all(some: Sequence[_Nearest], wanted: _Wanted) -> _Nearest:
    """The nearest rows of several blocks; of rows as near as each other, the first block's come first."""
    distance, X, y = (np.concatenate(arrays, axis=1) for arrays in zip(*some, strict=True))
    first = np.argsort(distance, axis=1, kind="stable")[:, : wanted.n_neighbours]
    centre = np.arange(len(distance))[:, None]
    return _Nearest(distance[centre, first], X[centre, first], y[centre, first])

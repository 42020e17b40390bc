"""Small blocks of neighbouring rows, one from every region of the data, to train on.

Hyperparameters do not need every row. They need fine structure (so rows that are close together) and
every region (so one block from each of many parts of equal size): a few whole parts miss the odd
region, and a random subset of rows sees no fine structure.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpexperts.partition.balanced import BalancedPartitioner
from gpexperts.training.likelihood import Block

__all__ = ["BlockDrawer", "regions", "sample_blocks"]

BlockDrawer = Callable[..., list[Block]]
"""Draws blocks as `sample_blocks` does, with its arguments; where rows are far away, in another way."""


def sample_blocks(
    X: np.ndarray,
    y: np.ndarray,
    scale: np.ndarray,
    *,
    n_blocks: int,
    block_size: int,
    random_state: np.random.RandomState,
) -> list[Block]:
    """Cut the rows into `n_blocks` equal parts and take from each a random row with its neighbours.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, p)
    scale : ndarray of shape (d,)
        Lengths that count as equal in the different inputs: the length scales learned so far.
    n_blocks : int
    block_size : int
        Rows per block. Where the parts are not larger than that, the blocks are the parts and every
        row is used once.
    random_state : RandomState

    Returns
    -------
    list of Block
    """
    n_blocks = max(1, min(n_blocks, -(-len(X) // block_size)))
    Z = X / scale
    blocks = []
    for rows in regions(Z, n_blocks, random_state):
        if len(rows) > block_size:
            centre = Z[rows[random_state.randint(len(rows))]]
            distance = ((Z[rows] - centre) ** 2).sum(axis=1)
            rows = rows[np.argpartition(distance, block_size)[:block_size]]
        blocks.append(Block(X[rows], y[rows]))
    return blocks


def regions(Z: np.ndarray, n_regions: int, random_state: np.random.RandomState) -> list[np.ndarray]:
    """Cut the rows of Z (n, d) into regions of equal size; returns the rows of each."""
    labels = BalancedPartitioner().partition(Z, n_regions, random_state)
    return np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])

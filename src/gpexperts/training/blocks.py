"""Small blocks of neighbouring rows, one from every region of the data, to train on.

Hyperparameters do not need every row. They need fine structure (rows that are close together) and every
region (one block from each of many regions of equal size): a few whole parts may miss a region, and a
random subset of rows shows no fine structure.
"""

from __future__ import annotations

import numpy as np

from gpexperts.partition.balanced import BalancedPartitioner
from gpexperts.row_noise import weights
from gpexperts.rows.arrays import ArrayRows
from gpexperts.rows.base import Rows, RowSource
from gpexperts.scaling import ColumnSummary
from gpexperts.training.compact import compact
from gpexperts.training.likelihood import Block
from gpexperts.training.predictive import Neighbourhoods

__all__ = ["BlockSampler", "regions"]

_USUAL = 0.005, 0.995
"""Quantiles between which targets are usual."""


class BlockSampler:
    """Draws training blocks from a row source, by row number.

    Parameters
    ----------
    source : RowSource
    sample : Rows
        Of the source, or all of it; divides space into regions.
    outputs : ndarray of int
        Columns of y to train on.
    random_state : RandomState
    scale_index : ndarray of int, shape (d,), optional
        The length scale of each input, where several share one.
    """

    def __init__(
        self,
        source: RowSource,
        sample: Rows,
        outputs: np.ndarray,
        random_state: np.random.RandomState,
        scale_index: np.ndarray | None = None,
    ) -> None:
        self._source, self.sample, self._outputs = source, sample, outputs
        self.random_state, self._scale_index = random_state, scale_index
        self.n = source.n
        self._order = np.random.RandomState(random_state.randint(2**31 - 1)).permutation(len(sample.number))
        w = weights(sample.noise) if sample.noise.shape[1] else None
        self.variance = _variance(sample.y[:, outputs], w)
        self.spread = ColumnSummary.of(sample.X, w).shared_spread(scale_index)
        """(d,) of each input; of all inputs together that share a length scale; 1 for constant ones."""
        self.y_spread = ColumnSummary.of(sample.y[:, outputs], w).spread
        """(p,) of each output to train on."""
        low, high = np.quantile(sample.y[:, outputs], _USUAL, axis=0)
        self.y_width = float(np.linalg.norm(high - low)) or np.inf
        """Width of the range of the usual targets, of all outputs together."""

    def draw(self, metric: np.ndarray, n_blocks: int, block_size: int) -> list[Block]:
        """Divide space into `n_blocks` regions and take from each a random row with its nearest rows.

        Parameters
        ----------
        metric : ndarray of shape (d,)
            Lengths that count as equal in the different inputs: the length scales learned so far.
        n_blocks : int
        block_size : int
            Rows per block. Where the blocks would take all rows, the regions are the blocks, and every
            row is used once. Where the sample is the source, the nearest rows are those of the region, and
            no row is used twice.
        """
        n_blocks = max(1, min(n_blocks, -(-self.n // block_size)))
        if n_blocks * block_size >= self.n:
            rows = self._source.take(np.arange(self.n))
            return [self._block(rows, own) for own in regions(rows.X / metric, n_blocks, self.random_state)]
        Z = self.sample.X / metric
        divided = regions(Z, n_blocks, self.random_state)
        centres = [own[self.random_state.randint(len(own))] for own in divided]
        if len(Z) == self.n:
            return [
                self._block(self.sample, _nearest(Z, own, centre, block_size))
                for own, centre in zip(divided, centres, strict=True)
            ]
        numbers = np.sort(self._source.nearest(self.sample.X[centres], metric, block_size), axis=1)
        rows = self._source.take(np.unique(numbers))
        return [self._block(rows, np.searchsorted(rows.number, own)) for own in numbers]

    def neighbourhoods(self, metric: np.ndarray, n_rows: int, m: int) -> Neighbourhoods:
        """Draw rows at random and return each with its m nearest other rows, the drawn row last."""
        return self._neighbourhoods(metric, self._order[:n_rows], m)

    def fresh_neighbourhoods(
        self, metric: np.ndarray, n_rows: int, m: int, fold: np.ndarray | None = None
    ) -> Neighbourhoods:
        """The same for other rows, as long as there are enough.

        With `fold` (n,), neighbours are of other folds than the drawn row; −1 is no fold.
        """
        drawn = self._order[::-1][:n_rows]
        return self._neighbourhoods(metric, drawn, m) if fold is None else self._apart(metric, drawn, m, fold)

    def of_sample(self, most: int = 0) -> BlockSampler:
        """Return a sampler of the sample, or of at most so many rows: a search there takes less time."""
        if max(most, len(self.sample.number)) >= self.n:
            return self
        sample = self._source.sample(most, self.random_state) if most else self.sample
        rows = ArrayRows(sample.X, sample.y, sample.noise)
        whole = rows.take(np.arange(rows.n))
        return BlockSampler(rows, whole, self._outputs, self.random_state, self._scale_index)

    def _neighbourhoods(self, metric: np.ndarray, drawn: np.ndarray, m: int) -> Neighbourhoods:
        m, n_rows = min(m, self.n - 1), len(drawn)
        own = self.sample.number[drawn][:, None]
        numbers = self._source.nearest(self.sample.X[drawn], metric, m + 1)
        # Each row is its own nearest row; if more than m others have the same inputs, the last is dropped.
        own_column = np.where((numbers == own).any(axis=1), np.argmax(numbers == own, axis=1), m)
        others = np.arange(m + 1) != own_column[:, None]
        return self._systems(numbers[others].reshape(n_rows, m), own)

    def _apart(self, metric: np.ndarray, drawn: np.ndarray, m: int, fold: np.ndarray) -> Neighbourhoods:
        own = self.sample.number[drawn][:, None]
        numbers = self._source.nearest(self.sample.X[drawn], metric, min(2 * m + 1, self.n))
        others = (numbers != own) & ((fold[numbers] != fold[own]) | (fold[own] < 0))
        m = min(m, int(others.sum(axis=1).min()))
        first = others & (np.cumsum(others, axis=1) <= m)
        return self._systems(numbers[first].reshape(len(drawn), m), own)

    def _systems(self, numbers: np.ndarray, own: np.ndarray) -> Neighbourhoods:
        """Rows by their numbers (k, m), nearest first, as systems that end with the drawn row (k, 1)."""
        system = np.concatenate([numbers[:, ::-1], own], axis=1)
        rows = self._source.take(np.unique(system))
        at = np.searchsorted(rows.number, system)
        X, index = compact(rows.X, at, self._scale_index)
        return Neighbourhoods(X, rows.y[:, self._outputs][at], rows.noise[at], index)

    def _block(self, rows: Rows, positions: np.ndarray) -> Block:
        return Block(rows.X[positions], rows.y[positions][:, self._outputs], rows.noise[positions])


def regions(Z: np.ndarray, n_regions: int, random_state: np.random.RandomState) -> list[np.ndarray]:
    """Divide the rows of Z (n, d) into regions of equal size; returns the positions of each."""
    if n_regions == 1:
        return [np.arange(len(Z))]
    labels = BalancedPartitioner().partition(Z, n_regions, random_state)
    return np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])


def _nearest(Z: np.ndarray, own: np.ndarray, centre: int, k: int) -> np.ndarray:
    """Positions of the k rows of a region that are nearest to its centre, ascending."""
    distance = ((Z[own] - Z[centre]) ** 2).sum(axis=1)
    return np.sort(own[np.argpartition(distance, k - 1)[:k]])


def _variance(y: np.ndarray, weight: np.ndarray | None) -> float:
    """Variance of all values of y (n, p), whose rows may have weights (n,)."""
    if weight is None:
        return float(y.var())
    share = np.repeat(weight[:, None], y.shape[1], axis=1)
    return float(np.average((y - np.average(y, weights=share)) ** 2, weights=share))

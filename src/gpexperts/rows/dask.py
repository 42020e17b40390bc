"""Rows of a Dask collection: they stay on the workers; rows requested by number are gathered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gpexperts.columns import ColumnEncoder
from gpexperts.columns.encoder import profile_columns
from gpexperts.columns.frames import frame_of, rows_of
from gpexperts.columns.profile import Categorical, ColumnProfile, merged_profile
from gpexperts.engines.dask import DaskEngine
from gpexperts.row_noise import weights
from gpexperts.rows.base import Mapping, Route, Rows, RowSource, Units
from gpexperts.rows.collections import checked_inputs, checked_rows, has_only_numbers, paired_partitions
from gpexperts.rows.neighbours import Nearest, RowIndex, merged
from gpexperts.scaling import ColumnSummary, Standardizer

__all__ = ["DaskRows"]

Block = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Inputs (k, d), targets (k, p) and the table of noise of a partition."""

_FAN_IN = 16
"""Partitions whose nearest rows are merged in one task."""
_KEPT_SHARE = 0.1
"""Partitions that take no more than this share of the workers' memory stay there during a fit; larger ones
are read again whenever they are needed."""
_SHARDS_PER_BUNDLE, _BUNDLE_BYTES = 10, 32 * 1024**2
"""Shards are shuffled in bundles, since every partition sends one piece to every bundle. A bundle has at most
this many shards, and rows of this many bytes or one shard: it must fit a worker several times."""


class DaskRows(RowSource):
    """Rows in the partitions of a Dask collection.

    Parameters
    ----------
    engine : DaskEngine
    blocks : list of Delayed
        The `Block` of each partition.
    summaries : list of tuple of ColumnSummary
        Of the X and y of each partition, before `units` are applied.
    units : tuple of Units
        Applied to every row that is returned, one after the other.
    """

    def __init__(
        self,
        engine: DaskEngine,
        blocks: list[Any],
        summaries: list[tuple[ColumnSummary, ColumnSummary]],
        units: tuple[Units, ...] = (),
    ) -> None:
        self.engine, self._blocks, self._summaries, self._units = engine, blocks, summaries, units
        self._starts = np.concatenate([[0], np.cumsum([x.n for x, _ in summaries])])
        self.n = int(self._starts[-1])
        self.n_features, self.n_outputs = (len(s.mean) for s in summaries[0])

    @classmethod
    def of(
        cls,
        engine: DaskEngine,
        X: Any,
        y: Any,
        categorical: Categorical = "from_dtype",
        weight: Any = None,
        given_std: Any = None,
    ) -> tuple[DaskRows, ColumnEncoder, list[str] | None, bool]:
        """Read a collection.

        Parameters
        ----------
        engine : DaskEngine
        X, y : dask array or frame; y may be an array
        categorical : list, str or None
            A checked `categorical_features`.
        weight, given_std : array-like, dask array or series of shape (n,), optional
            Of each row; rows of weight 0 are left out.

        Returns
        -------
        rows : DaskRows
            Encoded.
        encoder : ColumnEncoder
        names : list of str or None
            Columns of X, if it is a data frame.
        one_output : bool
            Whether y has one dimension.
        """
        given, names, one_output = paired_partitions(X, y, weight, given_std)
        encoder = rows = None
        # The mean that fills gaps of new rows is that of rows, whatever their weights.
        if has_only_numbers(X) and not isinstance(categorical, list) and weight is None:
            rows = cls._encoded(engine, given, None)
            mean = rows.summary()[0].mean if rows.n else np.array([np.nan])
            if not np.isnan(mean).any():
                encoder = ColumnEncoder.numbers(rows.n_features, names, mean)
        if encoder is None and (rows is None or rows.n):
            profiles = engine.compute(
                [
                    engine.task(f"profile of partition {b}", _profiles, b, X_b, weight_b, categorical, names)
                    for b, (X_b, _, weight_b, _) in enumerate(given)
                ]
            )
            encoder = ColumnEncoder.of(map(merged_profile, zip(*profiles, strict=True)))
            rows = cls._encoded(engine, given, encoder)
        assert rows is not None
        if encoder is None or rows.n == 0:
            raise ValueError(
                "Found array with 0 sample(s): every partition of X is empty; fit needs rows."
                if weight is None
                else "Sample weights must contain a non-zero number: sample_weight is 0 for every row."
            )
        return rows, encoder, names, one_output

    @classmethod
    def _encoded(
        cls, engine: DaskEngine, given: list[tuple[Any, Any, Any, Any]], encoder: ColumnEncoder | None
    ) -> DaskRows:
        blocks = [
            engine.task(f"partition {b}", checked_rows, b, *columns, encoder)
            for b, columns in enumerate(given)
        ]
        summaries = engine.compute(
            [engine.task(f"summary of partition {b}", _summary, block) for b, block in enumerate(blocks)]
        )
        return cls(engine, blocks, summaries)

    def kept(self) -> DaskRows:
        """Return the same rows, kept on the workers if that leaves room for everything else."""
        room = (self.engine.worker_memory or 0) * self.engine.n_workers
        if self._n_bytes > _KEPT_SHARE * room:
            return self
        return DaskRows(self.engine, self.engine.persist(self._blocks), self._summaries, self._units)

    @property
    def _n_bytes(self) -> int:
        return 8 * self.n * (self.n_features + self.n_outputs)

    def summary(self) -> tuple[ColumnSummary, ColumnSummary]:
        of_x, of_y = (ColumnSummary.combined(column) for column in zip(*self._summaries, strict=True))
        for units in self._units:
            of_x, of_y = _scaled(of_x, units.x), _scaled(of_y, units.y)
        return of_x, of_y

    def in_units(self, units: Units) -> DaskRows:
        return DaskRows(self.engine, self._blocks, self._summaries, (*self._units, units))

    def mapped(self, function: Mapping) -> DaskRows:
        blocks = [
            self.engine.task(f"prepared partition {b}", _mapped, block, int(start), self._units, function)
            for b, (block, start) in enumerate(zip(self._blocks, self._starts[:-1], strict=True))
        ]
        return DaskRows(self.engine, blocks, self._summaries_of(blocks))

    def _summaries_of(self, blocks: list[Any]) -> list[tuple[ColumnSummary, ColumnSummary]]:
        return self.engine.compute(
            [self.engine.task(f"summary of partition {b}", _summary, block) for b, block in enumerate(blocks)]
        )

    def without(self, numbers: np.ndarray) -> DaskRows:
        blocks = [
            self.engine.task(f"partition {b} without rows", _without, block, local) if len(local) else block
            for b, (block, local) in enumerate(zip(self._blocks, self._local(numbers), strict=True))
        ]
        return DaskRows(self.engine, blocks, self._summaries_of(blocks), self._units)

    def _local(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Ascending numbers ↦ positions in each partition."""
        return [
            part - start
            for part, start in zip(
                np.split(numbers, np.searchsorted(numbers, self._starts[1:-1])), self._starts, strict=False
            )
        ]

    def take(self, numbers: np.ndarray) -> Rows:
        work = [
            self.engine.task(f"rows of partition {b}", _taken, block, local, self._units)
            for b, (block, local) in enumerate(zip(self._blocks, self._local(numbers), strict=True))
            if len(local)
        ]
        if not work:
            return Rows(
                numbers, np.empty((0, self.n_features)), np.empty((0, self.n_outputs)), np.empty((0, 0))
            )
        return Rows(numbers, *map(np.concatenate, zip(*self.engine.compute(work), strict=True)))

    def nearest(self, points: np.ndarray, metric: np.ndarray, m: int) -> np.ndarray:
        wanted = self.engine.task("points", _wanted, points, metric, m, self._units)
        found = [
            self.engine.task(f"nearest rows of partition {b}", _nearest, block, int(start), wanted)
            for b, (block, start) in enumerate(zip(self._blocks, self._starts[:-1], strict=True))
        ]
        while len(found) > 1:
            found = [
                self.engine.task(f"nearest rows {k}", merged, found[k : k + _FAN_IN], m)
                for k in range(0, len(found), _FAN_IN)
            ]
        (nearest,) = self.engine.compute(found)
        return np.asarray(nearest.number)

    def shard_sizes(self, route: Route, n_shards: int) -> np.ndarray:
        work = [
            self.engine.task(f"sizes {b}", _sizes, block, int(start), self._units, route, n_shards)
            for b, (block, start) in enumerate(zip(self._blocks, self._starts[:-1], strict=True))
        ]
        return np.sum(self.engine.compute(work), axis=0)

    def map_shards(
        self, route: Route, n_shards: int, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        task = self.engine.task
        borders = self._bundles(n_shards)
        splits = self.engine.persist(
            [
                task(f"split of partition {b}", _split, block, int(start), self._units, route, borders)
                for b, (block, start) in enumerate(zip(self._blocks, self._starts[:-1], strict=True))
            ]
        )
        results = []
        for k, (a, b) in enumerate(pairwise(borders.tolist())):
            pieces = [task(f"rows of shards {a}..{b - 1}", _item, split, k) for split in splits]
            given = list(arguments[a:b])
            bundle = task(f"shards {a}..{b - 1}", _applied, pieces, function, given)
            results += [task(f"shard {g}", _item, bundle, g - a) for g in range(a, b)]
        return self.engine.persist(results)

    def _bundles(self, n_shards: int) -> np.ndarray:
        """Borders of bundles: one per worker while there are shards, more where a bundle would be large."""
        shard_bytes = self._n_bytes // n_shards
        most = min(_SHARDS_PER_BUNDLE, max(1, _BUNDLE_BYTES // max(1, shard_bytes)))
        n_bundles = min(n_shards, max(-(-n_shards // most), self.engine.n_workers))
        return np.linspace(0, n_shards, n_bundles + 1).astype(np.int64)


def _scaled(summary: ColumnSummary, units: Standardizer) -> ColumnSummary:
    """The summary of the same rows in other units."""
    mean, low, high = units.transform(np.stack([summary.mean, summary.low, summary.high]))
    return ColumnSummary(summary.n, mean, summary.std / units.scale, low, high, summary.weight)


# ------------------------------------------------------------------------------ what a worker computes


def _profiles(
    number: int, X: Any, weight: Any, categorical: Categorical, names: list[str] | None
) -> list[ColumnProfile]:
    """Summarise the columns of the rows of positive weight."""
    X = checked_inputs(number, X)
    if weight is not None and len(weight) == len(X):  # other lengths are an error later
        X = rows_of(X, np.flatnonzero(np.asarray(weight, dtype=float).ravel() > 0))
    return profile_columns(frame_of(X, names), categorical)


def _summary(block: Block) -> tuple[ColumnSummary, ColumnSummary]:
    X, y, noise = block
    w = weights(noise) if noise.shape[1] else None
    return ColumnSummary.of(X, w), ColumnSummary.of(y, w)


def _mapped(block: Block, start: int, units: tuple[Units, ...], function: Mapping) -> Block:
    X, y, noise = _in_units(block, units)
    return function(Rows(start + np.arange(len(X)), X, y, noise))


def _without(block: Block, positions: np.ndarray) -> Block:
    X, y, noise = (np.delete(column, positions, axis=0) for column in block)
    return X, y, noise


def _in_units(block: Block, units: tuple[Units, ...]) -> Block:
    for each in units:
        block = each.apply(*block)
    return block


def _taken(block: Block, positions: np.ndarray, units: tuple[Units, ...]) -> Block:
    X, y, noise = (column[positions] for column in block)
    return _in_units((X, y, noise), units)


Wanted = tuple[np.ndarray, np.ndarray, int, tuple[Units, ...]]


def _wanted(points: np.ndarray, metric: np.ndarray, m: int, units: tuple[Units, ...]) -> Wanted:
    return points, metric, m, units


def _nearest(block: Block, start: int, wanted: Wanted) -> Nearest:
    points, metric, m, units = wanted
    X, _, _ = _in_units(block, units)
    m = min(m, len(X))
    if m == 0:
        return Nearest(np.empty((len(points), 0)), np.empty((len(points), 0), dtype=np.int64))
    positions, squared_distance = RowIndex(X, metric).nearest(points, m)
    return Nearest(squared_distance, start + positions)


def _routed(block: Block, start: int, units: tuple[Units, ...], route: Route) -> tuple[Rows, np.ndarray]:
    X, y, noise = _in_units(block, units)
    rows = Rows(start + np.arange(len(X)), X, y, noise)
    return rows, route(rows.X, rows.number)


def _sizes(block: Block, start: int, units: tuple[Units, ...], route: Route, n_shards: int) -> np.ndarray:
    _, shard = _routed(block, start, units, route)
    return np.bincount(shard[shard >= 0], minlength=n_shards)


def _split(
    block: Block, start: int, units: tuple[Units, ...], route: Route, borders: np.ndarray
) -> list[list[Rows]]:
    """Rows by bundle and shard; bundle b has the shards ``borders[b]`` to ``borders[b + 1] − 1``."""
    rows, shard = _routed(block, start, units, route)
    order = np.argsort(shard, kind="stable")
    ends = np.searchsorted(shard[order], np.arange(borders[-1] + 1))
    pieces = [rows.take(order[a:b]) for a, b in pairwise(ends)]
    return [pieces[a:b] for a, b in pairwise(borders.tolist())]


def _applied(
    pieces: Sequence[Sequence[Rows]], function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
) -> list[Any]:
    """Apply a function to the rows of each shard of a bundle, whose pieces come from all partitions."""
    results = []
    for g, given in enumerate(arguments):
        columns = zip(*(of_partition[g] for of_partition in pieces), strict=True)
        results.append(function(Rows(*map(np.concatenate, columns)), *given))
    return results


def _item(several: Sequence[Any], k: int) -> Any:
    return several[k]

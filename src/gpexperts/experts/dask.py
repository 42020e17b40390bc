"""Experts on a Dask cluster: contiguous shards of them, each the result of a task.

    shard g, queries ─► evaluate ─┐
                                  ├─► moments_of ─► moments of a batch of queries
    shard h, queries ─► evaluate ─┘

A shard keeps its rows and factors on its worker. A task runs the functions of `gather` on the shard that it
holds; there is one task per shard that the queries use, and one per batch of queries.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gpexperts.engines.base import Engine
from gpexperts.engines.dask import DaskEngine
from gpexperts.engines.threads import ThreadEngine
from gpexperts.engines.worker import keep_freed_memory
from gpexperts.exceptions import ClusterError
from gpexperts.experts.dask_neighbours import Boxes, box_of, neighbourhood_graph
from gpexperts.experts.gather import Evaluated, evaluate, evaluate_own, moments_of
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.moments import ExpertMoments, ExpertPrediction, Request
from gpexperts.experts.own import Neighbourhood
from gpexperts.experts.store import ExpertStore, Observations, Sample
from gpexperts.kernels.base import Covariance

__all__ = ["DaskExperts", "Gathered"]

_FEWEST_QUERIES = 64
"""Of a batch that is evaluated by itself."""


class Gathered(NamedTuple):
    """The moments of a batch of queries, and the experts that needed jitter."""

    moments: ExpertMoments
    jitter: dict[int, float]


class DaskExperts(ExpertStore):
    """Experts whose rows and factors are kept by the workers of a cluster.

    Parameters
    ----------
    engine : DaskEngine
    shards : list of Delayed
        Each stands for a `LocalExperts`, in the order of their numbers.
    firsts : ndarray of shape (G + 1,)
        Shard g holds experts ``firsts[g]`` to ``firsts[g + 1] − 1``.
    offsets : ndarray of shape (M + 1,)
    covariance : Covariance
    n_outputs : int
    shared : Observations or None
        GRBCM's communication set.
    communication : Delayed or None
        Stands for the `LocalExperts` that holds the communication expert alone.
    sample : Sample
        Rows for selectors to learn from.
    noise_columns : int
        Of the table of noise, 0 or 2.
    """

    def __init__(
        self,
        engine: DaskEngine,
        shards: Sequence[Any],
        firsts: np.ndarray,
        offsets: np.ndarray,
        covariance: Covariance,
        *,
        n_outputs: int,
        shared: Observations | None = None,
        communication: Any = None,
        sample: Sample,
        noise_columns: int = 0,
    ) -> None:
        self.engine = engine
        self.shards, self.firsts, self.offsets = list(shards), firsts, offsets
        self.covariance = covariance
        self.n_features, self.n_outputs = sample.X.shape[1], n_outputs
        self.shared, self._communication = shared, communication
        self._sample, self.noise_columns = sample, noise_columns
        self.jitter: dict[int, float] = {}
        self._boxes: Boxes | None = None
        self._lock = threading.Lock()

    @property
    def sample(self) -> Sample:
        return self._sample

    # --------------------------------------------------------------------------------------- rows

    def to_local(self, factor_budget: int) -> LocalExperts:
        X, y, numbers, noise = (np.concatenate(list(self.row_batches(k, 1 << 62))) for k in range(4))
        local = LocalExperts(
            X,
            y,
            self.offsets,
            self.covariance,
            numbers=numbers,
            noise=noise,
            shared=self.shared,
            factor_budget=factor_budget,
        )
        local.jitter = dict(self.jitter)
        return local

    def row_batches(self, column: int, max_bytes: int) -> Iterator[np.ndarray]:
        borders = self.offsets[self.firsts]
        width = max(1, (self.n_features, self.n_outputs, 1, self.noise_columns)[column])
        step = max(1, max_bytes // (8 * width))
        for start in range(0, int(borders[-1]), step):
            stop = start + step
            work = [
                self.engine.task(
                    f"rows of shard {g}", _rows_of, shard, slice(max(0, start - a), min(b, stop) - a), column
                )
                for g, (shard, (a, b)) in enumerate(zip(self.shards, pairwise(borders.tolist()), strict=True))
                if start < b and a < stop
            ]
            yield from self.engine.compute(work)

    def _by_shard(self, positions: np.ndarray) -> list[np.ndarray]:
        """Ascending positions among all rows ↦ positions in each shard."""
        starts = self.offsets[self.firsts]
        return [positions[(positions >= a) & (positions < b)] - a for a, b in pairwise(starts)]

    def take(self, positions: np.ndarray) -> Observations:
        work = [
            self.engine.task(f"rows of shard {g}", LocalExperts.take, shard, own)
            for g, (shard, own) in enumerate(zip(self.shards, self._by_shard(positions), strict=True))
            if len(own)
        ]
        if not work:
            widths = (self.n_features, self.n_outputs, self.noise_columns)
            return Observations(*(np.empty((0, width)) for width in widths))
        return Observations(*map(np.concatenate, zip(*self.engine.compute(work), strict=True)))

    def without(self, positions: np.ndarray) -> DaskExperts:
        kept = np.ones(int(self.offsets[-1]), dtype=bool)
        kept[positions] = False
        X, labels, position = self._sample
        stays = kept[position]
        shards = [
            self.engine.task(f"shard {g} without rows", LocalExperts.without, shard, own)
            if len(own)
            else shard
            for g, (shard, own) in enumerate(zip(self.shards, self._by_shard(positions), strict=True))
        ]
        return DaskExperts(
            self.engine,
            self.engine.persist(shards),
            self.firsts,
            np.concatenate([[0], np.cumsum(kept)])[self.offsets],
            self.covariance,
            n_outputs=self.n_outputs,
            shared=self.shared,
            communication=self._communication,
            sample=Sample(X[stays], labels[stays], np.cumsum(kept)[position[stays]] - 1),
            noise_columns=self.noise_columns,
        )

    def robust(self, degrees: float, rounds: int) -> DaskExperts:
        # Each shard re-weights its own copy of the shared rows; the communication expert its own.
        names = [self._name(g) for g in range(len(self.shards))]
        shards = [
            self.engine.task(f"{name} with Student-t noise", LocalExperts.robust, shard, degrees, rounds)
            for name, shard in zip(names, self.shards, strict=True)
        ]
        work, shared = list(shards), self.shared
        if self._communication is not None:
            alone = self.engine.task(
                "communication expert with Student-t noise",
                LocalExperts.robust,
                self._communication,
                degrees,
                rounds,
            )
            work.append(alone)
        kept = self.engine.persist(work)
        if self._communication is not None:
            (shared,) = self.engine.compute([self.engine.task("shared rows", _shared_of, kept[-1])])
        return DaskExperts(
            self.engine,
            kept[: len(shards)],
            self.firsts,
            self.offsets,
            self.covariance,
            n_outputs=self.n_outputs,
            shared=shared,
            communication=None if self._communication is None else kept[-1],
            sample=self._sample,
            noise_columns=4,
        )

    # --------------------------------------------------------------------------------- evaluation

    def gather(self, X: np.ndarray, index: np.ndarray, request: Request, engine: Engine) -> ExpertMoments:
        n_batches = max(1, min(self.engine.n_workers, len(X) // _FEWEST_QUERIES))
        graphs = []
        for some in np.array_split(np.arange(len(X)), n_batches):
            queries = self.engine.task("queries", _pair, X[some], index[some])
            X_there, index_there = (self.engine.task("queries", _item, queries, k) for k in (0, 1))
            graphs.append(self.graph(X_there, index_there, self._shards_of(index[some]), request))
        try:
            gathered = self.engine.compute(graphs)
        except ClusterError as error:
            if error.killed_workers:
                self._name_failing_expert(np.unique(index[index >= 0]), error)
            raise
        for batch in gathered:
            self.jitter.update(batch.jitter)
        return ExpertMoments.concatenate([batch.moments for batch in gathered])

    def _shards_of(self, index: np.ndarray) -> list[int]:
        """The shards that hold the experts of an index."""
        used = np.unique(index[index >= 0])
        return np.unique(np.searchsorted(self.firsts, used, side="right") - 1).tolist()

    def graph(self, X: Any, index: Any, shards: Sequence[int], request: Request) -> Any:
        """Return the task that turns queries and their index into a `Gathered`.

        Parameters
        ----------
        X, index : Delayed
            Queries (n, d) and their selected experts (n, K).
        shards : sequence of int
            Shards whose experts may be selected.
        request : Request
        """
        task = self.engine.task
        near = None
        if request.n_neighbors:
            near = self._neighbourhood(X, request.n_neighbors)
        replies = [
            task(f"predictions of {self._name(g)}", _evaluate, self.shards[g], X, index, request)
            for g in shards
        ]
        communication = None
        if request.communication:
            communication = task("predictions of the communication expert", _last, self._communication, X)
        # Not as a list: Dask would drop the futures in it, and with them the shards, once the model is gone.
        return task(
            "moments",
            _moments,
            self.covariance,
            self.offsets,
            self.n_outputs,
            X,
            index,
            request,
            communication,
            near,
            *replies,
        )

    def _neighbourhood(self, X: Any, m: int) -> Any:
        """The task that finds the nearest rows of the queries X."""
        with self._lock:
            if self._boxes is None:
                metric = self.covariance.metric(np.ones(self.n_features))
                corners = self.engine.compute(
                    [
                        self.engine.task(f"box of shard {g}", box_of, s, metric)
                        for g, s in enumerate(self.shards)
                    ]
                )
                low, high = (np.stack(corner) for corner in zip(*corners, strict=True))
                self._boxes = Boxes(low, high, metric)
        starts = self.offsets[self.firsts]
        return neighbourhood_graph(self.engine, self.shards, starts, self._boxes, X, m)

    def neighbourhood(self, X: np.ndarray, m: int, engine: Engine) -> Neighbourhood:
        queries = self.engine.task("queries", np.asarray, X)
        (near,) = self.engine.compute([self._neighbourhood(queries, m)])
        return near

    def _name(self, g: int) -> str:
        return f"experts {self.firsts[g]}..{self.firsts[g + 1] - 1}"

    def _name_failing_expert(self, used: np.ndarray, error: ClusterError) -> None:
        """Raise an error that names the expert whose matrix ends workers, if there is one.

        Dask names whatever tasks were at the workers that died, so that each candidate is tried alone: the
        shards, those that were named first, and then the experts of the shard that fails.
        """
        shard = np.searchsorted(self.firsts, used, side="right") - 1
        named_by_dask = {g: f"{self._name(g)}'" in str(error) for g in set(shard.tolist())}
        for g in sorted(named_by_dask, key=lambda g: (not named_by_dask[g], g)):
            own = used[shard == g].tolist()
            if len(own) > 1 and self._error_of(g, own) is None:
                continue
            for i in own:
                if named := self._error_of(g, [i]):
                    raise named from error

    def _error_of(self, g: int, experts: list[int]) -> ClusterError | None:
        """The error of factorising the matrices of some experts of a shard, if that ends workers."""
        name = f"expert {experts[0]}" if len(experts) == 1 else f"experts {experts[0]}..{experts[-1]}"
        try:
            self.engine.compute([self.engine.task(name, _factorise, self.shards[g], experts)])
        except ClusterError as error:
            if error.killed_workers:
                return error
        return None


# ------------------------------------------------------------------------------ what a worker computes


@keep_freed_memory()
def _evaluate(
    shard: LocalExperts, X: np.ndarray, index: np.ndarray, request: Request
) -> tuple[list[Evaluated], dict[int, float]]:
    evaluated = evaluate(shard, X, index, request, ThreadEngine(1))
    return evaluated, {shard.first + i: jitter for i, jitter in shard.jitter.items()}


@keep_freed_memory()
def _last(communication: LocalExperts, X: np.ndarray) -> ExpertPrediction:
    return communication.predict(communication.n_experts, X)


@keep_freed_memory()
def _moments(
    covariance: Covariance,
    offsets: np.ndarray,
    n_outputs: int,
    X: np.ndarray,
    index: np.ndarray,
    request: Request,
    communication: ExpertPrediction | None,
    near: Neighbourhood | None,
    *replies: tuple[list[Evaluated], dict[int, float]],
) -> Gathered:
    evaluated = [predictions for predictions, _ in replies]
    own = None
    if near is not None:
        own = evaluate_own(covariance, near, X, index, offsets, request, ThreadEngine(1))
    moments = moments_of(
        covariance, X, index, n_outputs, evaluated, communication, own, request, ThreadEngine(1)
    )
    return Gathered(moments, {i: jitter for _, of_shard in replies for i, jitter in of_shard.items()})


@keep_freed_memory()
def _factorise(shard: LocalExperts, experts: list[int]) -> None:
    for i in experts:
        shard.trained(i - shard.first)


def _shared_of(experts: LocalExperts) -> Observations | None:
    return experts.shared


def _rows_of(shard: LocalExperts, rows: slice, column: int) -> np.ndarray:
    return (shard.X, shard.y, shard.numbers, shard.noise)[column][rows]


def _pair(X: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return X, index


def _item(values: Sequence[Any], k: int) -> Any:
    return values[k]

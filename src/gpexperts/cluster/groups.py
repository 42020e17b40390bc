"""Contiguous groups of experts on a cluster: each is the result of a task, and keeps its rows and factors.

Here is how they get there, how their rows come home or into a file, and how a model does without some of
them; what they say is asked in `experts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np

from gpexperts.engines.dask import DaskEngine
from gpexperts.engines.traffic import Travelled
from gpexperts.exceptions import ClusterError
from gpexperts.experts.local import Experts, Sample
from gpexperts.io.container import Streamed
from gpexperts.kernels.named import Covariance
from gpexperts.selection.network import Summed
from gpexperts.settings import bytes_of, is_auto

__all__ = ["Groups", "factor_budget"]

GROUPS_PER_SLOT = 3
"""Groups for every thread of a worker: enough to even out the work."""
GROUP_BYTES = 64 * 1024**2
"""A group holds at most this many bytes of rows: groups must be cheap to move and to build again."""
SAVE_BYTES = 64 * 1024**2
"""A model is saved in batches of rows of this size, which is all that the client holds of them."""
FACTOR_SHARE = 0.3
"""Share of a worker's memory that factors may take at most; less, if the user sets a budget."""


class Groups:
    """Experts whose rows and factors live on the workers of a cluster.

    Parameters
    ----------
    engine : DaskEngine
    groups : list of Delayed
        Each stands for an `Experts`, in the order of their numbers.
    firsts : ndarray of shape (G + 1,)
        Group g holds experts ``firsts[g]`` to ``firsts[g + 1] − 1``.
    offsets : ndarray of shape (M + 1,)
        Expert i owns rows ``offsets[i]:offsets[i + 1]`` of the whole.
    covariance : Covariance
    n_outputs : int
    shared : tuple of ndarray or None
        GRBCM's communication set.
    communication : Delayed or None
        Stands for the group of the communication expert.
    sample : Sample
        Rows for selectors to learn from.
    private : bool
        Whether rows may not leave their workers.
    travelled : dict
        Where what it costs to ask them is counted.
    """

    def __init__(
        self,
        engine: DaskEngine,
        groups: Sequence[Any],
        firsts: np.ndarray,
        offsets: np.ndarray,
        covariance: Covariance,
        *,
        n_outputs: int,
        shared: tuple[np.ndarray, np.ndarray] | None = None,
        communication: Any = None,
        sample: Sample,
        private: bool = False,
        travelled: Travelled,
    ) -> None:
        self.engine = engine
        self.groups, self.firsts, self.offsets = list(groups), firsts, offsets
        self.covariance = covariance
        self.n_outputs = n_outputs
        self.shared, self.communication = shared, communication
        self.sample, self.private = sample, private
        self.jitter: dict[int, float] = {}
        self.travelled = travelled

    @classmethod
    def placed(cls, engine: DaskEngine, experts: Experts, travelled: Travelled, memory_budget: Any) -> Self:
        """Bring experts of this process to the cluster."""
        firsts = _even_groups(experts, GROUPS_PER_SLOT * engine.n_workers)
        budget = factor_budget(engine, memory_budget, len(firsts) - 1)
        work = [
            engine.task(f"experts {a}..{b - 1}", _group, *_slice(experts, a, b), experts.shared, budget, a)
            for a, b in pairwise(firsts)
        ]
        communication = None
        if experts.shared is not None:
            M = experts.n_experts
            communication = engine.task(
                "communication expert", _group, *_slice(experts, M, M), experts.shared, budget, M
            )
            work.append(communication)
        kept = engine.persist(work)
        return cls(
            engine,
            kept[: len(firsts) - 1],
            firsts,
            experts.offsets,
            experts.covariance,
            n_outputs=experts.n_outputs,
            shared=experts.shared,
            communication=kept[-1] if communication is not None else None,
            sample=experts.sample,
            travelled=travelled,
        )

    def to_local(self, factor_budget: int) -> Experts:
        """Bring all rows to this process."""
        self._check_rows_may_leave()
        parts = self.engine.compute(
            [
                self.engine.task(f"rows of experts {a}..{b - 1}", _rows_of, group, slice(None), None)
                for group, (a, b) in zip(self.groups, pairwise(self.firsts), strict=True)
            ]
        )
        X, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        local = Experts(X, y, self.offsets, self.covariance, shared=self.shared, factor_budget=factor_budget)
        local.jitter = dict(self.jitter)
        return local

    def streamed(self, factor_budget: int) -> Experts:
        """What a file says of these experts; their rows come when they are written, a batch at a time."""
        self._check_rows_may_leave()
        n = int(self.offsets[-1])
        X, y = (
            Streamed((n, width), partial(self._pieces, column, width))
            for column, width in enumerate((self.sample.X.shape[1], self.n_outputs))
        )
        experts: Any = Experts  # to whoever asks them nothing, rows that are elsewhere are rows
        described: Experts = experts(
            X, y, self.offsets, self.covariance, shared=self.shared, factor_budget=factor_budget
        )
        described.jitter = dict(self.jitter)
        return described

    def _pieces(self, column: int, width: int) -> Iterator[np.ndarray]:
        """All inputs (column 0) or targets (column 1) in the experts' order, at most a batch at a time."""
        borders = self.offsets[self.firsts]
        step = max(1, SAVE_BYTES // (8 * width))
        for start in range(0, int(borders[-1]), step):
            stop = start + step
            work = [
                self.engine.task(
                    f"rows of group {g}", _rows_of, group, slice(max(0, start - a), min(b, stop) - a), column
                )
                for g, (group, (a, b)) in enumerate(zip(self.groups, pairwise(borders.tolist()), strict=True))
                if start < b and a < stop
            ]
            with self.engine.counting(self.travelled, "save"):
                pieces = self.engine.compute(work)
            yield from pieces

    def _check_rows_may_leave(self) -> None:
        if self.private:
            raise ClusterError(
                "This model was fitted with share_inputs=False: its rows may not leave their workers, so "
                "that it can be neither pickled, saved nor brought home, and none can be held out or shown "
                "to other experts."
            )

    # --------------------------------------------------------------------------------------- rows

    @property
    def n_experts(self) -> int:
        """M; the communication expert does not count."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> np.ndarray:
        """Rows each expert owns, shared ones not counted, shape (M,)."""
        return np.diff(self.offsets)

    def size(self, i: int) -> int:
        """m_i, shared rows included."""
        return int(self.offsets[i + 1] - self.offsets[i]) + (
            0 if self.shared is None else len(self.shared[0])
        )

    def _rows_by_group(self, rows: np.ndarray) -> list[np.ndarray]:
        """Ascending positions in the whole ↦ positions in each group."""
        starts = self.offsets[self.firsts]
        return [rows[(rows >= a) & (rows < b)] - a for a, b in pairwise(starts)]

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets at some ascending positions, in the experts' order."""
        self._check_rows_may_leave()
        wanted = [
            self.engine.task(f"rows of group {g}", Experts.take, group, mine)
            for g, (group, mine) in enumerate(zip(self.groups, self._rows_by_group(rows), strict=True))
            if len(mine)
        ]
        X, y = zip(*self.engine.compute(wanted), strict=True)
        return np.concatenate(X), np.concatenate(y)

    def without(self, rows: np.ndarray) -> Self:
        """The experts as they would be had they never seen some of their own rows, ascending positions."""
        kept = np.ones(int(self.offsets[-1]), dtype=bool)
        kept[rows] = False
        X, labels, position = self.sample
        stays = kept[position]
        groups = [
            self.engine.task(f"group {g} without rows", Experts.without, group, mine) if len(mine) else group
            for g, (group, mine) in enumerate(zip(self.groups, self._rows_by_group(rows), strict=True))
        ]
        return type(self)(
            self.engine,
            self.engine.persist(groups),
            self.firsts,
            np.concatenate([[0], np.cumsum(kept)])[self.offsets],
            self.covariance,
            n_outputs=self.n_outputs,
            shared=self.shared,
            communication=self.communication,
            sample=Sample(X[stays], labels[stays], np.cumsum(kept)[position[stays]] - 1),
            travelled=self.travelled,
        )

    @property
    def summed(self) -> Summed | None:
        """Where rows may not leave their workers, how to sum over them there."""
        return self._summed if self.private else None

    def _summed(self, function: Callable[..., Sequence[Any]], argument: Any) -> list[Any]:
        each = zip(self.groups, self.engine.places(self.groups), strict=True)
        work = [
            self.engine.task(f"sum over the rows of group {g}", _applied, group, function, argument, at=place)
            for g, (group, place) in enumerate(each)
        ]
        with self.engine.counting(self.travelled, "selection"):
            return [sum(column) for column in zip(*self.engine.compute(work), strict=True)]


def factor_budget(engine: DaskEngine, memory_budget: Any, n_groups: int) -> int:
    """Bytes that the factors of one group may take on its worker.

    Parameters
    ----------
    engine : DaskEngine
    memory_budget : int, str or "auto"
        As the user gave it; "auto" is of this machine, and counts where nothing is known of the workers.
    n_groups : int
        Of all workers together.
    """
    memory = engine.worker_memory
    if memory is None:
        per_worker = bytes_of(memory_budget)
    else:
        per_worker = int(FACTOR_SHARE * memory)
        if not is_auto(memory_budget):
            per_worker = min(per_worker, bytes_of(memory_budget))
    groups_per_worker = -(-n_groups // max(1, len(engine.client.nthreads())))
    return max(1, per_worker // groups_per_worker)


def _even_groups(experts: Experts, n_groups: int) -> np.ndarray:
    """Borders of contiguous groups of about equal cost, (G + 1,)."""
    cost = np.concatenate([[0.0], np.cumsum(experts.sizes.astype(float) ** 2)])
    n_groups = max(n_groups, -(-(experts.X.nbytes + experts.y.nbytes) // GROUP_BYTES))
    borders = np.searchsorted(cost, np.linspace(0.0, cost[-1], n_groups + 1))
    borders[0], borders[-1] = 0, experts.n_experts
    return np.unique(borders)


def _slice(experts: Experts, a: int, b: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Covariance]:
    """Rows of experts a … b − 1, as copies that do not drag the whole array along."""
    start, stop = experts.offsets[a], experts.offsets[b]
    offsets = experts.offsets[a : b + 1] - start
    return experts.X[start:stop].copy(), experts.y[start:stop].copy(), offsets, experts.covariance


def _group(
    X: np.ndarray,
    y: np.ndarray,
    offsets: np.ndarray,
    covariance: Covariance,
    shared: tuple[np.ndarray, np.ndarray] | None,
    budget: int,
    first: int,
) -> Experts:
    return Experts(X, y, offsets, covariance, shared=shared, factor_budget=budget, first=first)


def _rows_of(experts: Experts, rows: slice, column: int | None) -> Any:
    """Some of a group's inputs (column 0), targets (column 1) or both (None)."""
    both = experts.X[rows], experts.y[rows]
    return both if column is None else both[column]


def _applied(experts: Experts, function: Callable[..., Sequence[Any]], argument: Any) -> Sequence[Any]:
    X, labels, _ = experts.sample
    return function(X, experts.first + labels, argument)

"""The fitted experts on a cluster: contiguous groups of them, each the result of a task.

    group g ──ask──► said ─┐
                           ├─ collect ──► moments ─┬─ pack (h → g) ─┐
    group h ──ask──► said ─┘                       └─ covary (g) ◄──┘──► assemble ──► moments with R

A group answers where its rows are, and keeps its factors there. Pairs of experts are computed in the
group of the first of the two; of the second, its rows and its weights for the queries that ask both
travel there, nothing else.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from gpexperts.cluster import tasks
from gpexperts.cluster.groups import Groups
from gpexperts.engines import traffic
from gpexperts.exceptions import ClusterError
from gpexperts.experts.moments import ExpertMoments

__all__ = ["ClusterExperts"]


class ClusterExperts(Groups):
    """Groups of experts that are asked like :class:`gpexperts.experts.local.Experts`."""

    def gather(
        self,
        X: np.ndarray,
        index: np.ndarray,
        *,
        covariance: bool,
        communication: bool = False,
        prune: float = 0.0,
        variance: bool = True,
        surprise: bool = False,
    ) -> ExpertMoments:
        """As :func:`gpexperts.experts.gather.gather_moments`, on the cluster."""
        queries = self.engine.task("queries", _both, X, index)
        X_there, index_there = (self.engine.task("queries", _item, queries, k) for k in (0, 1))
        graph = self.graph(
            X_there,
            index_there,
            asked=np.unique(index[index >= 0]),
            pairs=self._pairs_of_groups(index) if covariance else None,
            communication=communication,
            prune=prune,
            variance=variance,
            surprise=surprise,
        )
        try:
            with self.engine.counting(self.travelled, "prediction"):
                (gathered,) = self.engine.compute([graph])
                traffic.count(exchanged=gathered.travelled)
        except ClusterError as error:
            if error.deadly:
                self._name_the_culprit(np.unique(index[index >= 0]), error)
            raise
        self.jitter.update(gathered.jitter)
        return gathered.moments

    def _name_the_culprit(self, asked: np.ndarray, error: ClusterError) -> None:
        """Raise an error that names the expert whose matrix ends workers, if there is one.

        Dask blames whatever work waited at the workers that died, so that each suspect is tried alone: the
        groups, those that were blamed first, and then the experts of the guilty one.
        """
        group = np.searchsorted(self.firsts, asked, side="right") - 1
        blamed = {g: f"experts {self.firsts[g]}..{self.firsts[g + 1] - 1}'" in str(error) for g in set(group)}
        for g in sorted(blamed, key=lambda g: (not blamed[g], g)):
            mine = asked[group == g].tolist()
            if len(mine) > 1 and self._deadly(g, mine) is None:
                continue
            for i in mine:
                if named := self._deadly(g, [i]):
                    raise named from error

    def _deadly(self, g: int, who: list[int]) -> ClusterError | None:
        """The error of factorising the matrices of some experts of a group, if that ends workers."""
        name = f"expert {who[0]}" if len(who) == 1 else f"experts {who[0]}..{who[-1]}"
        try:
            self.engine.compute([self.engine.task(name, tasks.factorised, self.groups[g], who)])
        except ClusterError as error:
            if error.deadly:
                return error
        return None

    def graph(
        self,
        X: Any,
        index: Any,
        *,
        asked: np.ndarray,
        pairs: set[tuple[int, int]] | None,
        communication: bool,
        prune: float,
        variance: bool = True,
        surprise: bool = False,
    ) -> Any:
        """The work that turns queries and their index into a `Gathered`.

        Parameters
        ----------
        X, index : Delayed
            Queries (n, d) and the experts they ask (n, K).
        asked : ndarray of int
            Experts that may be asked.
        pairs : set of (int, int) or None
            Groups (g, h), g ≤ h, of which experts may be asked together; None where R is not wanted.
        communication, prune, variance, surprise
            As in :func:`gpexperts.experts.gather.gather_moments`.
        """
        if pairs is not None:
            self._check_rows_may_leave()
        task = self.engine.task
        name = {g: f"experts {a}..{b - 1}" for g, (a, b) in enumerate(pairwise(self.firsts))}
        involved = np.unique(np.searchsorted(self.firsts, asked, side="right") - 1).tolist()
        places = self.engine.places(self.groups) if self.private else []
        replies = {
            g: task(
                f"answers of {name[g]}", tasks.ask, self.groups[g], X, index, variance, pairs is not None,
                surprise, at=places[g] if self.private else None,
            )
            for g in involved
        }  # fmt: skip
        said = [task(f"answers of {name[g]}", tasks.said_of, replies[g], index) for g in involved]
        common = None
        if communication:
            common = task(
                "answers of the communication expert", tasks.ask_communication, self.communication, X
            )
        gathered = task(
            "moments", tasks.collect, self.covariance, self.n_outputs, prune, X, index, said, common
        )
        if pairs is None:
            return gathered
        parts = []
        for g in involved:
            parcels = [
                task(
                    f"weights of {name[h]}", tasks.pack,
                    self.groups[h], replies[h], gathered, int(self.firsts[g]), int(self.firsts[g + 1]),
                )
                for h in involved
                if h > g and (g, h) in pairs
            ]  # fmt: skip
            parts.append(
                task(f"covariances of {name[g]}", tasks.covary, self.groups[g], replies[g], gathered, parcels)
            )
        return task("moments", tasks.assemble, gathered, parts)

    def _pairs_of_groups(self, index: np.ndarray) -> set[tuple[int, int]]:
        group = np.searchsorted(self.firsts, index, side="right") - 1
        group[index < 0] = -1
        found = set()
        for row in np.unique(np.sort(group, axis=1), axis=0):
            members = sorted(set(row[row >= 0].tolist()))
            found |= {(g, h) for k, g in enumerate(members) for h in members[k:]}
        return found


def _both(X: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return X, index


def _item(values: tuple[Any, ...], k: int) -> Any:
    return values[k]

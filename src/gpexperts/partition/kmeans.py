"""k-means parts, the paper's choice; large parts can be split."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from gpexperts.engines.threads import blas_threads
from gpexperts.partition.balanced import bisect
from gpexperts.partition.base import Partitioner

__all__ = ["KMeansPartitioner"]


class KMeansPartitioner(Partitioner):
    """Cluster the inputs with k-means.

    The sizes of the parts usually differ a lot (5 to 1,560 rows on the protein data), and the largest parts
    take most of the time. `max_size` splits them.

    Parameters
    ----------
    max_size : int or None
        Parts with more rows than this are bisected until none is left.
    n_init : int
        Number of runs from different starts; the best is kept.
    max_rows : int
        Mini-batch k-means is used for more rows than this.
    """

    def __init__(self, max_size: int | None = None, n_init: int = 1, max_rows: int = 200_000) -> None:
        self.max_size = max_size
        self.n_init = n_init
        self.max_rows = max_rows

    def partition(self, X: np.ndarray, n_parts: int, random_state: np.random.RandomState) -> np.ndarray:
        if self.max_size is not None and self.max_size < 1:
            raise ValueError(f"max_size must be None or at least 1, got {self.max_size!r}.")
        from sklearn.cluster import KMeans, MiniBatchKMeans  # late: this import is slow

        kind = KMeans if len(X) <= self.max_rows else MiniBatchKMeans
        model = kind(n_clusters=n_parts, n_init=self.n_init, random_state=random_state)
        # One thread: sums then have a fixed order, and the parts do not depend on the number of cores.
        with blas_threads(1), threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
            # With fewer distinct rows than clusters the caller drops the empty parts and warns.
            warnings.filterwarnings("ignore", category=ConvergenceWarning)
            labels = np.asarray(model.fit(X).labels_, dtype=np.int64)
        return labels if self.max_size is None else self._capped(X, labels, random_state)

    def _capped(self, X: np.ndarray, labels: np.ndarray, random_state: np.random.RandomState) -> np.ndarray:
        assert self.max_size is not None
        stack = [np.flatnonzero(labels == part) for part in np.unique(labels)]
        capped, count = np.empty_like(labels), 0
        while stack:
            rows = stack.pop()
            if len(rows) > self.max_size:
                near = bisect(X[rows], 0.5, random_state)
                stack += [rows[near], rows[~near]]
                continue
            capped[rows] = count
            count += 1
        return capped

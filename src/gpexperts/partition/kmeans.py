"""k-means parts, the paper's choice, with large ones split on request."""

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

    Parts of very different size are the rule (5 to 1,560 rows on the protein data), and the largest
    pay for everything: `max_size` splits those.

    Parameters
    ----------
    max_size : int or None
        Parts with more rows are cut in two until none is left.
    n_init : int
        Runs from different starts, of which the best is kept.
    max_rows : int
        Past this many rows mini-batches are used.
    """

    def __init__(self, max_size: int | None = None, n_init: int = 1, max_rows: int = 200_000) -> None:
        self.max_size = max_size
        self.n_init = n_init
        self.max_rows = max_rows

    def partition(self, X: np.ndarray, n_parts: int, random_state: np.random.RandomState) -> np.ndarray:
        if self.max_size is not None and self.max_size < 1:
            raise ValueError(f"max_size must be None or at least 1, got {self.max_size!r}.")
        from sklearn.cluster import KMeans, MiniBatchKMeans  # late: it takes as long as all the rest

        kind = KMeans if len(X) <= self.max_rows else MiniBatchKMeans
        model = kind(n_clusters=n_parts, n_init=self.n_init, random_state=random_state)
        # One thread, so that sums are formed in one order and the parts do not depend on the machine.
        with blas_threads(1), threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
            # Fewer distinct rows than clusters: the caller drops empty parts and says so itself.
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

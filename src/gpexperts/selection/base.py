"""The contract of a selector: queries in, a ranking of experts for each query out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from gpexperts.selection.network import Summed

__all__ = ["ExpertsView", "Selector", "checked_index", "row_chunks"]

_ENTRIES = 4_000_000
"""Of an array of queries and experts that need not exist for longer than a step takes."""


@dataclass(frozen=True)
class ExpertsView:
    """What a selector may look at when it is fitted; inputs are in the units the kernel sees."""

    X: np.ndarray
    """Training inputs, (n, d), sorted by expert: all of them, or a sample where they are on a cluster."""
    labels: np.ndarray
    """Expert of each row, (n,)."""
    centroids: np.ndarray
    """Mean input of each expert, (M, d)."""
    length_scale: np.ndarray
    """What the kernel learned, (d,)."""
    means_at: Callable[[np.ndarray], np.ndarray]
    """Ask all experts: inputs (k, d) ↦ their means of the first output, (k, M)."""
    transform: Callable[[np.ndarray], np.ndarray]
    """The user's units ↦ the units the kernel sees."""
    random_state: np.random.RandomState
    summed: Summed | None = None
    """Given where rows may not be pooled: how to sum over them, where they are. `X` and `labels` are then
    the centroids and their experts."""

    @property
    def n_experts(self) -> int:
        """M."""
        return len(self.centroids)


class Selector(BaseEstimator, ABC):
    """Says which experts a query should ask.

    `fit` may learn from the experts; `select` ranks. The ranking of a query must not depend on the
    other queries of its batch.
    """

    varies: ClassVar[bool] = True
    """Whether different queries may ask different experts; if so, held-out rows can tell a good K."""
    follows_rows: ClassVar[bool] = False
    """Whether a single training row may decide who is asked. Such a selector must not know the rows that are
    held out to choose K, and is fitted again without them."""

    def fit(self, experts: ExpertsView) -> Selector:
        """Learn what `select` needs; by default nothing."""
        return self

    @abstractmethod
    def select(self, X: np.ndarray, n_selected: int) -> np.ndarray:
        """Return the experts each query asks, best first.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Queries, in the units the kernel sees.
        n_selected : int
            K, at least 1 and at most M.

        Returns
        -------
        index : ndarray of int, shape (n, K)
            No expert twice in a row; −1 pads rows that ask fewer.
        """

    def repeats(self, X: np.ndarray) -> bool:
        """Whether it consists of the training inputs X (n, d), and need not be saved beside them."""
        return False

    def default_n_selected(self, n_experts: int) -> int:
        """K where the user left it to us and held-out rows cannot tell."""
        return min(n_experts, 5)


def row_chunks(n: int, n_experts: int) -> Iterator[slice]:
    """Cut n queries so that what is said of each of them and every expert takes little memory."""
    step = max(1, _ENTRIES // max(1, n_experts))
    return (slice(start, start + step) for start in range(0, n, step))


def checked_index(index: np.ndarray, n: int, n_experts: int) -> np.ndarray:
    """Return what a selector chose for n queries, or say what is wrong with it."""
    index = np.asarray(index)
    fault = None
    if index.ndim != 2 or len(index) != n or not np.issubdtype(index.dtype, np.integer):
        fault = f"must be an int array of shape ({n}, K), not {index.dtype} of shape {index.shape}"
    elif index.size and (index.min() < -1 or index.max() >= n_experts):
        fault = f"must hold numbers from −1 to {n_experts - 1}, not {index.min()} to {index.max()}"
    elif n and not (index >= 0).any(axis=1).all():
        fault = "leaves a query with nobody to ask"
    elif n and _repeats(index):
        fault = "asks an expert twice for one query"
    if fault:
        raise ValueError(f"What the selector's `select` returned {fault}.")
    return index


def _repeats(index: np.ndarray) -> bool:
    ranked = np.sort(index, axis=1)
    return bool(((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] >= 0)).any())

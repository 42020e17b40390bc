"""The contract of a selector: queries in, a ranking of experts for each query out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

__all__ = ["ExpertsView", "Selector", "checked_index", "row_chunks"]

_ENTRIES = 4_000_000
"""Largest number of entries of a temporary array of queries × experts."""


@dataclass(frozen=True)
class ExpertsView:
    """What a selector is fitted to; inputs are in the units of the kernel."""

    X: np.ndarray
    """Training inputs, (n, d), sorted by expert: all rows, or a sample of rows on a cluster."""
    labels: np.ndarray
    """Expert of each row, (n,), ascending."""
    centroids: np.ndarray
    """Mean input of each expert, (M, d)."""
    length_scale: np.ndarray
    """Length scales of the kernel, (d,)."""
    means_at: Callable[[np.ndarray], np.ndarray]
    """Inputs (k, d) ↦ the means of all experts for the first output, (k, M)."""
    transform: Callable[[np.ndarray], np.ndarray]
    """Inputs in the user's units ↦ inputs in the units of the kernel."""
    random_state: np.random.RandomState

    @property
    def n_experts(self) -> int:
        """M."""
        return len(self.centroids)


class Selector(BaseEstimator, ABC):
    """Ranks the experts for each query.

    The ranking of a query must not depend on the other queries of its batch.
    """

    varies_by_query: ClassVar[bool] = True
    """Whether the selected experts depend on the query. If so, K can be chosen by held-out log density."""
    uses_rows: ClassVar[bool] = False
    """Whether single training rows decide the selection. Such a selector is fitted again without the rows
    that are held out to choose K."""

    refits_quickly: ClassVar[bool] = False
    """Whether fitting it again after rows were added or removed is quick and learns nothing else. Parts are
    split for such selectors only; others stay as they were fitted."""

    def fit(self, experts: ExpertsView) -> Selector:
        """Learn what `select` needs; by default nothing."""
        return self

    @abstractmethod
    def select(self, X: np.ndarray, n_selected: int) -> np.ndarray:
        """Return the selected experts of each query, best first.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Queries, in the units of the kernel.
        n_selected : int
            K, at least 1 and at most M.

        Returns
        -------
        index : ndarray of int, shape (n, K)
            Different experts in each row; −1 pads rows with fewer experts.
        """

    def select_without(self, X: np.ndarray, n_selected: int, positions: np.ndarray) -> np.ndarray:
        """Return the selected experts of training rows, each as if it were not among the rows.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        n_selected : int
        positions : ndarray of int, shape (n,)
            Of these rows among the rows that the selector was fitted to.
        """
        return self.select(X, n_selected)

    def repeats(self, X: np.ndarray) -> bool:
        """Whether the fitted selector holds the training inputs X (n, d) and nothing that X cannot restore.

        Such a selector is not written to a model file, which holds X already.
        """
        return False

    def default_n_selected(self, n_experts: int) -> int:
        """K for ``n_selected="auto"`` if it cannot be chosen by held-out log density."""
        return min(n_experts, 5)


def row_chunks(n: int, n_experts: int) -> Iterator[slice]:
    """Split n queries into chunks for which an array of queries × experts is small."""
    step = max(1, _ENTRIES // max(1, n_experts))
    return (slice(start, start + step) for start in range(0, n, step))


def checked_index(index: np.ndarray, n: int, n_experts: int) -> np.ndarray:
    """Return the result of `Selector.select` for n queries, or raise ValueError if it breaks the contract."""
    index = np.asarray(index)
    fault = None
    if index.ndim != 2 or len(index) != n or not np.issubdtype(index.dtype, np.integer):
        fault = f"must be an int array of shape ({n}, K), not {index.dtype} of shape {index.shape}"
    elif index.size and (index.min() < -1 or index.max() >= n_experts):
        fault = f"must hold numbers from −1 to {n_experts - 1}, not {index.min()} to {index.max()}"
    elif n and not (index >= 0).any(axis=1).all():
        fault = "leaves a query without an expert"
    elif n and _has_duplicates(index):
        fault = "selects an expert twice for one query"
    if fault:
        raise ValueError(f"The result of the selector's `select` {fault}.")
    return index


def _has_duplicates(index: np.ndarray) -> bool:
    ordered = np.sort(index, axis=1)
    return bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any())

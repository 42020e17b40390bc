"""The contract of a partitioner: inputs in, the part of every row out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from gpexperts.rows.base import Rows

__all__ = ["Partitioner", "Parts", "centroids_of", "compact", "sorted_parts"]


class Partitioner(BaseEstimator, ABC):
    """Splits the training rows into parts, one per expert."""

    uses_inputs: ClassVar[bool] = True
    """Whether the parts depend on the values of X, and not only on the number of rows."""

    @abstractmethod
    def partition(self, X: np.ndarray, n_parts: int, random_state: np.random.RandomState) -> np.ndarray:
        """Return the part of every row.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, standardised unless ``standardize=False``.
        n_parts : int
            M, at most n.
        random_state : RandomState

        Returns
        -------
        labels : ndarray of int, shape (n,)
            Any integers; the caller renumbers them and drops empty parts.
        """


def compact(labels: np.ndarray) -> np.ndarray:
    """Renumber labels to 0 … M − 1 in ascending order, without empty parts."""
    _, compacted = np.unique(labels, return_inverse=True)
    return compacted.astype(np.int64)


def centroids_of(X: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Mean of each part, (M, d), for rows sorted by part; part i is ``X[offsets[i]:offsets[i + 1]]``."""
    sizes = np.diff(offsets)
    return np.add.reduceat(X, offsets[:-1], axis=0) / sizes[:, None]


class Parts(NamedTuple):
    """The rows of some experts, sorted by expert and then by number."""

    rows: Rows
    offsets: np.ndarray
    """(M + 1,) expert i owns rows ``offsets[i]:offsets[i + 1]``."""

    def __sizeof__(self) -> int:
        return self.rows.__sizeof__()

    @property
    def sizes(self) -> np.ndarray:
        """(M,) rows of each expert."""
        return np.diff(self.offsets)

    @property
    def centroids(self) -> np.ndarray:
        """(M, d) mean input of each expert."""
        return centroids_of(self.rows.X, self.offsets)


def sorted_parts(rows: Rows, labels: np.ndarray) -> Parts:
    """Sort rows by label, leaving no part empty."""
    labels = compact(labels)
    order = np.argsort(labels, kind="stable")
    return Parts(rows.take(order), np.concatenate([[0], np.cumsum(np.bincount(labels))]))

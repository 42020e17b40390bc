"""The contract of a partitioner: inputs in, the part of every row out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

__all__ = ["Partitioner", "centroids_of", "compact"]


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

"""The contract of a partitioner: inputs in, a part for every row out."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from sklearn.base import BaseEstimator

__all__ = ["Partitioner", "centroids_of", "compact"]


class Partitioner(BaseEstimator, ABC):
    """Cuts the training rows into parts, one per expert."""

    @abstractmethod
    def partition(self, X: np.ndarray, n_parts: int, random_state: np.random.RandomState) -> np.ndarray:
        """Return the part of every row.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, standardised unless the user chose otherwise.
        n_parts : int
            M, at most n.
        random_state : RandomState

        Returns
        -------
        labels : ndarray of int, shape (n,)
            Numbers that name parts; parts that stay empty are dropped by the caller.
        """


def compact(labels: np.ndarray) -> np.ndarray:
    """Renumber labels to 0 … M − 1, in the order of their numbers, leaving no part empty."""
    _, compacted = np.unique(labels, return_inverse=True)
    return compacted.astype(np.int64)


def centroids_of(X: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Mean of each part, (M, d), for rows sorted by part."""
    sizes = np.diff(offsets)
    return np.add.reduceat(X, offsets[:-1], axis=0) / sizes[:, None]

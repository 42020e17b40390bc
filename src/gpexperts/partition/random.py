"""Random parts: every expert sees a thin sample of everything."""

from __future__ import annotations

import numpy as np

from gpexperts.partition.base import Partitioner

__all__ = ["RandomPartitioner"]


class RandomPartitioner(Partitioner):
    """Deal the rows out at random, to parts whose sizes differ by one at most."""

    def partition(self, X: np.ndarray, n_parts: int, random_state: np.random.RandomState) -> np.ndarray:
        return random_state.permutation(np.arange(len(X)) % n_parts)

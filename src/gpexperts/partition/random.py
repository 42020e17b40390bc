"""Random parts: every expert gets a random sample of the rows."""

from __future__ import annotations

import numpy as np

from gpexperts.partition.base import Partitioner

__all__ = ["RandomPartitioner"]


class RandomPartitioner(Partitioner):
    """Assign the rows at random to parts whose sizes differ by at most one."""

    uses_inputs = False

    def partition(self, X: np.ndarray, n_parts: int, random_state: np.random.RandomState) -> np.ndarray:
        return random_state.permutation(np.arange(len(X)) % n_parts)

"""The contract of an expert store: the fitted experts, wherever their rows and factors are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from gpexperts.engines.base import Engine
from gpexperts.experts.moments import ExpertMoments, Request
from gpexperts.experts.own import Neighbourhood
from gpexperts.kernels.base import Covariance

__all__ = ["ExpertStore", "Sample", "Shared"]

Shared = tuple[np.ndarray, np.ndarray]
"""Inputs and targets of GRBCM's communication set."""


class Sample(NamedTuple):
    """Some or all rows, sorted by expert."""

    X: np.ndarray
    """Inputs (k, d)."""
    labels: np.ndarray
    """Expert of each (k,)."""
    position: np.ndarray
    """Its place among the rows of all experts (k,)."""


class ExpertStore(ABC):
    """Experts that share one covariance.

    Expert i owns the rows ``offsets[i]:offsets[i + 1]``, in the order of experts. With a communication set,
    every expert also sees the shared rows, and expert number M, the communication expert, sees only those.

    Attributes
    ----------
    covariance : Covariance
    offsets : ndarray of shape (M + 1,)
    n_features, n_outputs : int
    shared : tuple of ndarray or None
    jitter : dict of int to float
        Experts whose covariance matrix needed jitter to be factorised, relative to its mean diagonal.
    """

    has_rows: ClassVar[bool] = True
    """Whether single rows can be read and held out; False where they stay with clients of a federation."""

    covariance: Covariance
    offsets: np.ndarray
    n_features: int
    n_outputs: int
    shared: Shared | None
    jitter: dict[int, float]

    @property
    def n_experts(self) -> int:
        """M; the communication expert does not count."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> np.ndarray:
        """Rows that each expert owns, shared ones not counted, shape (M,)."""
        return np.diff(self.offsets)

    def size(self, i: int) -> int:
        """m_i, shared rows included."""
        own = 0 if i == self.n_experts else int(self.offsets[i + 1] - self.offsets[i])
        return own + (0 if self.shared is None else len(self.shared[0]))

    @property
    @abstractmethod
    def sample(self) -> Sample:
        """Rows for selectors to learn from: all, or at least one of every expert."""

    @abstractmethod
    def take(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs and targets at ascending positions in the order of experts."""

    @abstractmethod
    def without(self, positions: np.ndarray) -> ExpertStore:
        """Return the experts as if they had never seen some of their own rows.

        Parameters
        ----------
        positions : ndarray of int
            Ascending; every expert must keep at least one row.
        """

    @abstractmethod
    def neighbourhood(self, X: np.ndarray, m: int, engine: Engine) -> Neighbourhood:
        """Return the m training rows nearest to each query X (n, d), in the metric of the kernel."""

    @abstractmethod
    def gather(self, X: np.ndarray, index: np.ndarray, request: Request, engine: Engine) -> ExpertMoments:
        """Evaluate the selected experts.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Queries.
        index : ndarray of shape (n, K)
            The selected experts of each query; −1 pads.
        request : Request
            Which moments are needed.
        engine : Engine
            Where experts of this process are evaluated.
        """

    @abstractmethod
    def row_batches(self, column: int, max_bytes: int) -> Iterator[np.ndarray]:
        """Yield a column of all rows in the order of experts, some at a time.

        Parameters
        ----------
        column : int
            0 for the inputs (n, d), 1 for the targets (n, p), 2 for the row numbers (n,).
        max_bytes : int
            Of rows that are fetched from a cluster at once.
        """

    @abstractmethod
    def to_local(self, factor_budget: int) -> ExpertStore:
        """Return the same experts in this process."""

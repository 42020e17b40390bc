"""The contract of an expert store: the fitted experts, wherever their rows and factors are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpexperts.engines.base import Engine
from gpexperts.experts.moments import ExpertMoments, Request
from gpexperts.experts.own import Neighbourhood
from gpexperts.kernels.base import Covariance

__all__ = ["ExpertStore", "Observations", "Sample"]


class Observations(NamedTuple):
    """Rows without numbers: those of an expert, GRBCM's communication set, or rows that were held out."""

    X: np.ndarray
    """(k, d) inputs."""
    y: np.ndarray
    """(k, p) targets."""
    noise: np.ndarray
    """(k, 2) weight and given noise of each row, or (k, 0); see `row_noise`."""


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
    shared : Observations or None
        GRBCM's communication set.
    jitter : dict of int to float
        Experts whose covariance matrix needed jitter to be factorised, relative to its mean diagonal.
    """

    covariance: Covariance
    offsets: np.ndarray
    n_features: int
    n_outputs: int
    shared: Observations | None
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
        return own + (0 if self.shared is None else len(self.shared.X))

    @property
    @abstractmethod
    def sample(self) -> Sample:
        """Rows for selectors to learn from: all, or at least one of every expert."""

    @abstractmethod
    def take(self, positions: np.ndarray) -> Observations:
        """Return the rows at ascending positions in the order of experts."""

    @abstractmethod
    def without(self, positions: np.ndarray) -> ExpertStore:
        """Return the experts as if they had never seen some of their own rows.

        Parameters
        ----------
        positions : ndarray of int
            Ascending; every expert must keep at least one row.
        """

    @abstractmethod
    def robust(self, degrees: float, rounds: int) -> ExpertStore:
        """Return the experts with Student-t noise: rows re-weighted by their leave-one-out residuals.

        Parameters
        ----------
        degrees : float
            ν of the noise.
        rounds : int
            How often the weights are computed, each time with those of the round before.
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
            0 for the inputs (n, d), 1 for the targets (n, p), 2 for the row numbers (n,), 3 for the table of
            noise (n, 2) or (n, 0).
        max_bytes : int
            Of rows that are fetched from a cluster at once.
        """

    @abstractmethod
    def to_local(self, factor_budget: int) -> ExpertStore:
        """Return the same experts in this process."""

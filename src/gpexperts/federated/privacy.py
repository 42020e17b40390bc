"""Differential privacy of training: clipped contributions with Gaussian noise, and Flower's accountant."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from flwr.serverapp import (
    GaussianPrivacyEvent,
    NeighboringRelation,
    PrivacyConfig,
    RdpAccountant,
    SamplingMethod,
)

from gpexperts.partition.base import Parts, centroids_of

__all__ = ["Privacy", "PrivacySpent", "clipped", "noisy_centroids", "secret_normal", "spent"]


@dataclass(frozen=True)
class Privacy:
    """Noise on what clients contribute to θ, and on centroids.

    The noise of a sum has the standard deviation `noise_multiplier` × clip. It is the sum of equal shares of
    `min_clients` clients. Clients do not open a sum of fewer, so that drop-outs never leave less noise.
    """

    noise_multiplier: float
    """σ of gradients and of the start."""
    clip: float = 0.2
    """Largest norm of a client's gradient, in nats per row."""
    start_clip: float = 4.0
    """Largest distance of a client's own θ from the initial one, in logarithms."""
    centroid_noise: float = 0.0
    """σ of centroids; 0 for no noise."""
    centroid_clip: float = 3.0
    """Rows beyond this norm per √d, in standard deviations, are moved there before centroids are computed."""
    delta: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("noise_multiplier", "clip", "start_clip", "centroid_clip"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a positive number, got {value!r}.")
        if not (np.isfinite(self.centroid_noise) and self.centroid_noise >= 0):
            raise ValueError(f"centroid_noise must be a number of at least 0, got {self.centroid_noise!r}.")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta must lie between 0 and 1, got {self.delta!r}.")


class PrivacySpent(NamedTuple):
    """What training has given away."""

    epsilon_client: float
    """Of θ, if the rows of one client are replaced by any others."""
    epsilon_row: float
    """Of θ and of centroids, if one row is replaced by another one of the same part; infinite where centroids
    have no noise."""
    delta: float
    n_releases: int


def clipped(vector: np.ndarray, norm: float) -> np.ndarray:
    """Return a vector of at most this norm, in the same direction."""
    length = float(np.linalg.norm(vector))
    return vector if length <= norm else vector * (norm / length)


def secret_normal(shape: tuple[int, ...]) -> np.ndarray:
    """Normal noise that no seed of the server can repeat."""
    return np.random.default_rng(int.from_bytes(os.urandom(16), "little")).standard_normal(shape)


def noisy_centroids(parts: Parts, noise: float, clip: float) -> np.ndarray:
    """Return centroids (M, d) of clipped rows, with noise.

    Parameters
    ----------
    parts : Parts
        In units of standard deviations.
    noise : float
        Standard deviation of the noise, in units of the sensitivity.
    clip : float
        Largest norm of a row, per √d.
    """
    X = parts.rows.X
    radius = clip * np.sqrt(X.shape[1])
    length = np.linalg.norm(X, axis=1, keepdims=True)
    means = centroids_of(X * np.minimum(1.0, radius / np.maximum(length, radius)), parts.offsets)
    # Another row in the place of one moves the mean of m rows by at most 2 · radius / m.
    return means + noise * 2.0 * radius / parts.sizes[:, None] * secret_normal(means.shape)


def spent(privacy: Privacy, n_clients: int, n_sums: int, *, centroids: bool) -> PrivacySpent:
    """Compute ε with Flower's Rényi accountant.

    If rows of a client are replaced, its clipped vector changes by up to 2 · clip: the noise of a sum is
    `noise_multiplier` / 2 times the sensitivity. (Where a client is added or removed, the vector changes by
    clip only, but then the number of clients changes too, which is no secret.)

    Parameters
    ----------
    privacy : Privacy
    n_clients : int
    n_sums : int
        Noisy sums that the server has seen.
    centroids : bool
        Whether it has seen centroids.
    """
    config = PrivacyConfig(
        target_delta=privacy.delta,
        population_size=n_clients,
        # Without sampling, ε depends on the sensitivity alone; Flower takes no other relation here.
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
        sampling_method=SamplingMethod.NO_AMPLIFICATION,
    )
    accountant = RdpAccountant(config)
    accountant.compose(GaussianPrivacyEvent(privacy.noise_multiplier / 2.0, n_clients, n_clients), n_sums)
    by_client = accountant.get_epsilon(privacy.delta)
    by_row = by_client
    if centroids and privacy.centroid_noise > 0:
        accountant.compose(GaussianPrivacyEvent(privacy.centroid_noise, n_clients, n_clients))
        by_row = accountant.get_epsilon(privacy.delta)
    elif centroids:
        by_row = np.inf
    return PrivacySpent(by_client, by_row, privacy.delta, accountant.num_releases)

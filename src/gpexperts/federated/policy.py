"""The rows of a client, and what it is willing to answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpexperts.federated.messages import Refusal

__all__ = ["ClientPolicy", "ClientRows", "checked_rows"]

_FEWEST = 20
"""Rows below which none can be held out."""


@dataclass(frozen=True)
class ClientRows:
    """The rows that a client holds."""

    X: np.ndarray
    """(n, d) inputs."""
    y: np.ndarray
    """(n,) or (n, p) targets."""
    columns: tuple[str, ...] = ()
    """Names of the inputs, which must be those of the other clients; () for none."""
    units: tuple[str, ...] = ()
    """Units of the inputs and then of the targets, likewise."""


@dataclass(frozen=True)
class ClientPolicy:
    """What a client answers. A server that asks for more is refused, and the client logs it."""

    min_clients: int = 3
    """Fewest clients of a secure sum: with two, each would know the part of the other."""
    needs_secure_sum: bool = True
    """Whether sums are answered only if they are masked."""
    max_steps: int = 20
    """Likelihoods per fit: 15 steps, and some that are repeated after a drop-out."""
    max_network_rounds: int = 60
    max_fits: int = 10
    """Per run of Flower."""
    max_queries: int = 10_000_000
    """Queries per fit, in all."""
    shares_centroids: bool = True
    min_centroid_rows: int = 20
    """Every part has at least this many rows, so that no centroid stands for a few of them."""
    min_noise_multiplier: float = 0.0
    """Of the noise on gradients; 0 also answers without noise."""
    n_jobs: int | None = None
    """Threads; None is all usable cores."""


def checked_rows(rows: ClientRows) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (n, d) and targets (n, p) as floats, or refuse them."""
    try:
        X, y = np.asarray(rows.X, dtype=float), np.asarray(rows.y, dtype=float)
    except (TypeError, ValueError) as error:
        raise Refusal("The rows are not numbers.") from error
    y = y[:, None] if y.ndim == 1 else y
    if X.ndim != 2 or y.ndim != 2 or len(X) != len(y):
        raise Refusal(f"The rows have inputs of shape {X.shape} and targets of shape {y.shape}.")
    if len(X) == 0:
        raise Refusal("This client has no rows.")
    if len(X) < _FEWEST:
        raise Refusal(f"This client has {len(X)} rows; at least {_FEWEST} are needed.")
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise Refusal("The rows have values that are NaN or infinite.")
    if (y == y[:1]).all():
        raise Refusal("All targets of this client are equal: they cannot train a model.")
    if rows.columns and len(rows.columns) != X.shape[1]:
        raise Refusal(f"There are {len(rows.columns)} names for {X.shape[1]} columns.")
    return X, y

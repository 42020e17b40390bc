"""The paper's network as selector, trained by federated averaging.

Each round, every client trains the network for some epochs on its own rows, and the server takes the mean of
the weights, weighted by rows. A client has rows of its own experts only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpexperts.engines.threads import blas_threads
from gpexperts.selection import DNNSelector

__all__ = ["flat", "initial_weights", "n_weights", "selector_of", "trained"]


def initial_weights(n_features: int, n_experts: int, seed: int) -> dict[str, np.ndarray]:
    """Return weights to start from."""
    return _arrays(_network(n_features, n_experts, seed))


def n_weights(weights: dict[str, np.ndarray]) -> int:
    """Number of all weights."""
    return sum(array.size for array in weights.values())


def flat(weights: dict[str, np.ndarray]) -> np.ndarray:
    """Return all weights as one vector."""
    return np.concatenate([array.ravel() for array in weights.values()])


def shaped(vector: np.ndarray, like: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a vector of weights as arrays."""
    ends = np.cumsum([array.size for array in like.values()])[:-1]
    pieces = np.split(vector, ends)
    return {name: piece.reshape(like[name].shape) for name, piece in zip(like, pieces, strict=True)}


def trained(
    weights: dict[str, np.ndarray], X: np.ndarray, labels: np.ndarray, values: dict[str, Any], seed: int
) -> np.ndarray:
    """Train the network on rows X (n, d) with experts `labels` (n,); return its weights as one vector."""
    net = _network(X.shape[1], int(values["n_experts"]), seed + int(values["round"]))
    _set(net, weights)
    with blas_threads(1):
        for _ in range(int(values["epochs"])):
            net.partial_fit(X, labels)
    return flat(_arrays(net))


def selector_of(weights: dict[str, np.ndarray], centroids: np.ndarray) -> DNNSelector:
    """Return the selector with these weights."""
    selector = DNNSelector()
    selector.centroids_ = centroids
    selector.classes_ = np.arange(len(centroids))
    if len(centroids) > 1:
        selector.classifier_ = _network(centroids.shape[1], len(centroids), 0)
        _set(selector.classifier_, weights)
    return selector


def _network(n_features: int, n_experts: int, seed: int) -> Any:
    """A network of the right shape: scikit-learn makes one when it first sees a row."""
    net = DNNSelector().new_classifier(200).set_params(random_state=seed % 2**31)
    with blas_threads(1):
        net.partial_fit(np.zeros((2, n_features)), np.array([0, n_experts - 1]), classes=np.arange(n_experts))
    return net


def _arrays(net: Any) -> dict[str, np.ndarray]:
    layers = {f"coefs_{i}": array for i, array in enumerate(net.coefs_)}
    return {**layers, **{f"intercepts_{i}": array for i, array in enumerate(net.intercepts_)}}


def _set(net: Any, weights: dict[str, np.ndarray]) -> None:
    for name, array in _arrays(net).items():
        array[...] = weights[name]

"""A perceptron that learns from rows it never sees: only weights go to them, and gradients come back.

With ReLU layers h_1 … h_L, a = h_L W + b and p = softmax(a) (or one sigmoid per expert), the loss of a row is
its cross-entropy. Its gradient in a is p − e(label) either way, and gradients of rows add up, whoever holds
which of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax

__all__ = ["Network", "Summed", "loss_and_gradient", "trained_network"]

Summed = Callable[[Callable[[np.ndarray, np.ndarray, Any], Sequence[Any]], Any], list[Any]]
"""Sum over all rows, where they are: (function, argument) ↦ Σ_b function(X_b, labels_b, argument) over blocks
b, each entry of what the function returns by itself."""

_PENALTY = 1e-4
"""Half the square of the weights counts this much, as in scikit-learn's perceptron."""
_CELLS = 2_000_000
"""Entries of the largest work array: rows are gone through in chunks."""


class Network(NamedTuple):
    """A perceptron and its weights."""

    layers: tuple[int, ...]
    """Units of the input, of each hidden layer, and of the output, one per expert."""
    output: str
    """`softmax` or `sigmoid`."""
    weights: np.ndarray
    """All W and b, layer after layer, in one vector."""

    @property
    def parameters(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """W (a, b) and b (b,) of each layer, as views."""
        found, start = [], 0
        for a, b in pairwise(self.layers):
            W = self.weights[start : start + a * b].reshape(a, b)
            start += a * b
            found.append((W, self.weights[start : start + b]))
            start += b
        return found

    def activations(self, X: np.ndarray) -> list[np.ndarray]:
        """The input, the hidden layers, and the output before softmax or sigmoid, for rows X (n, d)."""
        found = [X]
        *hidden, last = self.parameters
        for W, b in hidden:
            found.append(np.maximum(found[-1] @ W + b, 0.0))
        found.append(found[-1] @ last[0] + last[1])
        return found

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probability of each expert, (n, M)."""
        a = self.activations(X)[-1]
        return np.asarray(softmax(a, axis=1) if self.output == "softmax" else expit(a))


def loss_and_gradient(
    X: np.ndarray, labels: np.ndarray, argument: tuple[Network, int]
) -> tuple[float, np.ndarray]:
    """Summed cross-entropy of every `stride`-th row and its gradient; the argument is (network, stride)."""
    network, stride = argument
    X, labels = X[::stride], labels[::stride]
    gradient = np.zeros_like(network.weights)
    slopes = network._replace(weights=gradient).parameters
    loss = 0.0
    step = max(1, _CELLS // network.layers[-1])
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        *inputs, a = network.activations(X[rows])
        own = np.arange(len(a)), labels[rows]
        if network.output == "softmax":
            loss -= float(log_softmax(a, axis=1)[own].sum())
            delta = softmax(a, axis=1)
        else:
            loss += float(np.logaddexp(0.0, a).sum() - a[own].sum())
            delta = expit(a)
        delta[own] -= 1.0
        for h, (W, _), (to_W, to_b) in zip(
            reversed(inputs), reversed(network.parameters), reversed(slopes), strict=True
        ):
            to_W += h.T @ delta
            to_b += delta.sum(axis=0)
            delta = (delta @ W.T) * (h > 0)  # of the input layer it is not used
    return loss, gradient


def trained_network(
    summed: Summed,
    layers: tuple[int, ...],
    output: str,
    *,
    max_rows: int,
    max_iter: int,
    random_state: np.random.RandomState,
) -> Network:
    """Train by L-BFGS on the mean cross-entropy of at most `max_rows` rows, evenly spaced in each block."""
    (n,) = summed(_count, 1)
    stride = max(1, -(-n // max_rows))
    (used,) = summed(_count, stride)
    start = [
        part
        for a, b in pairwise(layers)
        for part in (random_state.uniform(-1, 1, a * b) * np.sqrt(6.0 / (a + b)), np.zeros(b))
    ]

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = summed(loss_and_gradient, (Network(layers, output, weights), stride))
        penalty = 0.5 * _PENALTY * float(weights @ weights)
        return (loss + penalty) / used, (gradient + _PENALTY * weights) / used

    found = minimize(
        objective, np.concatenate(start), jac=True, method="L-BFGS-B",
        options={"maxiter": max_iter, "ftol": 1e-6, "gtol": 1e-5},
    )  # fmt: skip
    return Network(layers, output, found.x)


def _count(X: np.ndarray, labels: np.ndarray, stride: int) -> tuple[int]:
    return (len(X[::stride]),)

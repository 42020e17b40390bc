"""Predictions as linear functions of the targets: mean(x) = w(x)ᵀ y.

With a the weights of the experts and q_k the weights of the rows of expert k, w(x) = Σ_k a_k q_k. The error
f − mean has covariances that follow from w, from the kernel and from the noise of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, vstack

from gpexperts.experts.row_weights import combined_weights
from gpexperts.experts.store import ExpertStore, Observations
from gpexperts.kernels.base import Covariance
from gpexperts.predictor import Predictor

__all__ = [
    "LinearPredictions",
    "check_linear",
    "check_untransformed",
    "linear_batches",
    "linear_predictions",
    "most_entries",
    "row_noise",
]


@dataclass(frozen=True)
class LinearPredictions:
    """The predictions of n queries, with the u training rows that they use; in the units of the experts."""

    X: np.ndarray
    """(n, d) queries."""
    mean: np.ndarray
    """(n, p)"""
    var: np.ndarray
    """(n,) latent variance, as `predict` returns it."""
    correction: np.ndarray
    """(n, p) factor of the variance of an observation."""
    weights: csr_array
    """w, (n, u)."""
    positions: np.ndarray
    """(u,) of the rows that have a weight, ascending, among the rows of all experts."""
    experts: ExpertStore

    @property
    def covariance(self) -> Covariance:
        """The trained covariance."""
        return self.experts.covariance

    def rows(self) -> Observations:
        """Return the u rows that have a weight."""
        return self.experts.take(self.positions)


def row_noise(covariance: Covariance, noise: np.ndarray) -> np.ndarray:
    """D: the noise variance (u,) of training rows by their table of noise, in the units of the experts."""
    return np.broadcast_to(covariance.row_noise(noise), len(noise))


def check_linear(predictor: Predictor, what: str) -> None:
    """Refuse rules whose error covariance is not the one that they predict."""
    aggregator = predictor.settings.aggregator
    if not aggregator.best_linear:
        raise ValueError(
            f"{what} is not available for aggregation={predictor.settings['aggregation']!r}: this rule takes "
            "its experts as independent, and the covariance of its errors is not the one that it predicts. "
            "Use aggregation='npae'."
        )


def check_untransformed(predictor: Predictor, what: str) -> None:
    """Refuse a transformed target, whose values are not linear in what the experts predict."""
    if predictor.model.target is not None:
        raise ValueError(
            f"{what} is not available with target_transform={predictor.model.target.name!r}: the target is "
            "not linear in what the experts predict. Use sample_y, or target_transform=None."
        )


def linear_predictions(predictor: Predictor, X: np.ndarray) -> LinearPredictions:
    """Evaluate the experts of queries X (n, d), in the units of the experts, with the weights of all rows."""
    formula, experts = predictor.formula, predictor.model.experts
    n, p = len(X), experts.n_outputs
    mean, var, correction = np.empty((n, p)), np.empty(n), np.empty((n, p))
    pieces, order = [csr_array((0, int(experts.offsets[-1])))], []
    request = replace(formula.request, row_weights=True)
    for rows, moments, prediction in predictor.batches(X, formula.select(X), request):
        mean[rows], var[rows] = prediction.mean, prediction.var
        correction[rows] = formula.variance_scale
        if prediction.inflation is not None:
            correction[rows] *= prediction.inflation
        assert moments.row_weights is not None
        pieces.append(combined_weights(moments.row_weights, prediction.weight))
        order.append(rows)
    predictor.report_jitter()
    weights = csr_array(vstack(pieces, format="csr"))
    if order:
        weights = csr_array(weights[np.argsort(np.concatenate(order))])
    positions, columns = np.unique(weights.indices, return_inverse=True)
    weights = csr_array((weights.data, columns, weights.indptr), shape=(n, len(positions)))
    return LinearPredictions(X, mean, var, correction, weights, positions, experts)


def linear_batches(
    predictor: Predictor, X: np.ndarray, size: int
) -> Iterator[tuple[np.ndarray, LinearPredictions]]:
    """Yield the numbers of `size` queries each, and their predictions with the weights of all rows.

    A batch holds queries of neighbouring parts, so that few training rows and experts are in several batches.
    """
    order = np.arange(len(X))
    if len(X) > size:
        order = np.argsort(predictor.model.nearest_parts(X), kind="stable")
    for start in range(0, len(X), size):
        rows = order[start : start + size]
        yield rows, linear_predictions(predictor, X[rows])


def most_entries(predictor: Predictor) -> int:
    """How many weights one query has, at most."""
    formula, sizes = predictor.formula, predictor.model.experts.sizes
    return formula.n_neighbors + int(np.sort(sizes)[::-1][: formula.n_selected].sum())

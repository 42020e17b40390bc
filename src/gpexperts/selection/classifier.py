"""dnn and other classifiers: predict the expert of a query, and select the most probable ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import clone

from gpexperts.engines.threads import blas_threads
from gpexperts.selection.base import ExpertsView, Selector, row_chunks
from gpexperts.selection.interrupts import interrupts_raised

__all__ = ["ClassifierSelector", "DNNSelector"]


class ClassifierSelector(Selector):
    """Select the K experts with the largest probability under a classifier.

    Parameters
    ----------
    estimator : scikit-learn classifier
        Any classifier with `fit` and `predict_proba`; a clone is fitted to (x, expert of x).
    max_rows : int
        Largest number of training rows for the classifier; a random sample of more.

    Notes
    -----
    Experts with the same probability (a forest gives 0 to many) are ranked by the distance to their
    centroids, so that the selection does not depend on the numbering of the experts.
    """

    def __init__(self, estimator: Any, max_rows: int = 100_000) -> None:
        self.estimator = estimator
        self.max_rows = max_rows

    def fit(self, experts: ExpertsView) -> ClassifierSelector:
        X, labels = _sample(experts, self.max_rows)
        self.centroids_ = experts.centroids
        self.classes_ = np.unique(labels)
        if len(self.classes_) > 1:
            self.classifier_ = self._new_classifier(len(X))
            _set_random_state(self.classifier_, experts.random_state)
            self._fit_classifier(X, labels)
        return self

    def _new_classifier(self, n_rows: int) -> Any:
        return clone(self.estimator)

    def _fit_classifier(self, X: np.ndarray, labels: np.ndarray) -> None:
        self.classifier_.fit(X, labels)

    def probability(self, X: np.ndarray) -> np.ndarray:
        """Probability of each expert for each query, (n, M)."""
        p = np.zeros((len(X), len(self.centroids_)))
        if len(self.classes_) > 1:
            p[:, self.classes_] = self.classifier_.predict_proba(X)
        return p

    def select(self, X: np.ndarray, n_selected: int) -> np.ndarray:
        index = np.empty((len(X), n_selected), dtype=np.int64)
        for rows in row_chunks(len(X), len(self.centroids_)):
            distance = cdist(X[rows], self.centroids_)
            order = np.lexsort((distance, -self.probability(X[rows])), axis=1)
            index[rows] = order[:, :n_selected]
        return index


class DNNSelector(ClassifierSelector):
    """The paper's neural network: one hidden layer, fitted to (x, expert of x) by Adam.

    Parameters
    ----------
    hidden_units : int or tuple of int
        Units of the hidden layer, or of each hidden layer.
    output : {"softmax", "sigmoid"}
        Softmax with cross-entropy, or one sigmoid per expert with binary cross-entropy.
    batch_size : int or "auto"
        Rows per step of Adam; ``"auto"`` is min(200, n).
    max_iter : int
        Passes over the data.
    learning_rate : float
        Initial step of Adam.
    max_rows : int
        Largest number of training rows for the network; a random sample of more.
    """

    def __init__(
        self,
        hidden_units: int | tuple[int, ...] = 50,
        output: str = "softmax",
        batch_size: int | str = "auto",
        max_iter: int = 100,
        learning_rate: float = 5e-3,
        max_rows: int = 100_000,
    ) -> None:
        self.hidden_units = hidden_units
        self.output = output
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.max_rows = max_rows

    def fit(self, experts: ExpertsView) -> DNNSelector:
        if self.output not in ("softmax", "sigmoid"):
            raise ValueError(f"Unknown output {self.output!r} of DNNSelector; known are softmax, sigmoid.")
        super().fit(experts)
        return self

    def _new_classifier(self, n_rows: int) -> Any:
        from sklearn.neural_network import MLPClassifier  # late: this import is slow

        return MLPClassifier(
            hidden_layer_sizes=np.atleast_1d(self.hidden_units).tolist(),
            batch_size=self.batch_size if self.batch_size == "auto" else min(self.batch_size, n_rows),
            max_iter=self.max_iter,
            learning_rate_init=self.learning_rate,
            tol=1e-3,
            n_iter_no_change=5,
        )

    def _fit_classifier(self, X: np.ndarray, labels: np.ndarray) -> None:
        # A multi-label target makes MLPClassifier use one sigmoid per class and binary cross-entropy.
        target = labels if self.output == "softmax" else labels[:, None] == self.classes_
        # The ranking converges long before the loss, so reaching `max_iter` is expected.
        with blas_threads(1), interrupts_raised():
            self.classifier_.fit(X, target)


def _sample(experts: ExpertsView, max_rows: int) -> tuple[np.ndarray, np.ndarray]:
    n = len(experts.X)
    if n <= max_rows:
        return experts.X, experts.labels
    rows = np.sort(experts.random_state.choice(n, max_rows, replace=False))
    return experts.X[rows], experts.labels[rows]


def _set_random_state(estimator: Any, random_state: np.random.RandomState) -> None:
    """Set every `random_state` of the classifier, nested ones too, that the user left None."""
    params = estimator.get_params(deep=True)
    seeds = {
        name: random_state.randint(np.iinfo(np.int32).max)
        for name in sorted(params)
        if name.split("__")[-1] == "random_state" and params[name] is None
    }
    estimator.set_params(**seeds)

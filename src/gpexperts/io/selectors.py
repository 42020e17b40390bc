"""Fitted selectors: what a file holds of them, and how they are restored.

A selector that follows from the rows of the experts is fitted again. Of the others, the file holds what they
have learned; their class and parameters are those of the estimator's `selection`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.neural_network import MLPClassifier

from gpexperts.io.values import Decoder, Encoder, require
from gpexperts.model import FittedModel
from gpexperts.prepare import experts_view
from gpexperts.selection import ClassifierSelector, GGMSelector, KNNSelector, NearestRowsSelector, Selector
from gpexperts.settings import Settings

__all__ = ["restored_selector", "selector_tree"]


def selector_tree(out: Encoder, selector: Selector | None) -> dict[str, Any] | None:
    """Return what a selector has learned beyond the rows and centroids of its experts; None for nothing."""
    learned: dict[str, Any] = {}
    if isinstance(selector, GGMSelector):
        learned = {"precision": selector.precision_, "importance": selector.importance_}
    elif isinstance(selector, ClassifierSelector):
        classes = selector.classes_.astype(np.int64)
        network = None if len(classes) == 1 else _network_tree(out, selector.classifier_)
        return {"classes": out.array(classes, "selector.classes"), "network": network}
    elif isinstance(selector, KNNSelector) and selector.metric == "hamming":
        learned = {"places": selector.places_}
    elif isinstance(selector, NearestRowsSelector):  # of a sample of the rows, as on a cluster
        sizes = np.diff(selector.starts_)
        learned = {"X": selector.rows_, "labels": np.repeat(np.arange(len(sizes)), sizes)}
    return out.named(learned, "selector") or None


def restored_selector(read: Decoder, tree: Any, model: FittedModel, settings: Settings) -> Selector:
    """Return the selector of the settings, fitted."""
    selector, (M, d) = settings.selector, model.centroids.shape
    if isinstance(selector, GGMSelector):
        selector.precision_ = read.array(tree["precision"], (M, M))
        selector.importance_ = read.array(tree["importance"], (M,))
        return selector
    if isinstance(selector, ClassifierSelector):
        selector.centroids_ = model.centroids
        selector.classes_ = classes = read.array(tree["classes"], (None,), np.int64)
        ascending = len(classes) > 0 and bool((np.diff(classes) > 0).all())
        require(ascending and classes[0] >= 0 and classes[-1] < M, "the classes are not numbers of experts")
        if len(classes) > 1:
            selector.classifier_ = _network(read, tree["network"], len(classes), d)
        return selector
    if isinstance(selector, KNNSelector) and selector.metric == "hamming":
        selector.scale_, selector.places_ = np.ones(d), read.array(tree["places"], (M, d))
        return selector
    view = experts_view(model, settings)
    if tree is not None:
        labels = read.array(tree["labels"], (None,), np.int64)
        ascending = bool((np.diff(labels) >= 0).all() and (labels >= 0).all() and (labels < M).all())
        require(ascending, "the labels of the selector's rows are not ascending numbers of experts")
        view = replace(view, X=read.array(tree["X"], (len(labels), d)), labels=labels)
    return selector.fit(view)


def _network_tree(out: Encoder, network: Any) -> dict[str, Any]:
    """What `predict_proba` needs of a fitted network."""
    fitted = {"coefs": network.coefs_, "intercepts": network.intercepts_, "classes": network.classes_}
    return {
        "params": out.named(network.get_params(deep=False), "selector.network"),
        "out_activation": network.out_activation_,
        **out.named(fitted, "selector.network"),
    }


def _network(read: Decoder, tree: Any, n_classes: int, d: int) -> MLPClassifier:
    network = MLPClassifier(**read.named(tree["params"]))
    network.coefs_, network.intercepts_ = [], []
    width = d
    for weights, offset in zip(tree["coefs"], tree["intercepts"], strict=True):
        network.coefs_.append(read.array(weights, (width, None)))
        width = network.coefs_[-1].shape[1]
        network.intercepts_.append(read.array(offset, (width,)))
    network.n_features_in_, network.n_outputs_, network.n_layers_ = d, width, len(network.coefs_) + 1
    network.out_activation_, network.classes_ = tree["out_activation"], read.decode(tree["classes"])
    probability = network.predict_proba(np.zeros((2, d)))
    fits = probability.shape == (2, n_classes) and bool(np.isfinite(probability).all())
    require(fits, f"the network gives no probabilities of {n_classes} experts")
    return network

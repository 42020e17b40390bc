"""Whether a selector from a file can be asked: its settings, its arrays, and a first question to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.neural_network import MLPClassifier

from gpexperts.io.validators import Kind, array, check_kinds, instance, require, whole
from gpexperts.selection import (
    AllSelector,
    ClassifierSelector,
    GGMSelector,
    KNNSelector,
    NearestRowsSelector,
    Selector,
)
from gpexperts.selection.base import checked_index
from gpexperts.selection.knn import MAX_POWER, METRICS
from gpexperts.settings import is_number

__all__ = ["check_selection"]


def check_selection(model: Any) -> None:
    """Ask the selector about one row, as the first prediction will."""
    M, d = model.n_experts_, model.n_features_in_
    if isinstance(model.selection, Selector):
        _check_selector_settings(model.selection, d)
    elif not isinstance(model.selection, MLPClassifier):
        model._new_selector()  # raises where there is none of that name
    given = model._n_selected_given()
    if model._learned_rule is not None:
        _, rule = model._learned_rule
        require(
            whole(1, M)(rule.n_selected)
            and is_number(rule.prune)
            and 0.0 <= rule.prune <= 1.0
            and (rule.widen is None or (is_number(rule.widen) and 0.0 < rule.widen < np.inf))
            and is_number(rule.scale)
            and 0.0 < rule.scale < np.inf
            and is_number(rule.surprise)
            and 0.0 <= rule.surprise <= 1.0,
            "the rule of how many experts are asked is none",
        )
    if model._fitted_selector is None:
        return
    _, selector = model._fitted_selector
    _check_selector_settings(selector, d)
    require(_selector_fits(selector, M, d), f"the {type(selector).__name__} does not fit {M} experts")
    n_selected = M if isinstance(selector, AllSelector) else min(given or 1, M)
    index = checked_index(selector.select(model._experts.X[:1], n_selected), 1, M)
    require(index.shape[1] == n_selected, f"the {type(selector).__name__} asks {index.shape[1]} experts")


def _selector_fits(selector: Selector, M: int, d: int) -> bool:
    state = vars(selector)
    if isinstance(selector, AllSelector):
        return bool(state["n_experts_"] == M)
    if isinstance(selector, KNNSelector):
        scale = state["scale_"]
        places = state["places_"]
        return (
            array(scale, (d,))
            and bool((scale > 0).all())
            and array(places, (M, d))
            # `scale_` is the size of it all: further away the tree would find nobody.
            and (selector.metric == "hamming" or bool((np.abs(places) <= 2.0).all()))
        )
    if isinstance(selector, NearestRowsSelector):
        starts, centroids = state["starts_"], state["by_centroid_"]
        return (
            isinstance(centroids, KNNSelector)
            and _selector_fits(centroids, M, d)
            and array(rows := state["rows_"], (None, d))
            and array(starts, (M + 1,), "i")
            and bool((np.diff(starts) >= 0).all() and starts[0] == 0 and starts[-1] == len(rows))
        )
    if isinstance(selector, GGMSelector):
        return array(state["precision_"], (M, M)) and array(state["importance_"], (M,))
    if isinstance(selector, ClassifierSelector):
        classes = state["classes_"]
        return (
            array(state["centroids_"], (M, d))
            and array(classes, (None,), "i")
            and 0 < len(classes) == len(np.unique(classes))
            and bool(((classes >= 0) & (classes < M)).all())
            and (len(classes) == 1 or _network_fits(state["classifier_"], len(classes), d))
        )
    return False


def _network_fits(network: Any, n_classes: int, d: int) -> bool:
    """Whether the layers of a network lead from d inputs to its classes, through finite weights."""
    if not isinstance(network, MLPClassifier):
        return False
    layers = list(zip(network.coefs_, network.intercepts_, strict=True))
    width: int = d
    for weights, offset in layers:
        if not (array(weights, (width, None)) and array(offset, (weights.shape[1],))):
            return False
        width = weights.shape[1]
    answer = network.predict_proba(np.zeros((2, d)))
    return (
        network.n_layers_ == len(layers) + 1
        and network.n_outputs_ == width
        and answer.shape == (2, n_classes)
        and bool(np.isfinite(answer).all())
    )


_SELECTOR_SETTINGS: dict[str, Kind] = {
    "metric": lambda v: v in METRICS,
    "p": lambda v: is_number(v) and (1.0 <= v <= MAX_POWER or v == np.inf),
    "penalty": lambda v: is_number(v) and 0.0 < v < np.inf,
    "sample_size": whole(1),
    "max_iter": whole(1),
    "hidden_units": lambda v: all(map(whole(1, 100_000), v if isinstance(v, (list, tuple)) else [v])),
    "output": lambda v: v in ("softmax", "sigmoid"),
    "batch_size": lambda v: v == "auto" or whole(1)(v),
    "learning_rate": lambda v: is_number(v) and 0.0 < v < np.inf,
    "max_rows": whole(1),
    "n_candidates": whole(1),
    "estimator": instance(MLPClassifier),
}


def _check_selector_settings(selector: Selector, d: int) -> None:
    names = selector.get_params(deep=False)
    kinds = {name: _SELECTOR_SETTINGS[name] for name in names if name in _SELECTOR_SETTINGS}
    if "inputs" in names:
        kinds["inputs"] = lambda v: v is None or array(v, (None, d))
    check_kinds(names, kinds, f"the {type(selector).__name__}")

"""What a model from a file must have before it may be asked: every attribute, of the right kind and size.

A checksum finds damage. It does not find a file that was made by hand, or by a version of this library that
kept other attributes; such a file would fail later, inside a prediction, in words that help nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.neural_network import MLPClassifier

from gpexperts.exceptions import CorruptModelError, RefitRequiredError
from gpexperts.experts.kernels import Covariance
from gpexperts.experts.local import Experts
from gpexperts.experts.training import TraceRow
from gpexperts.holdout import Rule
from gpexperts.partition import Partitioner
from gpexperts.selection import (
    AllSelector,
    ClassifierSelector,
    GGMSelector,
    KNNSelector,
    Selector,
)
from gpexperts.selection.base import checked_index
from gpexperts.selection.nearest import METRICS
from gpexperts.standardize import Standardizer
from gpexperts.tables.schema import Column, TableSchema

__all__ = ["FITTED", "SETTINGS", "check_factors", "check_model"]

Kind = Callable[[Any], bool]


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _whole(low: int, high: int = 2**62) -> Kind:
    return lambda v: (
        isinstance(v, (int, np.integer)) and not isinstance(v, bool) and bool(low <= v) and bool(v <= high)
    )


def _instance(*classes: type) -> Kind:
    return lambda value: isinstance(value, classes)


def _array(value: Any, shape: tuple[int | None, ...] | None = None, kinds: str = "f") -> bool:
    """Whether a value is an array of finite numbers; None stands for any length."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind in kinds
        and (value.dtype.kind != "f" or (value.dtype == np.float64 and bool(np.isfinite(value).all())))
        and (
            shape is None
            or (
                value.ndim == len(shape)
                and all(n in (m, None) for n, m in zip(shape, value.shape, strict=True))
            )
        )
    )


def _pair_of(second: type) -> Kind:
    return lambda v: v is None or (isinstance(v, tuple) and len(v) == 2 and isinstance(v[1], second))


_JOBS = 1000
"""A file may not ask for more threads than this."""

SETTINGS: dict[str, Kind] = {
    "n_experts": _instance(Integral, str),
    "expert_size": _instance(Integral, str),
    "partition": _instance(str, Partitioner, np.ndarray),
    "kernel": _instance(str, Kernel),
    "optimizer": _instance(str, type(None)),
    "n_restarts": _whole(0),
    "training": _instance(str),
    "selection": _instance(str, Selector, MLPClassifier),
    "n_selected": _instance(Real, str),
    "aggregation": lambda v: True,  # `_aggregator` says what is wrong with it
    "standardize": _instance(bool),
    "memory_budget": _instance(Real, str),
    "engine": lambda v: True,
    "n_jobs": lambda v: v is None or (_whole(-_JOBS, _JOBS)(v) and v != 0),
    "random_state": lambda v: v is None or isinstance(v, np.random.RandomState) or _whole(0, 2**32 - 1)(v),
    "verbose": _instance(Integral),
    "checkpoint": lambda v: True,
    "share_inputs": _instance(bool),
}
"""Parameters of the estimator; that their values are allowed is for the functions that read them."""

FITTED: dict[str, Kind] = {
    "n_features_in_": _whole(1),
    "n_experts_": _whole(1),
    "labels_": lambda v: _array(v, (None,), "i"),
    "centroids_": _array,
    "kernel_": _instance(Kernel),
    "log_marginal_likelihood_value_": _number,
    "trace_": lambda v: isinstance(v, list) and len(v) > 0 and all(isinstance(row, TraceRow) for row in v),
    "choices_": lambda v: isinstance(v, dict) and all(isinstance(name, str) for name in v),
    "repairs_": lambda v: isinstance(v, dict) and _whole(0)(v.get("queries_mended")),
    "_experts": _instance(Experts),
    "_centroids": _array,
    "_x_scale": _instance(Standardizer),
    "_y_scale": _instance(Standardizer),
    "_y_ndim": _whole(1, 2),
    "_varies": lambda v: _array(v, (None,), "b"),
    "_fitted_with_communication": _instance(bool),
    "_selection_seed": _whole(0, 2**32 - 1),
    "_rule_seed": _whole(0, 2**32 - 1),
    "_fitted_selector": _pair_of(Selector),
    "_learned_rule": _pair_of(Rule),
}
"""What `fit` leaves behind; a new attribute of the estimator belongs here, too."""

_EXPERTS: dict[str, Kind] = {
    "X": lambda v: _array(v, (None, None)),
    "y": lambda v: _array(v, (None, None)),
    "offsets": lambda v: _array(v, (None,), "i"),
    "first": _whole(0),
    "covariance": _instance(Covariance),
    "shared": lambda v: v is None or (_pair_of(np.ndarray)(v) and all(_array(a, (None, None)) for a in v)),
    "factor_budget": _whole(0),
    "jitter": lambda v: isinstance(v, dict) and all(map(_number, [*v.keys(), *v.values()])),
}


def check_model(model: Any) -> None:
    """Raise an error that names the first thing that is missing or wrong in a fitted estimator."""
    _check_kinds(vars(model), {**SETTINGS, **FITTED}, "the model")
    experts = model._experts
    _check_kinds(vars(experts), _EXPERTS, "the experts")
    _require(_sizes_agree(model), "the sizes of its arrays contradict each other")
    _check_kernels(model)
    model._check_settings()
    _ = model._factor_budget, model._engine()
    with suppress(RefitRequiredError):  # a setting that was changed after the fit, as `predict` will say
        model._aggregator()
    _check_selection(model)
    _check_table(model)


def check_factors(experts: Experts, rows: Any) -> None:
    """Raise an error where stored factors do not fit the experts they are for."""
    everyone = range(experts.n_experts + (experts.shared is not None))
    for i, lower, alpha in rows:
        _require(_whole(0)(i) and i in everyone, f"there is no expert {i!r}")
        m = experts.size(i)
        fits = _array(lower, (m, m)) and lower.flags.f_contiguous and _array(alpha, (experts.n_outputs, m))
        _require(fits, f"the factor of expert {i} does not fit its {m} rows")


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise CorruptModelError(f"{fault}.")


def _check_kinds(state: Mapping[str, Any], kinds: Mapping[str, Kind], who: str) -> None:
    lacking = [name for name in kinds if name not in state]
    _require(
        not lacking,
        f"{who} lacks {', '.join(lacking)}; perhaps another version of gpexperts has written it, and fitting "
        "and saving it again with this one helps",
    )
    for name, is_right in kinds.items():
        _require(is_right(state[name]), f"{name} of {who} is of the wrong kind, or holds NaN or infinity")


def _sizes_agree(model: Any) -> bool:
    experts = model._experts
    (n, d), p, M = experts.X.shape, experts.y.shape[1], len(experts.offsets) - 1
    sizes = np.diff(experts.offsets)
    shared = experts.shared
    return (
        n > 0
        and d > 0
        and p > 0
        and M > 0
        and len(experts.y) == n
        and experts.offsets[0] == 0
        and experts.offsets[-1] == n
        and bool((sizes > 0).all())
        and model.n_experts_ == M
        and model.n_features_in_ == d
        and (model._y_ndim == 2 or p == 1)
        and model._varies.shape == (p,)
        and _scales(model._x_scale, d)
        and _scales(model._y_scale, p)
        and model._centroids.shape == model.centroids_.shape == (M, d)
        and bool((model.labels_ < M).all())
        and model._fitted_with_communication == (shared is not None)
        and (
            shared is None
            or (len(shared[0]) > 0 and shared[0].shape[1:] == (d,) and shared[1].shape == (len(shared[0]), p))
        )
    )


def _scales(scale: Standardizer, width: int) -> bool:
    return _array(scale.shift, (width,)) and _array(scale.scale, (width,)) and bool((scale.scale > 0).all())


def _check_kernels(model: Any) -> None:
    """Have the kernel evaluated on two rows: its parameters may be anything."""
    covariance = model._experts.covariance
    for kernel in (model.kernel_, covariance.kernel):
        _require(_array(kernel.theta, (None,)) and str(kernel) != "", "the kernel has no finite parameters")
        _ = kernel.bounds
    _require(0.0 <= covariance.noise_variance < np.inf, "the noise has no variance")
    X = model._experts.X[:2]
    gram, variance = covariance(X, X), covariance.prior_variance(X)
    _require(
        _array(gram, (len(X), len(X)))
        and _array(variance, (len(X),))
        and bool((variance >= 0).all())
        and np.allclose(gram, gram.T),
        "the kernel gives no covariance",
    )
    _require(_array(covariance.length_scale(X.shape[1]), (X.shape[1],)), "the kernel does not fit the inputs")


def _check_selection(model: Any) -> None:
    """Ask the selector about one row, as the first prediction will."""
    M, d = model.n_experts_, model.n_features_in_
    if isinstance(model.selection, Selector):
        _check_selector_settings(model.selection, d)
    elif not isinstance(model.selection, MLPClassifier):
        model._new_selector()  # raises where there is none of that name
    given = model._n_selected_given()
    if model._learned_rule is not None:
        _, rule = model._learned_rule
        _require(
            _whole(1, M)(rule.n_selected)
            and _number(rule.prune)
            and 0.0 <= rule.prune <= 1.0
            and (rule.widen is None or (_number(rule.widen) and 0.0 < rule.widen < np.inf)),
            "the rule of how many experts are asked is none",
        )
    if model._fitted_selector is None:
        return
    _, selector = model._fitted_selector
    _check_selector_settings(selector, d)
    _require(_selector_fits(selector, M, d), f"the {type(selector).__name__} does not fit {M} experts")
    n_selected = M if isinstance(selector, AllSelector) else min(given or 1, M)
    index = checked_index(selector.select(model._experts.X[:1], n_selected), 1, M)
    _require(index.shape[1] == n_selected, f"the {type(selector).__name__} asks {index.shape[1]} experts")


def _selector_fits(selector: Selector, M: int, d: int) -> bool:
    state = vars(selector)
    if isinstance(selector, AllSelector):
        return bool(state["n_experts_"] == M)
    if isinstance(selector, KNNSelector):
        scale = state["scale_"]
        return _array(scale, (d,)) and bool((scale > 0).all()) and _array(state["places_"], (M, d))
    if isinstance(selector, GGMSelector):
        return _array(state["precision_"], (M, M)) and _array(state["importance_"], (M,))
    if isinstance(selector, ClassifierSelector):
        classes = state["classes_"]
        return (
            _array(state["centroids_"], (M, d))
            and _array(classes, (None,), "i")
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
        if not (_array(weights, (width, None)) and _array(offset, (weights.shape[1],))):
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
    "p": lambda v: _number(v) and 1.0 <= v < np.inf,
    "penalty": lambda v: _number(v) and 0.0 < v < np.inf,
    "sample_size": _whole(1),
    "max_iter": _whole(1),
    "hidden_units": lambda v: all(map(_whole(1, 100_000), v if isinstance(v, (list, tuple)) else [v])),
    "output": lambda v: v in ("softmax", "sigmoid"),
    "batch_size": lambda v: v == "auto" or _whole(1)(v),
    "learning_rate": lambda v: _number(v) and 0.0 < v < np.inf,
    "max_rows": _whole(1),
    "estimator": _instance(MLPClassifier),
}


def _check_selector_settings(selector: Selector, d: int) -> None:
    names = selector.get_params(deep=False)
    kinds = {name: _SELECTOR_SETTINGS[name] for name in names if name in _SELECTOR_SETTINGS}
    if "inputs" in names:
        kinds["inputs"] = lambda v: v is None or _array(v, (None, d))
    _check_kinds(names, kinds, f"the {type(selector).__name__}")


def _check_table(model: Any) -> None:
    """What commands read besides: names of inputs, and the table the model was trained on."""
    names = getattr(model, "feature_names_in_", None)
    d = model.n_features_in_
    if names is not None:
        fits = (
            isinstance(names, np.ndarray) and names.shape == (d,) and all(isinstance(n, str) for n in names)
        )
        _require(fits, "the names of its inputs are not one for each")
    table = getattr(model, "table_", None)
    if table is None:
        return
    fits = (
        isinstance(table, TableSchema)
        and isinstance(table.columns, list)
        and all(isinstance(v, str) for v in (table.target, table.source, table.sha256))
        and all(map(_whole(0), (table.n_rows, table.n_dropped)))
        and all(map(_number, (table.target_low, table.target_high)))
        and isinstance(table.config, dict)
        and all(map(_is_column, table.columns))
        and len(table.feature_names) == d
    )
    _require(fits, "the table it was trained on is not described as it should be")


def _is_column(column: Any) -> bool:
    return (
        isinstance(column, Column)
        and isinstance(column.name, str)
        and isinstance(column.categories, list)
        and all(isinstance(value, str) for value in column.categories)
        and (column.kind == "categories" or (column.kind in ("number", "boolean") and _number(column.low)))
    )

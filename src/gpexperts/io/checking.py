"""What a model from a file must have before it may be asked: every attribute, of the right kind and size.

A checksum finds damage. It does not find a file that was made by hand, or by a version of this library that
kept other attributes; such a file would fail later, inside a prediction, in words that help nobody.
"""

from __future__ import annotations

from contextlib import suppress
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.neural_network import MLPClassifier

from gpexperts.aggregation import GRBCM, NPAE
from gpexperts.calibration import METHODS, Calibration
from gpexperts.exceptions import RefitRequiredError
from gpexperts.experts.local import Experts
from gpexperts.io.selectors import check_selection
from gpexperts.io.validators import (
    Kind,
    array,
    check_kinds,
    instance,
    keyed,
    pair_of,
    require,
    whole,
)
from gpexperts.kernels.named import Covariance
from gpexperts.partition import Partitioner
from gpexperts.scaling import Standardizer
from gpexperts.selection import Selector
from gpexperts.settings import is_number
from gpexperts.tables.schema import Column, TableSchema
from gpexperts.training.likelihood import TraceRow
from gpexperts.tuning import Rule

__all__ = ["FITTED", "SETTINGS", "check_factors", "check_model"]

_JOBS = 1000
"""A file may not ask for more threads than this."""

SETTINGS: dict[str, Kind] = {
    "n_experts": instance(Integral, str),
    "expert_size": instance(Integral, str),
    "partition": instance(str, Partitioner, np.ndarray, list),
    "kernel": instance(str, Kernel),
    "optimizer": instance(str, type(None)),
    "n_restarts": whole(0),
    "training": instance(str),
    "selection": instance(str, Selector, MLPClassifier),
    "n_selected": instance(Real, str),
    "aggregation": lambda v: True,  # `_aggregator` says what is wrong with it
    "standardize": instance(Integral),
    "memory_budget": instance(Real, str),
    "engine": lambda v: True,
    "calibrate": instance(str, type(None)),
    "n_jobs": lambda v: v is None or (whole(-_JOBS, _JOBS)(v) and v != 0),
    "random_state": lambda v: v is None or isinstance(v, np.random.RandomState) or whole(0, 2**32 - 1)(v),
    "verbose": instance(Integral),
    "checkpoint": lambda v: True,
    "share_inputs": instance(Integral),
}
"""Parameters of the estimator; that their values are allowed is for the functions that read them."""

FITTED: dict[str, Kind] = {
    "n_features_in_": whole(1),
    "n_experts_": whole(1),
    "centroids_": array,
    "kernel_": instance(Kernel),
    "log_marginal_likelihood_value_": is_number,
    "trace_": lambda v: isinstance(v, list) and len(v) > 0 and all(isinstance(row, TraceRow) for row in v),
    "choices_": lambda v: isinstance(v, dict) and all(isinstance(name, str) for name in v),
    "repairs_": lambda v: isinstance(v, dict) and whole(0)(v.get("queries_mended")),
    "_experts": instance(Experts),
    "_centroids": array,
    "_x_scale": instance(Standardizer),
    "_y_scale": instance(Standardizer),
    "_y_ndim": whole(1, 2),
    "_varies": lambda v: array(v, (None,), "b"),
    "_fitted_with_communication": instance(bool),
    "_jitter_is_told": instance(bool),
    "_selection_seed": whole(0, 2**32 - 1),
    "_rule_seed": whole(0, 2**32 - 1),
    "_fitted_selector": keyed(Selector),
    "_learned_rule": keyed(Rule),
    "_fitted_calibrate": lambda v: v in METHODS,
    "_held_out": lambda v: v is None or (pair_of(np.ndarray)(v) and all(array(a, (None, None)) for a in v)),
    "_learned_calibration": keyed(Calibration),
}
"""What `fit` leaves behind; a new attribute of the estimator belongs here, too."""

_RULES: dict[type, dict[str, Kind]] = {
    NPAE: {
        "nugget": lambda v: is_number(v) and 0.0 <= v < 1.0,
        "widen": lambda v: v in (None, "auto") or (is_number(v) and 0.0 < v < np.inf),
        "scale": lambda v: is_number(v) and 0.0 < v < np.inf,
        "surprise": lambda v: is_number(v) and 0.0 <= v <= 1.0,
    },
    GRBCM: {"communication_size": lambda v: v is None or whole(1)(v)},
}

_EXPERTS: dict[str, Kind] = {
    "X": lambda v: array(v, (None, None)),
    "y": lambda v: array(v, (None, None)),
    "offsets": lambda v: array(v, (None,), "i"),
    "first": whole(0),
    "covariance": instance(Covariance),
    "shared": lambda v: v is None or (pair_of(np.ndarray)(v) and all(array(a, (None, None)) for a in v)),
    "factor_budget": whole(0),
    "jitter": lambda v: isinstance(v, dict) and all(map(is_number, [*v.keys(), *v.values()])),
}


def check_model(model: Any) -> None:
    """Raise an error that names the first thing that is missing or wrong in a fitted estimator."""
    check_kinds(vars(model), {**SETTINGS, **FITTED}, "the model")
    experts = model._experts
    check_kinds(vars(experts), _EXPERTS, "the experts")
    require(_sizes_agree(model), "the sizes of its arrays contradict each other")
    _check_kernels(model)
    model._check_settings()
    _ = model._factor_budget, model._engine()
    with suppress(RefitRequiredError):  # a setting that was changed after the fit, as `predict` will say
        rule = model._aggregator()
        check_kinds(rule.get_params(), _RULES.get(type(rule), {}), "the aggregation")
    check_selection(model)
    _check_table(model)


def check_factors(experts: Experts, rows: Any) -> None:
    """Raise an error where stored factors do not fit the experts they are for."""
    everyone = range(experts.n_experts + (experts.shared is not None))
    for i, lower, alpha in rows:
        require(whole(0)(i) and i in everyone, f"there is no expert {i!r}")
        m = experts.size(i)
        fits = array(lower, (m, m)) and lower.flags.f_contiguous and array(alpha, (experts.n_outputs, m))
        require(fits, f"the factor of expert {i} does not fit its {m} rows")


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
        and _labels_fit(model, M)
        and model._fitted_with_communication == (shared is not None)
        and _calibration_fits(model, d, p)
        and (
            shared is None
            or (len(shared[0]) > 0 and shared[0].shape[1:] == (d,) and shared[1].shape == (len(shared[0]), p))
        )
    )


def _labels_fit(model: Any, M: int) -> bool:
    """One of M experts for each row; a model of a dask collection has no labels."""
    labels = getattr(model, "labels_", None)
    return labels is None or (array(labels, (None,), "i") and bool((labels < M).all()))


def _calibration_fits(model: Any, d: int, p: int) -> bool:
    if model._held_out is None or model._fitted_calibrate is None:
        return model._held_out is model._fitted_calibrate is model._learned_calibration is None
    X, y = model._held_out
    n = len(y)
    if not (n > 0 and X.shape == (n, d) and y.shape == (n, p)):
        return False
    if model._learned_calibration is None:
        return True
    scores = model._learned_calibration[1].scores
    return array(scores, (n, p)) and bool((scores >= 0).all())


def _scales(scale: Standardizer, width: int) -> bool:
    return array(scale.shift, (width,)) and array(scale.scale, (width,)) and bool((scale.scale > 0).all())


def _check_kernels(model: Any) -> None:
    """Have the kernel evaluated on two rows: its parameters may be anything."""
    covariance = model._experts.covariance
    for kernel in (model.kernel_, covariance.kernel):
        require(array(kernel.theta, (None,)) and str(kernel) != "", "the kernel has no finite parameters")
        _ = kernel.bounds
    require(0.0 <= covariance.noise_variance < np.inf, "the noise has no variance")
    X = model._experts.X[:2]
    gram, variance = covariance(X, X), covariance.prior_variance(X)
    require(
        array(gram, (len(X), len(X)))
        and array(variance, (len(X),))
        and bool((variance >= 0).all())
        and np.allclose(gram, gram.T),
        "the kernel gives no covariance",
    )
    require(
        array(covariance.metric(np.ones(X.shape[1])), (X.shape[1],)), "the kernel does not fit the inputs"
    )


def _check_table(model: Any) -> None:
    """What commands read besides: names of inputs, and the table the model was trained on."""
    names = getattr(model, "feature_names_in_", None)
    d = model.n_features_in_
    if names is not None:
        fits = (
            isinstance(names, np.ndarray) and names.shape == (d,) and all(isinstance(n, str) for n in names)
        )
        require(fits, "the names of its inputs are not one for each")
    table = getattr(model, "table_", None)
    if table is None:
        return
    fits = (
        isinstance(table, TableSchema)
        and isinstance(table.columns, list)
        and all(isinstance(v, str) for v in (table.target, table.source, table.sha256))
        and all(map(whole(0), (table.n_rows, table.n_dropped)))
        and all(map(is_number, (table.target_low, table.target_high)))
        and isinstance(table.config, dict)
        and all(map(_is_column, table.columns))
        and len(table.feature_names) == d
    )
    require(fits, "the table it was trained on is not described as it should be")


def _is_column(column: Any) -> bool:
    return (
        isinstance(column, Column)
        and isinstance(column.name, str)
        and isinstance(column.categories, list)
        and all(isinstance(value, str) for value in column.categories)
        and (column.kind == "categories" or (column.kind in ("number", "boolean") and is_number(column.low)))
    )

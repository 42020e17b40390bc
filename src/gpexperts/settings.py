"""Settings: a checked snapshot of the parameters at the start of a fit or a prediction."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from gpexperts.aggregation import AGGREGATORS, Aggregator
from gpexperts.calibration import METHODS
from gpexperts.engines import Engine, ThreadEngine
from gpexperts.engines.dask import engine_for
from gpexperts.memory import bytes_of
from gpexperts.partition import PARTITIONERS, Partitioner
from gpexperts.partition.assign import labels_are_given
from gpexperts.selection import SELECTORS, ClassifierSelector, NearestRowsSelector, Selector
from gpexperts.target import NAMES as TRANSFORMS
from gpexperts.trend import ROLES
from gpexperts.trend.regressors import NAMES
from gpexperts.validation import (
    check_bool,
    check_count,
    check_n_jobs,
    check_seed,
    check_word,
    is_auto,
    is_number,
    member,
    positive_int,
)

__all__ = ["Settings", "number_selected"]

_WORK_BYTES = 256 * 1024**2
"""Work arrays of a batch take no more than this, however large the budget: larger ones are no faster."""


@dataclass(frozen=True)
class Settings:
    """The values of all parameters, checked, with the stages that they name."""

    values: Mapping[str, Any]
    """By name, as the user gave them."""
    aggregator: Aggregator
    selector: Selector
    """Not fitted."""
    partitioner: Partitioner | None
    """None where the labels are given."""
    engine: Engine

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Settings:
        """Check parameters as `get_params(deep=False)` gives them.

        Raises
        ------
        ValueError, TypeError
            For the first value that is not accepted.
        """
        values = dict(values)
        bytes_of(values["memory_budget"])
        if values["kernel"] is None:
            values["kernel"] = "auto"
        if values["optimizer"] == "fmin_l_bfgs_b":  # scikit-learn's name
            values["optimizer"] = "lbfgs"
        check_word(values["optimizer"], "optimizer", ("lbfgs", None))
        check_word(values["training"], "training", ("auto", "full"))
        check_word(values["calibrate"], "calibrate", METHODS)
        check_word(values["noise"], "noise", ("gaussian", "student", "auto"))
        _check_trend(values)
        _check_target_transform(values["target_transform"])
        check_count(values["n_restarts"], "n_restarts")
        verbose = values["verbose"]
        check_count(int(verbose) if isinstance(verbose, bool) else verbose, "verbose")
        check_bool(values["standardize"], "standardize")
        check_n_jobs(values["n_jobs"])
        check_seed(values["random_state"])
        _check_neighbors(values)
        values["categorical_features"] = _categorical(values["categorical_features"])
        _check_jackknife(values)
        partition = values["partition"]
        return cls(
            values=values,
            # A copy, no clone: the constructor of a user's subclass may have other parameters.
            aggregator=copy.copy(member(values["aggregation"], AGGREGATORS, Aggregator, "aggregation")),
            selector=_new_selector(values["selection"]),
            partitioner=None if labels_are_given(partition) else _partitioner(partition),
            engine=_engine(values["engine"], values["n_jobs"]),
        )

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def kernel_is_object(self) -> bool:
        """Whether the kernel is a scikit-learn object, which is evaluated on X as given."""
        return isinstance(self["kernel"], Kernel)

    @property
    def factor_budget(self) -> int:
        """Bytes for stored factors."""
        budget = bytes_of(self["memory_budget"])
        return max(budget - _WORK_BYTES, budget // 2)

    @property
    def work_budget(self) -> int:
        """Bytes for the work arrays of a batch."""
        return min(_WORK_BYTES, bytes_of(self["memory_budget"]) // 4)

    def n_selected(self, n_experts: int) -> int | None:
        """K as the user gave it, for M fitted experts; None for "auto"."""
        if is_auto(self["n_selected"]):
            return None
        given = None
        if isinstance(self["n_experts"], (int, np.integer)):
            given = max(int(self["n_experts"]), n_experts)
        elif self.partitioner is None:
            given = n_experts
        return number_selected(self["n_selected"], n_experts, given=given)


def number_selected(n_selected: Any, n_experts: int, *, given: int | None) -> int:
    """Resolve K for M experts: a number, or a ratio of M.

    Parameters
    ----------
    n_selected : int or float
    n_experts : int
        M.
    given : int or None
        M as the user gave it: a larger K is an error. None where M was chosen automatically: a larger K
        means all. The partition may have found fewer parts than that, which is no fault of K.
    """
    if isinstance(n_selected, str):
        raise ValueError(f"n_selected must be 'auto', a number or a ratio, got {n_selected!r}.")
    if not is_number(n_selected):
        raise TypeError(f"n_selected must be 'auto', an int or a float, got {n_selected!r}.")
    if isinstance(n_selected, Integral):
        K = 0 if n_selected == 0 else positive_int(n_selected, "n_selected")
        if given is not None and given < K:
            raise ValueError(
                f"n_selected={K} is more than the {given} experts. "
                f"Choose at most {given}, or 1.0 for all of them."
            )
        return min(K, n_experts)
    ratio = float(n_selected)
    if not 0.0 < ratio <= 1.0:
        raise ValueError(
            f"n_selected={ratio} is a ratio K/M and must lie in (0, 1]; for a number of experts give an int."
        )
    return max(1, int(np.floor(ratio * n_experts + 0.5)))


def _check_neighbors(values: Mapping[str, Any]) -> None:
    """Check the own expert: alone, or beside the experts of NPAE."""
    m, K = values["n_neighbors"], values["n_selected"]
    if not is_auto(m):
        if isinstance(m, bool) or not isinstance(m, Integral):
            raise TypeError(f"n_neighbors must be 'auto' or an int of at least 0, got {m!r}.")
        if m < 0:
            raise ValueError(f"n_neighbors must be at least 0, got {m}.")
    without_experts = is_number(K) and isinstance(K, Integral) and K == 0
    if without_experts and not is_auto(m) and m == 0:
        raise ValueError("n_neighbors=0 and n_selected=0 leave nothing to predict with; set one of them.")
    aggregator = member(values["aggregation"], AGGREGATORS, Aggregator, "aggregation")
    if aggregator.needs_communication and (without_experts or not (is_auto(m) or m == 0)):
        raise ValueError(
            f"aggregation={values['aggregation']!r} needs its fixed experts: use n_neighbors=0 and "
            "n_selected of at least 1."
        )
    if not (aggregator.needs_covariance or without_experts or is_auto(m) or m == 0):
        raise ValueError(
            f"n_neighbors={m} with aggregation={values['aggregation']!r}: the own expert shares rows with "
            "the other experts, which this rule takes as independent. Use n_selected=0 (the own expert "
            "alone), n_neighbors=0, or aggregation='npae'."
        )


def _categorical(value: Any) -> Any:
    """Return `categorical_features` as None, "from_dtype", or a list of bool, of int or of str."""
    if value is None or (isinstance(value, str) and value == "from_dtype"):
        return value
    entries = None if isinstance(value, (str, bytes)) else np.asarray(value)
    if entries is not None and entries.ndim == 1:
        if entries.dtype.kind in "biuU" or len(entries) == 0:
            return entries.tolist()
        if all(isinstance(entry, str) for entry in entries):
            return [str(entry) for entry in entries]
    raise ValueError(
        "categorical_features must be 'from_dtype', None, or a list of bools, of positions or of names, "
        f"got {value!r}."
    )


def _check_target_transform(transform: Any) -> None:
    if isinstance(transform, str):
        check_word(transform, "target_transform", (None, *TRANSFORMS, "auto"))
    elif transform is not None and not (
        hasattr(transform, "transform")
        and hasattr(transform, "inverse_transform")
        and not isinstance(transform, type)
    ):
        raise TypeError(
            f"target_transform must be None, {', '.join(map(repr, TRANSFORMS))}, 'auto' or a transformer "
            f"with transform and inverse_transform, got {transform!r}."
        )


def _check_trend(values: Mapping[str, Any]) -> None:
    """Check the trend and its role."""
    trend, role = values["trend"], values["trend_role"]
    check_word(role, "trend_role", ("auto", *ROLES))
    if isinstance(trend, str):
        check_word(trend, "trend", (None, *NAMES, "auto"))
    elif trend is not None and not (
        hasattr(trend, "fit") and hasattr(trend, "predict") and not isinstance(trend, type)
    ):
        raise TypeError(
            f"trend must be None, {', '.join(map(repr, NAMES))}, 'auto' or a regressor with fit and predict, "
            f"got {trend!r}."
        )
    untrained = values["optimizer"] is None or values["training"] == "full"
    if isinstance(trend, str) and trend == "sparse" and untrained:
        raise ValueError(
            "trend='sparse' trains the kernel before it, and again for what it leaves: use training='auto' "
            f"and an optimizer, got training={values['training']!r}, optimizer={values['optimizer']!r}."
        )
    if trend is not None and role in ("input", "both") and isinstance(values["kernel"], Kernel):
        raise ValueError(
            f"trend_role={role!r} adds an input, but the kernel object has the length scales of X. Name a "
            "kernel, or use trend_role='mean'."
        )


def _check_jackknife(values: Mapping[str, Any]) -> None:
    aggregator = member(values["aggregation"], AGGREGATORS, Aggregator, "aggregation")
    if values["calibrate"] == "jackknife" and aggregator.needs_communication:
        raise ValueError(
            f"calibrate='jackknife' is not available for aggregation={values['aggregation']!r}, whose "
            "experts share rows. Use calibrate='conformal', or another rule."
        )


def _partitioner(partition: Any) -> Partitioner:
    if is_auto(partition):
        return PARTITIONERS["balanced"]()
    return member(partition, PARTITIONERS, Partitioner, "partition")


def _new_selector(selection: Any) -> Selector:
    if is_auto(selection):
        return NearestRowsSelector()
    if not isinstance(selection, (str, Selector)) and hasattr(selection, "predict_proba"):
        return ClassifierSelector(selection)
    if hasattr(selection, "fit") and not isinstance(selection, Selector):
        raise TypeError(f"The classifier selection={selection!r} has no predict_proba to rank experts.")
    return clone(member(selection, SELECTORS, Selector, "selection"))


def _engine(engine: Any, n_jobs: int | None) -> Engine:
    if engine is None:
        return ThreadEngine(n_jobs)
    return engine if isinstance(engine, Engine) else engine_for(engine)

"""The parameters of the estimator: each is named, described, defaulted and checked here, and only here.

`PARAMETERS` is the table. The estimator's docstring and the options of ``gpexperts fit`` are made from it,
model files hold its names, and a test compares it with the constructor. `Settings` is a checked snapshot of
the values at the start of a fit or a prediction.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

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
from gpexperts.validation import is_auto, is_number, member, positive_int

__all__ = ["PARAMETERS", "RENAMED", "Parameter", "Settings", "documented", "number_selected"]

_WORK_BYTES = 256 * 1024**2
"""Work arrays of a batch take no more than this, however large the budget: larger ones are no faster."""


class Parameter(NamedTuple):
    """One parameter of the estimator."""

    default: Any
    accepts: str
    """What it may be, as in a docstring."""
    help: str
    """What it does, in a sentence or two."""
    flag: Any = None
    """The type that the command line reads; None if it is no option of ``gpexperts fit``."""


PARAMETERS: dict[str, Parameter] = {
    "n_experts": Parameter("auto", 'int or "auto"', "Number of experts, M.", str),
    "expert_size": Parameter(
        "auto",
        'int or "auto"',
        "Training rows per expert, from which M follows.",
        str,
    ),
    "partition": Parameter(
        "auto",
        '{"auto", "balanced", "kmeans", "random"}, Partitioner or int array of shape (n,)',
        'How the training rows are divided among experts. "auto" is "balanced" in the metric of the trained '
        "kernel. An int array gives the expert of each row; −1 marks rows that GRBCM shares.",
        str,
    ),
    "kernel": Parameter(
        "auto",
        '{"auto", "rbf", "matern12", "matern32", "matern52"}, scikit-learn kernel or None',
        '"auto" (or None) chooses among the named kernels, each constant × shape with one length scale per '
        "input + white noise. A kernel object is evaluated on X as given, as in scikit-learn: lengths in "
        "the units of X, variances in those of y², y centred. The WhiteKernel terms of its top-level sum "
        "are the noise.",
        str,
    ),
    "optimizer": Parameter(
        "lbfgs", '"lbfgs" or None', "None keeps the hyperparameters of the given kernel.", None
    ),
    "n_restarts": Parameter(0, "int", "Additional random starts of the first training stage.", int),
    "training": Parameter(
        "auto",
        '{"auto", "full"}',
        '"auto" trains on small blocks of rows from every region, at a cost that does not grow with n. '
        '"full" maximises the likelihood of all parts, as in the paper.',
        str,
    ),
    "selection": Parameter(
        "auto",
        '{"auto", "nearest_rows", "knn", "dnn", "ggm", "all"}, Selector or classifier with predict_proba',
        'How the experts of a query are selected. "auto" is "nearest_rows": the experts that own the nearest '
        "training rows, in the metric of the kernel.",
        str,
    ),
    "n_selected": Parameter(
        "auto",
        'int, float or "auto"',
        "Number of selected experts per query, K. A float is the ratio K/M, so that 1 is one expert and 1.0 "
        'is all; 0 uses the own expert alone. "auto" chooses K and the corrections of the variance by '
        "held-out log density.",
        str,
    ),
    "n_neighbors": Parameter(
        "auto",
        'int or "auto"',
        "Number of training rows, the nearest ones in the metric of the kernel, that form the query's own "
        "expert; 0 for none. It is used alone (n_selected=0), or as one more expert of NPAE. "
        '"auto" chooses by held-out log density, and is 0 for other rules and for one expert.',
        str,
    ),
    "aggregation": Parameter(
        "npae",
        '{"npae", "poe", "gpoe", "bcm", "rbcm", "grbcm"} or Aggregator',
        "How the predictions of the selected experts are combined.",
        str,
    ),
    "standardize": Parameter(
        True,
        "bool",
        "Whether inputs and target are scaled to zero mean and unit variance. For a kernel object, only y is "
        "centred; False changes nothing at all.",
        bool,
    ),
    "memory_budget": Parameter(
        "auto",
        'int, str or "auto"',
        'Bytes (or "4GiB") for stored factors and work arrays; "auto" is a quarter of the memory.',
        str,
    ),
    "engine": Parameter(
        None,
        'None, "dask", str, dask.distributed.Client or Engine',
        'Where the work runs. None is threads of this machine; "dask" is the current Dask client, or a new '
        "LocalCluster; a str is the address of a scheduler. A Client is stored as its address.",
        str,
    ),
    "n_jobs": Parameter(
        None, "int or None", "Threads; None is all usable cores, or 1 inside another worker.", int
    ),
    "random_state": Parameter(None, "int, RandomState or None", "Seed of every random choice.", int),
    "verbose": Parameter(0, "int", "1 prints stages and decisions, 2 every step.", None),
    "calibrate": Parameter(
        None,
        '{None, "scale", "conformal"}',
        "Whether a tenth of the rows (100 to 2,000, at most a quarter) is held out before anything is "
        'learned, to calibrate intervals. "scale" multiplies the variance of an observation by one number '
        'per output. "conformal" takes the widths of `predict_interval` from the quantiles of '
        "|y − mean|/std: at least `level` of new rows lie inside, whatever the model.",
        str,
    ),
}

RENAMED: dict[str, str] = {
    "normalize_y": "use standardize=True (the default)",
    "alpha": "add a WhiteKernel to the kernel; its level is the noise variance",
    "n_restarts_optimizer": "use n_restarts",
    "copy_X_train": "leave it out; the training rows are always copied",
    "n_targets": "leave it out; the number of targets is read from y",
    "checkpoint": "leave it out; training takes a minute at any size",
    "share_inputs": "leave it out; rows of a dask collection are shared among its workers",
}
"""Names of scikit-learn and of earlier versions, and what to do instead."""


def documented(cls: type) -> type:
    """Class decorator: put the parameters into the docstring, in place of ``{parameters}``."""
    lines = []
    for name, parameter in PARAMETERS.items():
        lines += [
            f"    {name} : {parameter.accepts}, default={parameter.default!r}",
            *_wrapped(parameter.help),
        ]
    cls.__doc__ = (cls.__doc__ or "").replace("    {parameters}", "\n".join(lines))
    return cls


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 100, initial_indent=" " * 8, subsequent_indent=" " * 8)


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
        _one_of(values, "optimizer", ("lbfgs", None))
        _one_of(values, "training", ("auto", "full"))
        _one_of(values, "calibrate", METHODS)
        _check_n_restarts(values["n_restarts"])
        _check_neighbors(values)
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


def _one_of(values: Mapping[str, Any], name: str, accepted: tuple[Any, ...]) -> None:
    value = values[name]
    if not (value is None or isinstance(value, str)) or value not in accepted:
        listed = ", ".join(map(repr, accepted[:-1])) + f" or {accepted[-1]!r}"
        raise ValueError(f"{name} must be {listed}, got {value!r}.")


def _check_n_restarts(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"n_restarts must be an int, got {value!r}.")
    if value < 0:
        raise ValueError(f"n_restarts must be at least 0, got {value}.")


def _check_neighbors(values: Mapping[str, Any]) -> None:
    """Check the own expert: alone, or beside the experts of NPAE."""
    m, K = values["n_neighbors"], values["n_selected"]
    if not is_auto(m):
        if isinstance(m, bool) or not isinstance(m, Integral):
            raise TypeError(f"n_neighbors must be 'auto' or an int of at least 0, got {m!r}.")
        if m < 0:
            raise ValueError(f"n_neighbors must be at least 0, got {m}.")
    without_experts = isinstance(K, Integral) and not isinstance(K, bool) and K == 0
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
            "the other experts, which this rule takes as independent. Use n_selected=0 (the own expert alone), "
            "n_neighbors=0, or aggregation='npae'."
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

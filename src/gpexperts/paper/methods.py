"""One fit, evaluated by several methods: the function behind most tables of the paper.

A configuration names the data, the experts and the methods. All methods share the experts and the
hyperparameters θ, so that they differ in selection and aggregation only. GRBCM removes a communication set
from the data and needs other experts; these have the same θ.

A method is a dict: `method`, its label; `aggregation` (default "npae"); `selection`, a name or
{name: parameters}; `n_selected`, K or K/M; or `exact`, for the full GP with the θ of the experts.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from gpexperts.metrics import coverage, msll, smse
from gpexperts.paper.datasets import Split, analytic_problem, split
from gpexperts.paper.experiment import Config, Row
from gpexperts.paper.settings import ALL, paper_aggregation, paper_model, paper_selection
from gpexperts.regressor import DistributedGPRegressor

__all__ = [
    "aggregated",
    "compare",
    "evaluated",
    "exact",
    "fitted",
    "problem",
    "score_method",
    "selected_by",
    "timed",
]

T = TypeVar("T")
_LABELS = {"poe": "PoE", "gpoe": "GPoE", "bcm": "BCM", "rbcm": "RBCM", "grbcm": "GRBCM", "npae": "NPAE"}


def aggregated(aggregation: str) -> Config:
    """The method that aggregates all experts by this rule."""
    return {"method": _LABELS[aggregation], "aggregation": aggregation}


def selected_by(selection: str, n_selected: int | float, label: str = "", **parameters: Any) -> Config:
    """The method that selects experts and aggregates them by NPAE."""
    chosen = {selection: parameters} if parameters else selection
    return {"method": label or selection.upper(), "selection": chosen, "n_selected": n_selected}


def exact() -> Config:
    """The full GP with the θ of the experts."""
    return {"method": "full GP", "exact": True}


def problem(config: Config, seed: int) -> Split:
    """Return the training and test rows of a configuration."""
    rows = analytic_problem(config["n"], seed=seed) if "n" in config else split(config["data"], seed)
    train, test = config.get("limit", (len(rows.X_train), len(rows.X_test)))
    return Split(rows.X_train[:train], rows.y_train[:train], rows.X_test[:test], rows.y_test[:test])


def fitted(config: Config, rows: Split, seed: int) -> DistributedGPRegressor:
    """Fit the experts with the settings of the paper."""
    return paper_model(
        config["n_experts"],
        seed,
        partition=config.get("partition", "kmeans"),
        training=config.get("training", "full"),
    ).fit(rows.X_train, rows.y_train)


def compare(config: Config, seed: int) -> list[Row]:
    """Fit once and score every method of the configuration."""
    return [row for row, _ in evaluated(config, problem(config, seed), seed)]


def evaluated(config: Config, rows: Split, seed: int) -> Iterator[tuple[Row, DistributedGPRegressor]]:
    """Yield, for every method of a configuration, its row of scores and the model with its settings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, fit_seconds, fit_cpu = timed(lambda: fitted(config, rows, seed))
        shared = {key: config[key] for key in ("data", "n", "partition") if key in config} | {
            "n_train": len(rows.X_train),
            "n_test": len(rows.X_test),
            "n_experts": model.n_experts_,
            "fit_seconds": round(fit_seconds, 3),
            "fit_cpu": round(fit_cpu, 3),
            "kernel": str(model.kernel_),
        }
        for method in config["methods"]:
            experts, row = score_method(method, model, rows)
            names = ", ".join(sorted({w.category.__name__ for w in caught}))
            yield shared | row | {"warnings": names}, experts


def timed(action: Callable[[], T]) -> tuple[T, float, float]:
    """Return the result of an action, its seconds, and the CPU seconds of all its threads."""
    began, cpu_began = time.perf_counter(), time.process_time()
    result = action()
    return result, time.perf_counter() - began, time.process_time() - cpu_began


def score_method(
    method: Config, model: DistributedGPRegressor, rows: Split
) -> tuple[DistributedGPRegressor, Row]:
    """Return the model with the settings of a method, and its scores and times."""
    experts = _experts_for(method, model, rows)
    name, parameters = _named_parameters(method.get("selection", "all"))
    aggregation = method.get("aggregation", "npae")
    if "exact" not in method:
        # The graph of GGM is learned on the test inputs, as in the paper.
        inputs = np.asarray(rows.X_test) if name == "ggm" else None
        experts.set_params(
            selection=paper_selection(name, inputs, **parameters),
            n_selected=method.get("n_selected", ALL),
            aggregation=paper_aggregation(aggregation),
        )
    chosen, select_seconds, select_cpu = timed(lambda: experts.select(rows.X_test))
    prediction, predict_seconds, predict_cpu = timed(lambda: experts.predict(rows.X_test, return_std=True))
    mean, std = prediction
    ratio = method.get("n_selected")
    return experts, parameters | {
        "method": method["method"],
        "aggregation": aggregation,
        "selection": name,
        "n_selected": chosen.shape[1],
        "ratio": ratio if isinstance(ratio, float) else None,
        "smse": smse(rows.y_test, mean),
        "msll": msll(rows.y_test, mean, std, rows.y_train),
        "coverage": coverage(rows.y_test, mean, std),
        "select_seconds": round(select_seconds, 5),
        "select_cpu": round(select_cpu, 5),
        "predict_seconds": round(predict_seconds, 5),
        "predict_cpu": round(predict_cpu, 5),
    }


def _experts_for(method: Config, model: DistributedGPRegressor, rows: Split) -> DistributedGPRegressor:
    """Return the experts of a method, already factorised: this time is not counted for the method."""
    if "exact" in method or method.get("aggregation") == "grbcm":
        experts = clone(model).set_params(kernel=model.kernel_, optimizer=None)
        experts.set_params(selection="all", n_selected=ALL, aggregation=paper_aggregation("npae"))
        experts.set_params(**{"n_experts": 1} if "exact" in method else {"aggregation": "grbcm"})
        experts.fit(rows.X_train, rows.y_train)
    else:
        experts = model.set_params(aggregation="gpoe", selection="all", n_selected=ALL)
    experts.predict(rows.X_test[:1], return_std=True)
    return experts


def _named_parameters(selection: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(selection, dict):
        ((name, parameters),) = selection.items()
        return name, parameters
    return selection, {}

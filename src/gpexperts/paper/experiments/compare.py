"""One fit, many ways of answering: the run behind most of the paper's tables.

A configuration names the data, the experts and the methods. All methods share one set of experts and one
set of hyperparameters θ, so that they differ in nothing but selection and aggregation. GRBCM takes its
communication set out of the data and needs experts of its own; it gets the same θ.

A method is a dict: `method`, its label; `aggregation` ("npae" unless given); `selection`, a name or
{name: settings}; `n_selected`, K or K/M; or `exact`, for the full GP at the experts' θ.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from gpexperts import DistributedGPRegressor
from gpexperts.metrics import coverage, msll, smse
from gpexperts.paper.datasets import Split, analytic_problem, split
from gpexperts.paper.experiments.base import Config, Row
from gpexperts.selection import DNNSelector, GGMSelector, KNNSelector, Selector

__all__ = ["answers", "asking", "compare", "exact", "fitted", "problem", "rule", "scored", "timed"]

T = TypeVar("T")
_NAMES = {"poe": "PoE", "gpoe": "GPoE", "bcm": "BCM", "rbcm": "RBCM", "grbcm": "GRBCM", "npae": "NPAE"}
_SELECTORS: dict[str, type[Selector]] = {"ggm": GGMSelector, "knn": KNNSelector, "dnn": DNNSelector}


def rule(aggregation: str) -> Config:
    """The method that asks all experts and combines them so."""
    return {"method": _NAMES[aggregation], "aggregation": aggregation}


def asking(selection: str, n_selected: int | float, label: str = "", **settings: Any) -> Config:
    """The method that asks the selected experts and combines them by NPAE."""
    chosen = {selection: settings} if settings else selection
    return {"method": label or selection.upper(), "selection": chosen, "n_selected": n_selected}


def exact() -> Config:
    """The full GP at the experts' θ."""
    return {"method": "full GP", "exact": True}


def problem(config: Config, seed: int) -> Split:
    """The rows a configuration is about."""
    rows = analytic_problem(config["n"], seed=seed) if "n" in config else split(config["data"], seed)
    train, test = config.get("limit", (len(rows.X_train), len(rows.X_test)))
    return Split(rows.X_train[:train], rows.y_train[:train], rows.X_test[:test], rows.y_test[:test])


def fitted(config: Config, rows: Split, seed: int) -> DistributedGPRegressor:
    """Experts as the paper trains them."""
    return DistributedGPRegressor(
        n_experts=config["n_experts"],
        partition=config.get("partition", "kmeans"),
        kernel="rbf",
        training=config.get("training", "full"),
        selection="all",
        random_state=seed,
    ).fit(rows.X_train, rows.y_train)


def compare(config: Config, seed: int) -> list[Row]:
    """Fit once, answer in every way the configuration lists, and score each answer."""
    return [row for row, _ in answers(config, problem(config, seed), seed)]


def answers(config: Config, rows: Split, seed: int) -> Iterator[tuple[Row, DistributedGPRegressor]]:
    """Yield, for every method of a configuration, its row of scores and the model set to answer that way."""
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
            experts, row = scored(method, model, rows)
            mended = ", ".join(sorted({w.category.__name__ for w in caught}))
            yield shared | row | {"warnings": mended}, experts


def timed(action: Callable[[], T]) -> tuple[T, float, float]:
    """What an action returns, the seconds it took, and the CPU seconds all its threads took together."""
    began, cpu_began = time.perf_counter(), time.process_time()
    result = action()
    return result, time.perf_counter() - began, time.process_time() - cpu_began


def scored(method: Config, model: DistributedGPRegressor, rows: Split) -> tuple[DistributedGPRegressor, Row]:
    """The model set to answer by a method, and its scores and times."""
    experts = _experts_for(method, model, rows)
    name, settings = _named_settings(method.get("selection", "all"))
    if "exact" not in method:
        experts.set_params(
            selection=_selector(name, settings, rows),
            n_selected=method.get("n_selected", "auto"),
            aggregation=method.get("aggregation", "npae"),
        )
    chosen, select_seconds, select_cpu = timed(lambda: experts.select(rows.X_test))
    prediction, predict_seconds, predict_cpu = timed(lambda: experts.predict(rows.X_test, return_std=True))
    mean, std = prediction
    ratio = method.get("n_selected")
    return experts, settings | {
        "method": method["method"],
        "aggregation": method.get("aggregation", "npae"),
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
    """The experts a method asks, their factors made: not the method's work, so not in its time."""
    needs_own = method.get("aggregation") == "grbcm"
    if "exact" in method:
        experts = clone(model).set_params(n_experts=1, selection="all", n_selected="auto", aggregation="npae")
        experts.set_params(kernel=model.kernel_, optimizer=None).fit(rows.X_train, rows.y_train)
    elif needs_own:
        experts = clone(model).set_params(aggregation="grbcm", kernel=model.kernel_, optimizer=None)
        experts.set_params(selection="all", n_selected="auto").fit(rows.X_train, rows.y_train)
    else:
        experts = model.set_params(aggregation="gpoe", selection="all", n_selected="auto")
    experts.predict(rows.X_test[:1], return_std=True)
    return experts


def _named_settings(selection: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(selection, dict):
        ((name, settings),) = selection.items()
        return name, settings
    return selection, {}


def _selector(name: str, settings: dict[str, Any], rows: Split) -> Any:
    """The selector of this name; the graph is learned on the test inputs, as in the paper."""
    if name == "all":
        return name
    inputs = {"inputs": np.asarray(rows.X_test)} if name == "ggm" else {}
    return _SELECTORS[name](**settings, **inputs)

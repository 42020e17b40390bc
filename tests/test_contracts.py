"""Every registered member of every stage keeps the contract of its stage."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from gpexperts import engines
from gpexperts.aggregation import AGGREGATORS, NPAE
from gpexperts.engines import Engine
from gpexperts.partition import PARTITIONERS, KMeansPartitioner
from gpexperts.selection import (
    SELECTORS,
    ClassifierSelector,
    DNNSelector,
    ExpertsView,
    GGMSelector,
    KNNSelector,
)
from tests import contracts
from tests.problems import local_gps, random_problem

# Beside the registered members: settings of theirs that take another path.
MORE_PARTITIONERS = {"kmeans by mini-batches": KMeansPartitioner(max_rows=10)}
MORE_AGGREGATORS = {"npae, corrected": NPAE(widen=4.0, scale=1.3, surprise=1.0)}
MORE_SELECTORS = {
    "knn manhattan": KNNSelector("manhattan"),
    "knn minkowski": KNNSelector("minkowski", p=4),
    "knn hamming": KNNSelector("hamming"),
    "knn kernel": KNNSelector("kernel"),
    "dnn sigmoid": DNNSelector(output="sigmoid", hidden_units=(10, 5), batch_size=16),
    "few rows": DNNSelector(max_rows=20),
    "forest": ClassifierSelector(RandomForestClassifier(n_estimators=5)),
    "bayes": ClassifierSelector(GaussianNB()),
    "ggm at given inputs": GGMSelector(inputs=np.random.default_rng(9).normal(size=(30, 2))),
}


def cases(contract: type) -> list[str]:
    return [name for name, member in vars(contract).items() if isinstance(member, staticmethod)]


def run(contract: type, case: str, *args: Any) -> None:
    """Call a case with as many of the arguments as it takes."""
    function: Callable[..., None] = getattr(contract, case)
    function(*args[: len(inspect.signature(function).parameters)])


@pytest.mark.parametrize("case", cases(contracts.PartitionerContract))
@pytest.mark.parametrize("name", [*PARTITIONERS, *MORE_PARTITIONERS])
def test_partitioner(name: str, case: str) -> None:
    member = MORE_PARTITIONERS.get(name) or PARTITIONERS[name]()
    X = np.random.default_rng(1).normal(size=(120, 3))
    run(contracts.PartitionerContract, case, member, *([X, 6] if "n_parts" in _parameters(case) else [X]))


def _parameters(case: str) -> list[str]:
    return list(inspect.signature(getattr(contracts.PartitionerContract, case)).parameters)


@pytest.fixture
def view() -> ExpertsView:
    p = random_problem(0)
    order = np.argsort(p.labels, kind="stable")
    return ExpertsView(
        X=p.X[order],
        labels=p.labels[order],
        centroids=np.stack([p.X[p.labels == i].mean(axis=0) for i in range(p.n_experts)]),
        length_scale=np.array([0.5, 2.0]),
        means_at=lambda X: np.stack([e.mean for e in local_gps(p._replace(X_new=X))], axis=1),
        transform=lambda X: X,
        random_state=np.random.RandomState(0),
    )


@pytest.mark.parametrize("case", cases(contracts.SelectorContract))
@pytest.mark.parametrize("name", [*SELECTORS, *MORE_SELECTORS])
def test_selector(name: str, case: str, view: ExpertsView) -> None:
    member = MORE_SELECTORS.get(name) or SELECTORS[name]()
    run(contracts.SelectorContract, case, member, view, 1.5 * np.random.default_rng(2).normal(size=(9, 2)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", cases(contracts.AggregatorContract))
@pytest.mark.parametrize("name", [*AGGREGATORS, *MORE_AGGREGATORS])
def test_aggregator(name: str, case: str, seed: int) -> None:
    member = MORE_AGGREGATORS.get(name) or AGGREGATORS[name]()
    run(contracts.AggregatorContract, case, member, contracts.random_moments(seed))


def _engines() -> list[Engine]:
    """Every engine that `gpexperts.engines` exports, and threads by number."""
    kinds = [
        kind
        for kind in vars(engines).values()
        if inspect.isclass(kind) and issubclass(kind, Engine) and not inspect.isabstract(kind)
    ]
    return [*(kind() for kind in kinds), *(engines.ThreadEngine(n) for n in (1, 2, 5))]


@pytest.mark.parametrize("case", cases(contracts.EngineContract))
@pytest.mark.parametrize("engine", _engines(), ids=lambda e: f"{type(e).__name__}-{e.n_workers}")
def test_engine(engine: Engine, case: str) -> None:
    run(contracts.EngineContract, case, engine)

"""Every registered partitioner, selector and aggregator keeps the contract of its stage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from gpexperts.aggregation import AGGREGATORS, NPAE, Aggregator
from gpexperts.experts.moments import ExpertMoments
from gpexperts.partition import PARTITIONERS, KMeansPartitioner, Partitioner
from gpexperts.selection import (
    SELECTORS,
    ClassifierSelector,
    DNNSelector,
    ExpertsView,
    GGMSelector,
    KNNSelector,
    Selector,
)
from tests.contracts import AggregatorContract, PartitionerContract, SelectorContract, random_moments

# Settings of the registered members that take another path through the code.
MORE_PARTITIONERS = {"kmeans by mini-batches": KMeansPartitioner(max_rows=10)}
MORE_AGGREGATORS = {"npae corrected": NPAE(disagreement=4.0, scale=1.3, local_noise=1.0)}
MORE_SELECTORS = {
    "knn manhattan": KNNSelector("manhattan"),
    "knn minkowski": KNNSelector("minkowski", p=4),
    "knn hamming": KNNSelector("hamming"),
    "knn kernel": KNNSelector("kernel"),
    "dnn sigmoid": DNNSelector(output="sigmoid", hidden_units=(20, 10), batch_size=16),
    "dnn on a sample": DNNSelector(max_rows=60),
    "forest": ClassifierSelector(RandomForestClassifier(n_estimators=20)),
    "naive Bayes": ClassifierSelector(GaussianNB()),
    "ggm at given inputs": GGMSelector(inputs=np.random.default_rng(9).uniform(0, 40, size=(30, 2))),
}


def members(registered: dict[str, Any], more: dict[str, Any]) -> list[Any]:
    all_members = {name: kind() for name, kind in registered.items()} | more
    return [pytest.param(member, id=name) for name, member in all_members.items()]


class TestPartitioners(PartitionerContract):
    @pytest.fixture(params=members(PARTITIONERS, MORE_PARTITIONERS))
    def partitioner(self, request: pytest.FixtureRequest) -> Partitioner:
        return request.param


class TestSelectors(SelectorContract):
    @pytest.fixture(params=members(SELECTORS, MORE_SELECTORS))
    def selector(self, request: pytest.FixtureRequest) -> Selector:
        return request.param

    @pytest.fixture
    def view(self) -> ExpertsView:
        """Five experts, each with rows on a cross around its centroid; no distances are equal."""
        centroids = np.array([[0, 0], [41, 3], [5, 38], [44, 47], [19, 23]], dtype=float)
        cross = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], dtype=float)
        labels = np.repeat(np.arange(5), 20)
        directions = np.random.default_rng(0).normal(size=(2, 5))
        return ExpertsView(
            X=centroids[labels] + np.tile(cross, (20, 1)),
            labels=labels,
            centroids=centroids,
            length_scale=np.array([2.0, 5.0]),
            means_at=lambda X: np.sin(0.1 * X @ directions),
            transform=lambda X: X,
            random_state=np.random.RandomState(0),
        )


class TestAggregators(AggregatorContract):
    @pytest.fixture(params=members(AGGREGATORS, MORE_AGGREGATORS))
    def aggregator(self, request: pytest.FixtureRequest) -> Aggregator:
        return request.param

    @pytest.fixture(params=range(3))
    def moments(self, request: pytest.FixtureRequest) -> ExpertMoments:
        return random_moments(request.param)

"""The experts with the nearest rows, against a search over all rows; held-out rows; model files."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import gpexperts
from gpexperts import DistributedGPRegressor
from gpexperts.experts.queries import QueriesOfExpert, queries_by_expert
from gpexperts.selection import ExpertsView, KNNSelector, NearestRowsSelector


@pytest.fixture
def view() -> ExpertsView:
    """Twelve parts of different sizes that overlap."""
    rng = np.random.default_rng(0)
    labels = np.sort(rng.integers(12, size=300))
    X = rng.normal(size=(12, 3))[labels] + rng.normal(size=(300, 3))
    return ExpertsView(
        X=X,
        labels=labels,
        centroids=np.stack([X[labels == i].mean(axis=0) for i in range(12)]),
        length_scale=np.array([0.5, 2.0, 30.0]),
        means_at=lambda Z: np.zeros((len(Z), 12)),
        transform=lambda Z: Z,
        random_state=np.random.RandomState(0),
    )


@pytest.fixture
def queries() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(200, 3)) * 2


def to_nearest_rows(view: ExpertsView, queries: np.ndarray) -> np.ndarray:
    """Distance of each query to each expert's nearest row, (n, M)."""
    distance = cdist(queries / view.length_scale, view.X / view.length_scale)
    return np.stack([distance[:, view.labels == i].min(axis=1) for i in range(view.n_experts)], axis=1)


def test_experts_with_the_nearest_rows_are_selected(view: ExpertsView, queries: np.ndarray) -> None:
    expected = np.argsort(to_nearest_rows(view, queries), axis=1)[:, :4]
    np.testing.assert_array_equal(NearestRowsSelector().fit(view).select(queries, 4), expected)
    assert (KNNSelector("kernel").fit(view).select(queries, 4) != expected).any()


def test_candidates_are_those_with_the_nearest_centroids(view: ExpertsView, queries: np.ndarray) -> None:
    candidates = KNNSelector("kernel").fit(view).select(queries, 5)
    distance = np.take_along_axis(to_nearest_rows(view, queries), candidates, axis=1)
    order = np.argsort(distance, axis=1)[:, :2]
    chosen = NearestRowsSelector(n_candidates=5).fit(view).select(queries, 2)
    np.testing.assert_array_equal(chosen, np.take_along_axis(candidates, order, axis=1))


def test_more_experts_than_candidates_can_be_selected(view: ExpertsView, queries: np.ndarray) -> None:
    chosen = NearestRowsSelector(n_candidates=1).fit(view).select(queries, 12)
    np.testing.assert_array_equal(np.sort(chosen, axis=1), np.tile(np.arange(12), (200, 1)))


def test_batches_do_not_change_the_selection(
    view: ExpertsView, queries: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Rows and queries on a lattice: many distances are equal, and rounding must not break the ties.
    lattice = replace(view, X=np.round(view.X), length_scale=np.array([0.7, 0.7, 1.3]))
    queries = np.round(queries)
    selector = NearestRowsSelector().fit(lattice)
    whole = selector.select(queries, 3)
    for size in (1, 5, 50):
        pieces = [selector.select(queries[i : i + size], 3) for i in range(0, len(queries), size)]
        np.testing.assert_array_equal(np.concatenate(pieces), whole)
    monkeypatch.setattr("gpexperts.selection.nearest_rows.BATCH", 37)
    monkeypatch.setattr("gpexperts.selection.nearest_rows.CHUNK", 5)
    np.testing.assert_array_equal(selector.select(queries, 3), whole)


def test_rows_of_far_experts_are_not_read(queries: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    centroids = np.argwhere(np.ones((4, 4, 4))) * 2.0
    labels = np.repeat(np.arange(64), 20)
    apart = ExpertsView(
        X=centroids[labels] + rng.uniform(-1, 1, size=(1280, 3)),
        labels=labels,
        centroids=centroids,
        length_scale=np.ones(3),
        means_at=lambda Z: np.zeros((len(Z), 64)),
        transform=lambda Z: Z,
        random_state=np.random.RandomState(0),
    )
    compared = []

    def counted(index: np.ndarray) -> Iterator[QueriesOfExpert]:
        compared.append((index >= 0).sum())
        return queries_by_expert(index)

    monkeypatch.setattr("gpexperts.selection.nearest_rows.queries_by_expert", counted)
    queries = np.abs(queries)
    expected = np.argsort(to_nearest_rows(apart, queries), axis=1)[:, :2]
    np.testing.assert_array_equal(NearestRowsSelector().fit(apart).select(queries, 2), expected)
    assert 0 < sum(compared) < 8 * len(queries)


def test_boxes_are_not_pickled(view: ExpertsView, queries: np.ndarray) -> None:
    selector = NearestRowsSelector().fit(view)
    chosen = selector.select(queries, 2)
    copied = pickle.loads(pickle.dumps(selector))
    assert "boxes_" not in vars(copied)
    np.testing.assert_array_equal(copied.select(queries, 2), chosen)


def test_an_expert_without_rows_is_placed_at_its_centroid(view: ExpertsView) -> None:
    some = view.labels != 7
    thinned = replace(view, X=view.X[some], labels=view.labels[some])
    selector = NearestRowsSelector().fit(thinned)
    for n in (1, 50):
        chosen = selector.select(np.tile(view.centroids[7:8], (n, 1)), 12)
        assert 7 in chosen[0, :3]
        np.testing.assert_array_equal(chosen, np.tile(chosen[:1], (n, 1)))


@pytest.mark.parametrize("shift", [1e-150, 1.0, 1e9, 1e150, -1e150])
def test_far_queries_get_different_experts(view: ExpertsView, shift: float) -> None:
    chosen = NearestRowsSelector().fit(view).select(np.full((3, 3), shift), 5)
    assert all(len(set(row)) == 5 for row in chosen.tolist())


def test_invalid_n_candidates_is_refused(view: ExpertsView) -> None:
    with pytest.raises(ValueError, match="n_candidates must be at least 1, got 0"):
        NearestRowsSelector(n_candidates=0).fit(view)


class Recorder(NearestRowsSelector):
    """Records whether a query is one of its own rows."""

    contained: ClassVar[list[bool]] = []

    def select(self, X: np.ndarray, n_selected: int) -> np.ndarray:
        self.contained.append(bool((cdist(X, self.rows_).min(axis=1) == 0).any()))
        return super().select(X, n_selected)


def problem(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.standard_normal(n)


def test_the_selector_is_fitted_without_held_out_rows() -> None:
    X, y = problem()
    Recorder.contained.clear()
    model = DistributedGPRegressor(
        n_experts=6,
        kernel="rbf",
        optimizer=None,
        selection=Recorder(),
        n_neighbors=0,
        random_state=0,
        n_jobs=1,
    ).fit(X, y)
    assert Recorder.contained
    assert not any(Recorder.contained)
    model.select(X[:5])
    assert Recorder.contained[-1]


def test_nearest_rows_is_the_default() -> None:
    X, y = problem()
    model = DistributedGPRegressor(
        n_experts=6, kernel="rbf", optimizer=None, n_neighbors=0, random_state=0, n_jobs=1
    ).fit(X, y)
    assert model.choices_["selection"].value == "nearest_rows"
    np.testing.assert_array_equal(model.select(X)[:, 0], model.labels_)


def test_a_model_file_holds_the_rows_once(tmp_path: Path) -> None:
    X, y = problem()
    model = DistributedGPRegressor(
        n_experts=6, kernel="rbf", optimizer=None, n_neighbors=0, random_state=0, n_jobs=1
    ).fit(X, y)
    expected = model.predict(X, return_std=True)
    model.save(tmp_path / "rows.gpx")
    loaded = gpexperts.load(tmp_path / "rows.gpx")
    np.testing.assert_array_equal(loaded.predict(X, return_std=True), expected)
    model.set_params(selection="knn").predict(X[:1])
    model.save(tmp_path / "knn.gpx")
    sizes = [(tmp_path / name).stat().st_size for name in ("rows.gpx", "knn.gpx")]
    assert sizes[0] < sizes[1] + 0.5 * X.nbytes

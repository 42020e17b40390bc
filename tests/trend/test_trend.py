"""Trends: cross-fitting, roles, the choice, trees as arrays, Dask, files."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import distributed
import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from gpexperts import DistributedGPRegressor, fit_kernel, fit_trend, inputs, inspection, load, pipeline
from gpexperts.exceptions import CorruptModelError, TrendError, UnsavableModelError
from gpexperts.experts.dask import DaskExperts
from gpexperts.io.trends import _check_trees
from gpexperts.partition import assign, shards
from gpexperts.rows.arrays import ArrayRows
from gpexperts.trend import ROLES, crossfit, regressors
from gpexperts.trend.crossfit import FOLDS, FoldedRows, cross_fit, draw_folds
from gpexperts.trend.trees import Trees, trees_of
from tests.clusters import in_process_client

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (150, 2))
Y = np.where(X[:, 0] > 0, 3.0, 0.0) + np.sin(2 * X[:, 1]) + 0.1 * RNG.standard_normal(150)
T = RNG.uniform(-2, 2, (40, 2))
KERNEL = ConstantKernel(1.0) * RBF([0.7, 0.7]) + WhiteKernel(0.05)
FIXED: dict[str, Any] = {"kernel": KERNEL, "optimizer": None, "n_experts": 1, "n_jobs": 1, "random_state": 0}
NAMED: dict[str, Any] = {**FIXED, "kernel": "rbf"}
SMOOTH = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * RNG.standard_normal(150)
TREE = DecisionTreeRegressor(max_depth=3, random_state=0)


class Recorder(RegressorMixin, BaseEstimator):
    """Predicts the number of the nearest row that it was fitted to."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Recorder:
        self.seen_ = set(map(tuple, X))
        self.weight_ = sample_weight
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.array([float(tuple(x) in self.seen_) for x in X])


class Failing(Recorder):
    """Fails in a fold, or predicts NaN."""

    def __init__(self, how: str = "fit") -> None:
        self.how = how

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Failing:
        if self.how == "fit" and len(X) < 150 and X[0, 0] != FIRST[0]:
            raise RuntimeError("singular")
        return super().fit(X, y)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), np.nan) if self.how == "predict" else np.zeros(len(X))


FIRST = X[0]
FITS: list[int] = []


class Counting(Recorder):
    """Counts how often it is fitted."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Counting:
        FITS.append(len(X))
        return super().fit(X, y)


# ------------------------------------------------------------------------------------ cross-fitting


def folded(X: np.ndarray, y: np.ndarray) -> FoldedRows:
    return draw_folds(ArrayRows(X, y[:, None]), np.random.RandomState(0))


def test_no_row_is_predicted_by_a_regressor_that_has_seen_it() -> None:
    found = cross_fit(Recorder(), folded(X, Y), 0)
    assert found is not None
    found = found.finished()
    np.testing.assert_array_equal(found.values, 0.0)
    np.testing.assert_array_equal(found.trend.predict(X).mean, 1.0)
    np.testing.assert_array_equal(found.trend.predict(T).mean, 0.0)


def test_rows_with_equal_inputs_are_in_one_fold() -> None:
    """Otherwise a trend that is an input would tell them apart, and hide the noise that they show."""
    twice = np.concatenate([X[:60], X[:60] + 0.0, -0.0 * X[:20], 0.0 * X[:20]])
    found = cross_fit(TREE, folded(twice, RNG.standard_normal(160)), 0)
    assert found is not None
    np.testing.assert_array_equal(found.values[:60], found.values[60:120])
    assert len(np.unique(found.values[120:])) == 1


def test_folds_choose_the_number_of_trees() -> None:
    found = cross_fit("boosting", folded(X, Y), 7)
    assert found is not None
    (trees,) = found.finished().trend.predictors
    fold = np.random.RandomState(0).permutation(np.arange(150) % FOLDS)
    errors = np.zeros(regressors.MOST_TREES)
    with regressors.threads_for(150):
        for f in range(FOLDS):
            one = regressors.new_regressor("boosting", 150, 7).fit(X[fold != f], Y[fold != f])
            errors += [((y - Y[fold == f]) ** 2).sum() for y in one.staged_predict(X[fold == f])]
    assert len(trees.start) - 1 == np.argmin(errors) + 1
    assert found.error == pytest.approx(errors.min() / 150 / Y.var())


def test_a_hopeless_trend_is_given_up_after_one_fold() -> None:
    counted = Counting()
    assert cross_fit(counted, folded(X, Y), 0, worst=0.5) is None
    assert len(FITS) == 1
    found = cross_fit(counted, folded(X, Y), 0)
    assert found is not None
    assert len(FITS) == 1 + FOLDS  # none for queries before the trend is chosen
    assert found.finished().finished().trend.predictors
    assert len(FITS) == 1 + FOLDS + 1


def test_rows_outside_the_sample_get_the_trend_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossfit, "MAX_ROWS", 60)
    found = cross_fit(TREE, folded(X, Y), 0)
    assert found is not None
    assert len(found.number) == 60
    outside = np.setdiff1d(np.arange(150), found.number)
    np.testing.assert_array_equal(found.at(outside, X[outside]), found.trend.predict(X[outside]).mean)
    values = found.at(np.arange(150), X)
    np.testing.assert_array_equal(values[found.number], found.values)


def test_weights_reach_the_regressor() -> None:
    weight = RNG.integers(0, 3, 150).astype(float)
    fitted = DistributedGPRegressor(trend="linear", trend_role="mean", **FIXED).fit(
        X, Y, sample_weight=weight
    )
    assert fitted.model_.trend is not None
    expected = LinearRegression().fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(fitted.model_.trend.predict(T).mean[:, 0], expected.predict(T), rtol=1e-9)


@pytest.mark.parametrize(
    ("how", "message"), [("fit", "fold . of 5 .*RuntimeError: singular"), ("predict", "predicts nan for")]
)
def test_a_regressor_that_fails_is_an_error_in_words(how: str, message: str) -> None:
    with pytest.raises(TrendError, match=message):
        DistributedGPRegressor(trend=Failing(how), trend_role="mean", **FIXED).fit(X, Y)
    with pytest.raises(TrendError, match="at least 10 rows, got 9"):
        DistributedGPRegressor(trend="linear", trend_role="mean", **FIXED).fit(X[:9], Y[:9])


# -------------------------------------------------------------------------------------------- roles


def cross_fitted(n_outputs: int = 1) -> np.ndarray:
    """The trend of all rows, by folds that are drawn as the model draws them."""
    seeds = np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=8)
    random_state = np.random.RandomState(seeds[7])
    random_state.randint(2**31 - 1)  # of comparisons
    random_state.randint(2**31 - 1)  # of the regressor
    fold = random_state.permutation(np.arange(len(X)) % FOLDS)
    values = np.empty(len(X))
    for f in range(FOLDS):
        values[fold == f] = TREE.fit(X[fold != f], Y[fold != f]).predict(X[fold == f])
    return values


@pytest.mark.parametrize("role", ROLES)
def test_roles_are_a_model_of_residuals_or_of_one_more_input(role: str) -> None:
    settings = FIXED if role == "mean" else NAMED
    ours = DistributedGPRegressor(trend=TREE, trend_role=role, **settings).fit(X, Y)
    g, g_new = cross_fitted(), TREE.fit(X, Y).predict(T)
    inputs, queries = (X, T) if role == "mean" else (np.c_[X, g], np.c_[T, g_new])
    offset = g_new if role != "input" else 0.0
    plain = DistributedGPRegressor(**settings).fit(inputs, Y if role == "input" else Y - g)
    mean, std = plain.predict(queries, return_std=True)
    np.testing.assert_allclose(ours.predict(T, return_std=True), (mean + offset, std), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.predict(T), mean + offset, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        np.mean(ours.predict_interval(T), axis=0), mean + offset, rtol=1e-9, atol=1e-12
    )
    explanation = ours.explain(T)
    np.testing.assert_allclose(explanation.trend, g_new)
    assert explanation.trend_role == role
    parts = (explanation.weight * explanation.expert_mean).sum(axis=1)
    parts += explanation.prior_weight * explanation.prior_mean + (
        explanation.trend if role != "input" else 0.0
    )
    np.testing.assert_allclose(explanation.mean, parts, rtol=1e-9)
    np.testing.assert_allclose(inspection.training_inputs(ours), X[ours.model_.experts.numbers])
    np.testing.assert_allclose(inspection.training_targets(ours), Y[ours.model_.experts.numbers])
    assert ours.centroids_.shape == (1, 2)
    assert inspection.length_scales(ours).shape == (2,)


def test_trend_of_several_outputs_with_calibration() -> None:
    both = np.stack([Y, X[:, 0]], axis=1)
    fitted = DistributedGPRegressor(trend="linear", trend_role="both", calibrate="scale", **NAMED).fit(
        X, both
    )
    assert fitted.predict(T).shape == (40, 2)
    np.testing.assert_allclose(fitted.predict(T)[:, 1], T[:, 0], atol=0.1)


def test_auto_takes_boosting_for_jumps_and_nothing_for_a_smooth_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fit_trend, "FEWEST_ROWS", 150)
    settings: dict[str, Any] = {"trend": "auto", "kernel": "rbf", "n_jobs": 1, "random_state": 0}
    jumps = DistributedGPRegressor(**settings).fit(X, Y)
    assert str(jumps.choices_["trend"].value).startswith("boosting")
    assert set(jumps.choices_["trend"].evidence["nlpd"]) > {"none", "boosting as mean", "boosting as input"}
    smooth = DistributedGPRegressor(**settings).fit(X, SMOOTH)
    assert smooth.choices_["trend"].value is None
    assert smooth.model_.trend is None


def test_auto_is_nothing_for_few_rows_and_given_hyperparameters() -> None:
    few = DistributedGPRegressor(trend="auto", n_jobs=1, kernel="rbf").fit(X[:40], Y[:40])
    assert "40 rows; of fewer than 500" in few.choices_["trend"].reason
    given = DistributedGPRegressor(trend="auto", **FIXED).fit(X, Y)
    assert given.choices_["trend"].value is None
    assert "hyperparameters are given" in given.choices_["trend"].reason


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"trend": "forest"}, ValueError, "trend"),
        ({"trend": 3}, TypeError, "regressor with fit and predict, got 3"),
        ({"trend": LinearRegression}, TypeError, "regressor with fit and predict"),
        ({"trend": "linear", "trend_role": "input"}, ValueError, "kernel object has the length scales of X"),
        ({"trend_role": "sum"}, ValueError, "trend_role"),
    ],
)
def test_bad_settings_are_refused(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        DistributedGPRegressor(**{**FIXED, **given}).fit(X, Y)


# ------------------------------------------------------------------------------------ trees, files


@pytest.mark.parametrize("levels", [None, np.array([False, False, True])])
def test_of_many_rows_boosting_is_the_mean_of_the_folds(levels, monkeypatch) -> None:
    monkeypatch.setattr(regressors, "FEW_ROWS", 100)
    fitted = []
    original = crossfit.fitted_regressor
    monkeypatch.setattr(crossfit, "fitted_regressor", lambda *a: fitted.append(original(*a)) or fitted[-1])
    table = RNG.normal(size=(1000, 3))
    found = cross_fit("boosting", folded(table, table[:, 0] * table[:, 1]), 0, levels=levels)
    assert found is not None
    (mean,) = found.finished().trend.predictors
    assert len(fitted) == FOLDS
    for queries in (table, RNG.normal(size=(5, 3))):
        expected = np.mean([one.predict(queries) for one in fitted], axis=0)
        np.testing.assert_allclose(mean.predict(queries), expected, rtol=1e-9, atol=1e-12)
    if levels is None:
        _check_trees(mean, len(mean.value), 3)
    monkeypatch.setattr(regressors, "trees_of", lambda *a: None)  # as of an unknown version of scikit-learn
    one = found.finished().trend.predictors[0]
    np.testing.assert_allclose(one.predict(table), fitted[FOLDS].predict(table))
    assert len(fitted) == FOLDS + 1


def test_trees_predict_as_the_regressor_that_they_come_from() -> None:
    table = RNG.normal(size=(400, 3))
    table[RNG.random((400, 3)) < 0.1] = np.nan
    y = np.nan_to_num(table[:, 0]) + (np.isnan(table[:, 1]))
    regressor = HistGradientBoostingRegressor(max_iter=30, random_state=0).fit(table, y)
    trees = trees_of(regressor, table)
    assert isinstance(trees, Trees)
    queries = np.concatenate([table, [[np.inf, -np.inf, 0.0], [1e300, -1e300, np.nan]]])
    np.testing.assert_allclose(trees.predict(queries), regressor.predict(queries), rtol=1e-10, atol=1e-12)
    for few in (queries[:0], queries[-1:], queries[:5], queries[-50:]):  # all trees at once
        np.testing.assert_allclose(trees.predict(few), regressor.predict(few) if len(few) else [], rtol=1e-10)
    _check_trees(trees, len(trees.value), 3)
    _check_trees(Trees(**{**vars(trees), "left": trees.left}), len(trees.value), 3)
    backwards = trees.left.copy()
    backwards[np.flatnonzero(trees.feature >= 0)[1]] = 0
    with pytest.raises(CorruptModelError, match="not in order"):
        _check_trees(Trees(**{**vars(trees), "left": backwards}), len(trees.value), 3)
    with pytest.raises(CorruptModelError, match="unknown input"):
        _check_trees(trees, len(trees.value), 1)
    del regressor._predictors
    assert trees_of(regressor, table) is None


@pytest.mark.parametrize(("trend", "role"), [("boosting", "both"), ("linear", "mean")])
def test_files_hold_trends_as_arrays(tmp_path: Path, trend: str, role: str) -> None:
    fitted = DistributedGPRegressor(trend=trend, trend_role=role, **NAMED).fit(X, Y)
    fitted.save(tmp_path / "m.gpx")
    for other in (load(tmp_path / "m.gpx"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(other.predict(T), fitted.predict(T))
        np.testing.assert_array_equal(inspection.training_targets(other), inspection.training_targets(fitted))


def test_files_refuse_other_regressors_in_words(tmp_path: Path) -> None:
    fitted = DistributedGPRegressor(trend=TREE, trend_role="mean", **FIXED).fit(X, Y)
    with pytest.raises(UnsavableModelError, match="DecisionTreeRegressor"):
        fitted.save(tmp_path / "m.gpx")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(T), fitted.predict(T))


# --------------------------------------------------------------------------------------------- Dask


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    with in_process_client() as client:
        yield client


@pytest.mark.parametrize(
    ("trend", "role", "transform"),
    [("linear", "mean", None), ("linear", "both", "yeo-johnson"), ("sparse", "mean", None)],
)
def test_a_cluster_has_the_trend_of_arrays(
    client: distributed.Client, monkeypatch: pytest.MonkeyPatch, trend: str, role: str, transform: str | None
) -> None:
    for module in (pipeline, fit_kernel, inputs, assign):
        monkeypatch.setattr(module, "SAMPLE_ROWS", 60)
    monkeypatch.setattr(crossfit, "MAX_ROWS", 100)
    monkeypatch.setattr(shards, "SHARD_ROWS", 40)
    settings = {**NAMED, "n_experts": 4, "n_selected": 2, "n_neighbors": 0, "trend": trend}
    settings |= {"trend_role": role, "target_transform": transform, "optimizer": "lbfgs"}
    here = DistributedGPRegressor(**settings).fit(X, Y)
    X_there, Y_there = da.from_array(X, chunks=(70, 2)), da.from_array(Y, chunks=70)
    there = DistributedGPRegressor(engine=client, **settings).fit(X_there, Y_there)
    assert isinstance(there.model_.experts, DaskExperts)
    for one, other in zip(here.predict(T, return_std=True), there.predict(T, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7)
    queries = da.from_array(T, chunks=(25, 2))
    for one, other in zip(here.predict_interval(T), there.predict_interval(queries), strict=True):
        np.testing.assert_allclose(other.compute(scheduler=client), one, rtol=1e-7)
    lazy = there.predict(queries).compute(scheduler=client)
    np.testing.assert_allclose(lazy, here.predict(T), rtol=1e-7)

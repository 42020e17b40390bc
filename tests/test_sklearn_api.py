"""The estimator keeps scikit-learn's contract, with every stage."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import AGGREGATORS, NPAE
from gpexperts.exceptions import GpexpertsWarning
from gpexperts.partition import PARTITIONERS
from gpexperts.selection import SELECTORS, DNNSelector, KNNSelector

FAST = {"kernel": "rbf", "training": "full", "n_jobs": 1, "random_state": 0}

# The stages vary here; the default settings, with training, are checked by the first of `OTHERS`.
FIXED = {"kernel": 1.0 * RBF(0.3) + WhiteKernel(0.01), "optimizer": None}
UNTRAINED = {"kernel": 1.0 * RBF(3.0) + WhiteKernel(0.1), "optimizer": None, "n_jobs": 1, "random_state": 0}

ESTIMATORS = [DistributedGPRegressor(n_experts=2, n_selected=1, n_neighbors=8, **UNTRAINED)]
FITTED = [
    "model_",
    "predictor_",
    "kernel_",
    "n_experts_",
    "labels_",
    "centroids_",
    "trace_",
    "choices_",
    "repairs_",
    "log_marginal_likelihood_value_",
    "n_features_in_",
]
OTHERS = [
    DistributedGPRegressor(n_jobs=1),
    DistributedGPRegressor(expert_size=10, partition="random", selection=GaussianNB(), **UNTRAINED),
    *(DistributedGPRegressor(n_experts=2, aggregation=name, **UNTRAINED) for name in AGGREGATORS),
    *(DistributedGPRegressor(n_experts=2, selection=name, **UNTRAINED) for name in SELECTORS),
    *(
        DistributedGPRegressor(expert_size=10, partition=name, **UNTRAINED)
        for name in PARTITIONERS
        if name != "random"
    ),
]


def expected_failures(estimator: DistributedGPRegressor) -> dict[str, str]:
    """Where the check of sample weights repeats rows, parts and learned hyperparameters change."""
    refused = {}
    if estimator.aggregation == "grbcm":
        reason = "partial_fit is refused for GRBCM, whose experts share rows"
        refused = dict.fromkeys(("check_fit_score_takes_y", "check_n_features_in_after_fitting"), reason)
    if estimator.optimizer is None and estimator.n_experts == "auto" and estimator.expert_size == "auto":
        return refused
    reason = (
        "weights divide the noise; rows are divided among experts by their number, and copies of rows teach "
        "the model that there is no noise: equal at given parts and hyperparameters (tests/test_row_noise.py)"
    )
    return {"check_sample_weight_equivalence_on_dense_data": reason, **refused}


# Some checks use constant targets, constant columns, repeated rows or data without noise: the library
# warns of those, by name; any other warning is an error.
@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.GpexpertsWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_s_checks(estimator, check) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.GpexpertsWarning")
@parametrize_with_checks(OTHERS, expected_failed_checks=expected_failures)
def test_scikit_learn_s_checks_of_every_stage(estimator, check) -> None:
    check(estimator)


def small(n_experts: int = 3, **settings) -> DistributedGPRegressor:
    given = {"partition": "kmeans", "selection": "knn", "n_selected": 2, "n_neighbors": 0, **FAST}
    return DistributedGPRegressor(n_experts=n_experts, **(given | settings))


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(90, 2))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] + 0.05 * rng.normal(size=90)


def test_pipeline(data) -> None:
    X, y = data
    piped = make_pipeline(StandardScaler(), small()).fit(X, y)
    mean, std = piped.predict(X, return_std=True)
    assert mean.shape == std.shape == (90,)
    assert piped.score(X, y) > 0.95


def test_grid_search_over_stages_and_their_parameters(data) -> None:
    X, y = data
    grid = {"n_selected": [1, 2], "selection": ["knn", KNNSelector("kernel")], "aggregation": ["npae", "poe"]}
    search = GridSearchCV(small(), grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.8
    assert search.best_estimator_.predict(X).shape == (90,)
    nested = GridSearchCV(
        small(selection=KNNSelector(), aggregation=NPAE(), optimizer=None),
        {"selection__metric": ["hamming", "euclidean"], "aggregation__nugget": [0.9, 1e-8]},
        cv=2,
        error_score="raise",
    ).fit(X, y)
    assert nested.best_params_["aggregation__nugget"] == 1e-8


def test_get_params_and_set_params_are_inverse() -> None:
    model = small(selection=DNNSelector(max_iter=5), aggregation=NPAE())
    params = model.get_params()
    assert params["selection__max_iter"] == 5
    assert params["aggregation__nugget"] == 1e-8
    other = DistributedGPRegressor(selection=DNNSelector(), aggregation=NPAE()).set_params(**params)
    assert {k: v for k, v in other.get_params().items() if "__" in k or isinstance(v, (str, int))} == {
        k: v for k, v in params.items() if "__" in k or isinstance(v, (str, int))
    }
    with pytest.raises(ValueError, match="Invalid parameter 'n_expert'"):
        model.set_params(n_expert=3)


def test_check_is_fitted(data) -> None:
    model = small()
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    for name in FITTED:
        assert not hasattr(model, name)
    model.fit(*data)
    check_is_fitted(model)
    for name in FITTED:
        check_is_fitted(model, name)
    assert not hasattr(clone(model), "kernel_")


def test_cross_validation_in_processes(data) -> None:
    X, y = data
    assert cross_val_predict(small(), X, y, cv=3, n_jobs=2).shape == (90,)
    assert cross_val_score(small(), X, y, cv=3).mean() > 0.8


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_and_their_column_names(data, frame) -> None:
    X, y = data
    named = frame({"a": X[:, 0], "b": X[:, 1]})
    model = small().fit(named, y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(model.predict(named), small().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame({"a": X[:, 0], "c": X[:, 1]}))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame({"b": X[:, 1], "a": X[:, 0]}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


def test_series_targets(data) -> None:
    X, y = data
    expected = small().fit(X, y).predict(X)
    np.testing.assert_array_equal(small().fit(X, pd.Series(y)).predict(X), expected)
    np.testing.assert_array_equal(small().fit(X, pl.Series(y)).predict(X), expected)


def test_clone_copies_the_settings_and_not_the_fit(data) -> None:
    X, y = data
    model = small(partition=np.arange(90) % 3, selection=GaussianNB()).fit(X, y)
    copied = clone(model)
    assert not hasattr(copied, "model_")
    np.testing.assert_array_equal(copied.partition, model.partition)
    np.testing.assert_array_equal(copied.fit(X, y).predict(X), model.predict(X))


@pytest.mark.parametrize("name", AGGREGATORS)
def test_pickle_and_deepcopy_keep_every_bit(data, name: str) -> None:
    X, y = data
    model = small(aggregation=name, **FIXED).fit(X, y)
    before = model.predict(X, return_std=True)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        np.testing.assert_array_equal(again.predict(X, return_std=True), before)
        changed = again.set_params(n_selected=3).predict(X)
        np.testing.assert_array_equal(changed, clone(model).set_params(n_selected=3).fit(X, y).predict(X))
        np.testing.assert_array_equal(model.predict(X, return_std=True), before)


def test_an_unfitted_estimator_can_be_pickled(data) -> None:
    again = pickle.loads(pickle.dumps(small()))
    np.testing.assert_array_equal(again.fit(*data).predict(data[0]), small().fit(*data).predict(data[0]))


@pytest.mark.parametrize("selection", SELECTORS)
def test_a_pickle_keeps_every_selection(data, selection: str) -> None:
    X, y = data
    model = small(selection=selection, n_selected="auto", **FIXED).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).select(X), model.select(X))


def test_a_pickle_does_not_hold_the_factors(data) -> None:
    X, y = data
    model = small().fit(X, y)
    before = len(pickle.dumps(model))
    model.predict(X, return_std=True)
    assert len(pickle.dumps(model)) < before + 1000


@pytest.mark.parametrize("name", AGGREGATORS)
def test_outputs_are_independent_given_the_hyperparameters(data, name: str) -> None:
    X, y = data
    Y = np.stack([y, 100.0 - 7.0 * y**2, np.cos(9 * X[:, 1])], axis=1)
    joint = small(aggregation=name, **FIXED).fit(X, Y)
    mean, std = joint.predict(X, return_std=True)
    assert mean.shape == std.shape == (90, 3)
    for k in range(3):
        single = small(aggregation=name, **FIXED).fit(X, Y[:, k])
        single_mean, single_std = single.predict(X, return_std=True)
        np.testing.assert_allclose(mean[:, k], single_mean, rtol=1e-8, atol=1e-9 * np.std(Y[:, k]))
        np.testing.assert_allclose(std[:, k], single_std, rtol=1e-8)
    explanation = joint.explain(X)
    assert explanation.expert_mean.shape == explanation.expert_std.shape == (90, 2, 3)
    assert explanation.mean.shape == explanation.std.shape == (90, 3)


def test_a_column_of_targets_stays_a_column(data) -> None:
    X, y = data
    mean, std = small().fit(X, y[:, None]).predict(X, return_std=True)
    assert mean.shape == std.shape == (90, 1)
    np.testing.assert_array_equal(mean[:, 0], small().fit(X, y).predict(X))


def test_a_warning_of_this_library_can_be_silenced_by_its_base_class() -> None:
    from gpexperts import exceptions

    ours = [w for w in vars(exceptions).values() if isinstance(w, type) and issubclass(w, Warning)]
    assert all(issubclass(w, GpexpertsWarning) for w in ours if w.__module__ == exceptions.__name__)

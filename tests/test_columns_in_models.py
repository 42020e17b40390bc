"""Models of data frames with categories, gaps and dates, in scikit-learn's tools and in model files."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpexperts
from gpexperts import DistributedGPRegressor, inspection
from gpexperts.exceptions import ColumnWarning, CorruptModelError
from gpexperts.metrics import coverage, crps, interval_score, msll, nlpd, scorers
from tests.io.forging import put_together, taken_apart

FAST: dict[str, Any] = {
    "kernel": "matern52", "n_experts": 2, "n_neighbors": 0, "n_jobs": 1, "random_state": 0
}  # fmt: skip
EFFECTS = {"north": 0.0, "south": 2.0, "west": -2.0}
UNTRAINED: dict[str, Any] = {**FAST, "optimizer": None}


def table(n: int = 240, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    town = rng.choice(list(EFFECTS), n)
    x = rng.uniform(-2, 2, n)
    frame = pd.DataFrame(
        {
            "x": x,
            "town": pd.Categorical(town),
            "new": rng.random(n) > 0.5,
            "when": pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 90 * 24, n), "h"),
        }
    )
    y = np.sin(2 * x) + np.array([EFFECTS[t] for t in town]) + frame["new"] + 0.05 * rng.normal(size=n)
    frame.loc[frame.index % 12 == 0, "x"] = np.nan
    return frame, y.to_numpy()


X, Y = table()


@pytest.fixture(scope="module")
def model() -> DistributedGPRegressor:
    return DistributedGPRegressor(**FAST).fit(X, Y)


def test_categories_gaps_and_dates_are_learned(model: DistributedGPRegressor) -> None:
    new, y = table(150, seed=1)
    mean, std = model.predict(new, return_std=True)
    known = new["x"].notna().to_numpy()
    assert np.mean((y - mean)[known] ** 2) / y.var() < 0.03
    assert np.mean(np.abs(y - mean)[known] < 3 * std[known]) > 0.95
    # Without x, town and new still tell most.
    assert np.mean((y - mean)[~known] ** 2) / y.var() < 0.4
    assert std[~known].mean() > 2 * std[known].mean()


def test_columns_are_described(model: DistributedGPRegressor) -> None:
    choice = model.choices_["columns"]
    assert choice.value == {"x": "number", "town": "category", "new": "boolean", "when": "date"}
    assert choice.reason == "1 number, 1 category, 1 boolean, 1 date"
    assert choice.evidence["x"] == "number, gaps"
    assert choice.evidence["town"] == "category of 3 levels"
    assert choice.evidence["when"] == "date: elapsed time, hour, weekday"
    names = ["x", "x (missing)", "town", "new", "when", "when (hour)", "when (weekday)"]
    assert inspection.scale_names(model) == names
    assert inspection.length_scales(model).shape == (7,)
    shown = [h.name for h in inspection.hyperparameters(model)]
    assert [f"length_scale[{name}]" for name in names] == [s for s in shown if "length" in s]
    assert model.n_features_in_ == 4


def test_kernel_gives_the_same_model_again(model: DistributedGPRegressor) -> None:
    again = DistributedGPRegressor(**{**UNTRAINED, "kernel": model.kernel_}).fit(X, Y)
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=0.1, atol=0.02)
    np.testing.assert_allclose(inspection.length_scales(again), inspection.length_scales(model), rtol=1e-9)


@pytest.mark.parametrize(
    "kernel", [1.0 * Matern(np.ones(3)) + WhiteKernel(0.1), RBF(np.ones(7)) + DotProduct()]
)
def test_length_scales_that_do_not_fit(kernel: Any) -> None:
    with pytest.raises(ValueError, match="length scale"):
        DistributedGPRegressor(**{**UNTRAINED, "kernel": kernel}).fit(X, Y)


@pytest.mark.parametrize("make", [pl.from_pandas, lambda X: pa.Table.from_pandas(X, preserve_index=False)])
def test_other_libraries_give_the_same_model(make: Any, model: DistributedGPRegressor) -> None:
    other = DistributedGPRegressor(**FAST).fit(make(X), Y)
    np.testing.assert_array_equal(other.predict(make(X)), model.predict(X))
    np.testing.assert_array_equal(other.predict(X), model.predict(X))


def test_a_saved_index_does_not_reorder_rows(tmp_path: Path, model: DistributedGPRegressor) -> None:
    rng = np.random.default_rng(0)
    shuffled = X.set_index(pd.Index(rng.permutation(len(X)), name=None))
    shuffled.assign(y=Y).to_parquet(tmp_path / "t.parquet")
    read = pd.read_parquet(tmp_path / "t.parquet")
    assert not read.index.equals(X.index)
    other = DistributedGPRegressor(**FAST).fit(read.drop(columns="y"), read["y"])
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    # Other libraries read the index as a column, which is an input like any other.
    columns = pl.read_parquet(tmp_path / "t.parquet").drop("y").columns
    assert "__index_level_0__" in columns
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pl.read_parquet(tmp_path / "t.parquet").drop("y"))


def test_unseen_levels_and_gaps_are_predicted_and_counted(model: DistributedGPRegressor) -> None:
    new = X.head(4).assign(town=["north", "east", "east", None], new=[True, None, True, False])
    with pytest.warns(ColumnWarning, match=r"2 rows of 1 rare or unseen levels \('east'\)") as caught:
        mean, std = model.predict(new, return_std=True)
    (warning,) = caught
    assert "'town' has 1 row without a value" in str(warning.message)
    assert np.isfinite(mean).all()
    _, known = model.predict(X.head(4), return_std=True)
    assert (std[1:] > 2 * known[1:]).all()


def test_400_levels_cost_one_hyperparameter() -> None:
    rng = np.random.default_rng(0)
    codes = np.concatenate([np.arange(400), np.arange(400), rng.integers(400, size=200)])
    frame = pd.DataFrame({"code": [f"c{i}" for i in codes], "x": rng.normal(size=1000)})
    model = DistributedGPRegressor(**UNTRAINED, n_selected=1).fit(frame, codes % 7)
    assert len(model.kernel_.theta) == 2 + 2
    assert model.model_.experts.n_features == 401 + 1  # the levels, "other", and x


def test_arrays_with_gaps_and_chosen_categories() -> None:
    A = np.column_stack([X["x"], X["town"].cat.codes])
    model = DistributedGPRegressor(**UNTRAINED, categorical_features=[1]).fit(A, Y)
    assert model.choices_["columns"].value == {"x0": "number", "x1": "category"}
    by_name = DistributedGPRegressor(**UNTRAINED, categorical_features=["b"]).fit(
        pd.DataFrame(A, columns=["a", "b"]), Y
    )
    np.testing.assert_array_equal(model.predict(A), by_name.predict(pd.DataFrame(A, columns=["a", "b"])))
    with pytest.warns(ColumnWarning, match="'x1' has 1 row without a value"):
        model.predict([[0.0, np.nan]])


def test_a_gap_in_plain_numbers_is_imputed_and_counted() -> None:
    A = np.random.default_rng(0).normal(2.0, 1.0, size=(50, 2))
    model = DistributedGPRegressor(**UNTRAINED).fit(A, A[:, 0])
    assert "columns" not in model.choices_
    with pytest.warns(ColumnWarning, match="column 'x1' has 2 rows without a value, filled with the mean"):
        mean = model.predict([[1.0, np.nan], [2.0, np.nan], [1.0, 1.0]])
    np.testing.assert_allclose(
        mean[:2], model.predict([[1.0, A[:, 1].mean()], [2.0, A[:, 1].mean()]]), rtol=1e-6
    )
    with pytest.raises(ValueError, match="infinity"):
        model.predict([[1.0, np.inf]])


@pytest.mark.parametrize("levels", [["a"] * 40, [f"c{i}" for i in range(40)]])
def test_a_category_with_one_level_or_with_n(levels: list[str]) -> None:
    frame = pd.DataFrame({"code": levels, "x": np.linspace(0, 1, 40)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)
        model = DistributedGPRegressor(**UNTRAINED).fit(frame, np.sin(5 * frame["x"]))
        mean = model.predict(frame.assign(code="another"))
    assert np.isfinite(mean).all()


def test_a_column_missing_in_prediction_only(model: DistributedGPRegressor) -> None:
    new = X.assign(x=np.nan, town=pd.Categorical([None] * len(X), categories=list(EFFECTS)))
    with pytest.warns(ColumnWarning, match=f"'town' has {len(X)} rows without a value"):
        _, std = model.predict(new, return_std=True)
    assert (std > 0.5).all()


# --------------------------------------------------------------------------- scikit-learn's tools


def test_grid_search_over_a_frame_with_categories() -> None:
    search = GridSearchCV(
        DistributedGPRegressor(**UNTRAINED),
        {"kernel": ["matern12", "matern52"], "categorical_features": ["from_dtype", ["town", "new"]]},
        scoring=scorers.log_density,
        cv=2,
        error_score="raise",
    ).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.score(X, Y) == pytest.approx(np.mean(search.best_estimator_.log_density(X, Y)))
    assert scorers.log_density(search, X, Y) == pytest.approx(search.score(X, Y))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_cross_validation_with_every_scorer(library: str) -> None:
    frame = X if library == "pandas" else pl.from_pandas(X)
    every = {
        "density": scorers.log_density,
        "msll": scorers.neg_msll,
        "crps": scorers.neg_crps,
        "coverage": scorers.coverage,
        "error": scorers.neg_coverage_error.at(0.5),
        "interval": scorers.neg_interval_score.at(0.8),
    }
    found = cross_validate(
        DistributedGPRegressor(**UNTRAINED), frame, Y, cv=2, scoring=every, return_estimator=True,
        return_indices=True, error_score="raise",
    )  # fmt: skip
    for fold, estimator in enumerate(found["estimator"]):
        train, test = found["indices"]["train"][fold], found["indices"]["test"][fold]
        some, y = X.iloc[test], Y[test]
        mean, std = estimator.predict(some, return_std=True)
        _, lower, upper = estimator.predict(some, return_interval=0.8)
        width = estimator.interval_width(0.5, std)
        expected = {
            "density": -nlpd(y, mean, std),
            "msll": -msll(y, mean, std, Y[train]),
            "crps": -crps(y, mean, std),
            "coverage": coverage(y, mean, std, 0.95, estimator.interval_width(0.95, std)),
            "error": -abs(coverage(y, mean, std, 0.5, width) - 0.5),
            "interval": -interval_score(y, lower, upper, 0.8),
        }
        for name, value in expected.items():
            assert found[f"test_{name}"][fold] == pytest.approx(value), name


@pytest.mark.parametrize("routing", [False, True])
def test_cross_validation_of_a_frame_with_weights(routing: bool) -> None:
    weight = np.where(np.arange(len(Y)) % 5 == 1, 0.0, 1.0 + np.arange(len(Y)) % 2)
    with config_context(enable_metadata_routing=routing):
        model = DistributedGPRegressor(**UNTRAINED)
        if routing:
            model.set_fit_request(sample_weight=True)
        found = cross_validate(
            model, X, Y, cv=2, scoring={"density": scorers.log_density}, params={"sample_weight": weight},
            return_estimator=True, return_indices=True, error_score="raise",
        )  # fmt: skip
    for estimator, train in zip(found["estimator"], found["indices"]["train"], strict=True):
        assert (np.flatnonzero(estimator.labels_ == -3) == np.flatnonzero(weight[train] == 0)).all()


def test_a_row_of_weight_0_leaves_no_trace_in_the_columns() -> None:
    frame, weight = X.assign(town=X["town"].astype(str)), np.ones(len(Y))
    frame.loc[0, "town"] = "nowhere"
    weight[0] = 0.0
    frame.loc[1, "town"] = "nowhere"  # once is rare, twice would be a level
    with pytest.warns(ColumnWarning, match="1 rare level"):
        weighted = DistributedGPRegressor(**UNTRAINED).fit(frame, Y, sample_weight=weight)
    with pytest.warns(ColumnWarning, match="1 rare level"):
        absent = DistributedGPRegressor(**UNTRAINED).fit(frame.iloc[1:], Y[1:])
    assert weighted.model_.encoder == absent.model_.encoder


@pytest.mark.parametrize("role", ["mean", "input", "both"])
def test_a_trend_sees_the_encoded_columns(role: str, tmp_path: Path) -> None:
    model = DistributedGPRegressor(**{**UNTRAINED, "kernel": "rbf"}, trend="linear", trend_role=role)
    model.fit(X, Y)
    fitted = model.model_
    assert fitted.n_inputs == fitted.encoder.width
    assert fitted.experts.n_features == fitted.encoder.width + (role != "mean")
    assert len(inspection.length_scales(model)) == len(inspection.scale_names(model))
    assert len(inspection.hyperparameters(model)) == len(model.kernel_.theta)
    model.save(tmp_path / "m.gpx")
    again = gpexperts.load(tmp_path / "m.gpx")
    np.testing.assert_array_equal(again.predict(X, return_std=True), model.predict(X, return_std=True))
    np.testing.assert_allclose(inspection.training_targets(model), Y[fitted.experts.numbers], rtol=1e-9)


def test_intervals_and_density_of_a_transformed_target() -> None:
    y = np.exp(Y / 4)
    model = DistributedGPRegressor(**UNTRAINED, target_transform="log").fit(X, y)
    mean, lower, upper = model.predict(X, return_interval=0.9)
    np.testing.assert_array_equal(mean, model.predict(X))
    np.testing.assert_array_equal((lower, upper), model.predict_interval(X, 0.9))
    plain = DistributedGPRegressor(**UNTRAINED).fit(X, np.log(y))
    np.testing.assert_allclose(np.log(lower), plain.predict_interval(X, 0.9)[0])
    # p(y) = p(log y) / y
    np.testing.assert_allclose(model.log_density(X, y), plain.log_density(X, np.log(y)) - np.log(y))
    with pytest.raises(ValueError, match="y has the shape"):
        model.log_density(X, y[1:])


def test_cross_val_predict_of_a_frame() -> None:
    assert cross_val_predict(DistributedGPRegressor(**UNTRAINED), X, Y, cv=2).shape == Y.shape


def test_intervals_and_scorers_in_a_pipeline() -> None:
    scaled = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")), remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")  # fmt: skip
    pipeline = make_pipeline(scaled, DistributedGPRegressor(**UNTRAINED)).fit(X, Y)
    mean, lower, upper = pipeline.predict(X, return_interval=0.9)
    np.testing.assert_array_equal(mean, pipeline.predict(X))
    alone = pipeline[-1]
    np.testing.assert_array_equal((lower, upper), alone.predict_interval(scaled.transform(X), 0.9))
    assert scorers.coverage.at(0.9)(pipeline, X, Y) == np.mean((lower <= Y) & (upper >= Y))
    assert scorers.log_density(pipeline, X, Y) == pytest.approx(
        np.mean(alone.log_density(scaled.transform(X), Y))
    )


@pytest.mark.parametrize("further", [{"return_std": True}, {"latent": True}])
def test_at_most_one_more_result(model: DistributedGPRegressor, further: dict[str, bool]) -> None:
    with pytest.raises(ValueError, match="at most one of return_std, return_cov and return_interval"):
        model.predict(X, return_interval=0.9, **further)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("level", "error"), [(1.0, ValueError), (0.0, ValueError), (True, TypeError), ("a", TypeError)]
)
def test_a_wrong_level(model: DistributedGPRegressor, level: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="strictly between 0 and 1"):
        model.predict(X, return_interval=level)


def test_log_density_is_that_of_a_gaussian_for_several_outputs_too() -> None:
    Y2 = np.stack([Y, Y**2], axis=1)
    model = DistributedGPRegressor(**UNTRAINED).fit(X, Y2)
    mean, std = model.predict(X, return_std=True)
    expected = -0.5 * np.log(2 * np.pi * std**2) - (Y2 - mean) ** 2 / (2 * std**2)
    np.testing.assert_allclose(model.log_density(X, Y2), expected)
    assert scorers.neg_msll(model, X, Y2) == pytest.approx(-msll(Y2, mean, std, Y2))


def test_scorers_say_what_they_need() -> None:
    with pytest.raises(TypeError, match=r"StandardScaler has no method log_density"):
        scorers.log_density(StandardScaler(), X, Y)
    assert repr(scorers.neg_crps) == "<scorer neg_crps>"
    assert pickle.loads(pickle.dumps(scorers.neg_crps)) == scorers.neg_crps


# ------------------------------------------------------------------------------------ model files


@pytest.mark.parametrize("store", ["gpx", "pickle"])
def test_a_stored_model_predicts_the_same(model: DistributedGPRegressor, store: str, tmp_path: Path) -> None:
    if store == "gpx":
        model.save(tmp_path / "m.gpx")
        again = gpexperts.load(tmp_path / "m.gpx")
    else:
        again = pickle.loads(pickle.dumps(model))
    new, _ = table(50, seed=2)
    np.testing.assert_array_equal(
        np.stack(again.predict(new, return_std=True)), model.predict(new, return_std=True)
    )
    assert again.model_.encoder == model.model_.encoder
    assert again.choices_ == model.choices_
    assert again.n_features_in_ == 4
    np.testing.assert_array_equal(again.trivial_log_density(Y), model.trivial_log_density(Y))


def _change(path: tuple[Any, ...], value: Any) -> Any:
    def change(header: dict[str, Any]) -> None:
        tree = header["model"]["columns"]
        for key in path[:-1]:
            tree = tree[key]
        tree[path[-1]] = value

    return change


FORGED = {
    "a kind": (_change(("kinds", 0), "code"), "known kind"),
    "another kind": (_change(("kinds", 1), "date"), "levels of no category"),
    "no kinds": (_change(("kinds",), []), "no kind"),
    "names": (_change(("names", 0), 3), "not text"),
    "levels": (_change(("levels", 0, 1), ["a", "a"]), "not distinct"),
    "levels of no column": (_change(("levels", 0, 0), 7), "levels of no category"),
    "more levels": (_change(("levels", 0, 1), [f"c{i}" for i in range(1000)]), "do not make"),
    "too many levels": (_change(("levels", 0, 1), [f"c{i}" for i in range(5000)]), "more levels than"),
    "a degree": (_change(("levels", 0, 3), 60), "more levels than"),
    "pooled": (_change(("levels", 0, 2), -1), "counted"),
    "a zone": (_change(("dates", 0, 1), "../../etc/passwd"), "no time zone"),
    "a day": (_change(("dates", 0, 2), 10**12), "not described"),
    "cycles": (_change(("dates", 0, 3), ["weekday", "hour"]), "not described"),
    "no dates": (_change(("dates",), []), "not described"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_columns_are_refused(model: DistributedGPRegressor, name: str, tmp_path: Path) -> None:
    model.save(tmp_path / "m.gpx")
    header, arrays = taken_apart(tmp_path / "m.gpx")
    header = copy.deepcopy(header)
    change, message = FORGED[name]
    change(header)
    (tmp_path / "m.gpx").write_bytes(put_together(header, arrays))
    with pytest.raises(CorruptModelError, match=message):
        gpexperts.load(tmp_path / "m.gpx")


def test_explanations_show_the_users_values(model: DistributedGPRegressor) -> None:
    own = copy.copy(model).set_params(n_selected=0, n_neighbors=5)
    inputs = own.explain(X.head(3)).own
    assert inputs is not None
    assert inputs.inputs.shape == (3, 5, 4)
    assert set(inputs.inputs[:, :, 1].ravel()) <= set(EFFECTS)
    rows = X.iloc[inputs.rows[0]]
    assert inputs.inputs[0, :, 1].tolist() == rows["town"].tolist()
    assert inputs.inputs[0, :, 3].tolist() == [t.isoformat() for t in rows["when"]]

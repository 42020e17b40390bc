"""Bad input gives an error that says what to do, or a correct prediction; never a wrong one."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.svm import LinearSVC

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import AGGREGATORS
from gpexperts.exceptions import (
    ConstantTargetWarning,
    FewerExpertsWarning,
    FewRowsWarning,
    NotPositiveDefiniteError,
    RepairWarning,
)
from gpexperts.partition import PARTITIONERS, KMeansPartitioner
from gpexperts.selection import SELECTORS, DNNSelector, GGMSelector, KNNSelector, Selector

SETTINGS = {
    "partition": "kmeans",
    "kernel": "rbf",
    "training": "full",
    "selection": "knn",
    "n_experts": 4,
    "n_selected": 2,
    "n_neighbors": 0,
    "n_jobs": 1,
    "random_state": 0,
}
FIXED = {"kernel": 0.5 * RBF(1.0) + WhiteKernel(0.01), "optimizer": None}


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)


def model(**settings) -> DistributedGPRegressor:
    return DistributedGPRegressor(**(SETTINGS | settings))


def assert_sane(fitted: DistributedGPRegressor, X, limit: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
    mean, std = fitted.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()
    assert (np.abs(mean) <= limit).all()
    return mean, std


# ------------------------------------------------------------------------------ values and shapes


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_refused(data, bad: float) -> None:
    X, y = data
    spoilt_X, spoilt_y = X.copy(), y.copy()
    spoilt_X[3, 1], spoilt_y[5] = bad, bad
    with pytest.raises(ValueError, match="Input X contains"):
        model().fit(spoilt_X, y)
    with pytest.raises(ValueError, match="contains"):
        model().fit(X, spoilt_y)
    with pytest.raises(ValueError, match="Input X contains"):
        model().fit(X, y).predict(spoilt_X)


def test_nan_is_a_gap_of_x_and_refused_in_y(data) -> None:
    X, y = data
    spoilt_X, spoilt_y = X.copy(), y.copy()
    spoilt_X[3, 1], spoilt_y[5] = np.nan, np.nan
    assert np.isfinite(model().fit(spoilt_X, y).predict(spoilt_X)).all()
    with pytest.raises(ValueError, match="Input y contains NaN"):
        model().fit(X, spoilt_y)


def test_a_wrong_number_of_features_is_refused(data) -> None:
    X, y = data
    fitted = model().fit(X, y)
    for method in (fitted.predict, fitted.select, fitted.explain):
        with pytest.raises(ValueError, match="X has 1 features, but DistributedGPRegressor is expecting 2"):
            method(X[:, :1])


def test_rows_must_match(data) -> None:
    X, y = data
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model().fit(X, y[:-1])
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        model().fit(X[:0], y[:0])


def test_predicting_before_fit_is_refused(data) -> None:
    from sklearn.exceptions import NotFittedError

    for method in ("predict", "select", "explain"):
        with pytest.raises(NotFittedError):
            getattr(model(), method)(data[0])


def test_one_row_is_predicted() -> None:
    with pytest.warns(ConstantTargetWarning):
        fitted = DistributedGPRegressor(kernel="rbf").fit([[1.0, 2.0]], [3.0])
    mean, _ = assert_sane(fitted, [[1.0, 2.0], [9.0, 9.0]])
    np.testing.assert_allclose(mean, 3.0)


@pytest.mark.parametrize("n", [2, 3])
def test_very_few_rows_give_finite_predictions(n: int) -> None:
    X, y = np.arange(n)[:, None] * 1.0, np.arange(n) * 2.0
    with np.errstate(all="raise"), pytest.warns(FewRowsWarning, match=f"fitted to {n} rows"):
        fitted = DistributedGPRegressor(
            kernel=1.0 * RBF(1.0, "fixed") + WhiteKernel(0.1, "fixed"), n_experts=1
        ).fit(X, y)
    assert_sane(fitted, X, limit=10.0)


def test_no_queries_give_empty_predictions(data) -> None:
    X, y = data
    for selection in SELECTORS:
        K = "auto" if selection == "all" else 2
        fitted = model(selection=selection, n_selected=K, **FIXED).fit(X, y)
        mean, std = fitted.predict(X[:0], return_std=True)
        assert mean.shape == std.shape == (0,)
        assert fitted.explain(X[:0]).weight.shape[0] == 0


# ------------------------------------------------------------------------------------- M and K


def test_more_experts_than_rows(data) -> None:
    with pytest.raises(ValueError, match="n_experts=61 is more than the 60 training rows"):
        model(n_experts=61).fit(*data)


@pytest.mark.parametrize(
    ("value", "error"), [(0, ValueError), (-2, ValueError), (2.5, TypeError), (True, TypeError)]
)
@pytest.mark.parametrize("parameter", ["n_experts", "expert_size"])
def test_a_wrong_number_of_experts(data, parameter: str, value, error) -> None:
    with pytest.raises(error, match=f"{parameter} must be"):
        model(**({"n_experts": "auto"} | {parameter: value})).fit(*data)


def test_n_experts_and_expert_size_exclude_each_other(data) -> None:
    with pytest.raises(ValueError, match="Give n_experts or expert_size, not both"):
        model(expert_size=10).fit(*data)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (5, ValueError, "n_selected=5 is more than the 4 experts.*at most 4"),
        (-1, ValueError, "n_selected must be at least 1"),
        (0.0, ValueError, r"must lie in \(0, 1\]"),
        (1.2, ValueError, r"must lie in \(0, 1\]"),
        (-0.5, ValueError, r"must lie in \(0, 1\]"),
        (float("nan"), ValueError, r"must lie in \(0, 1\]"),
        ("many", ValueError, "must be 'auto', a number or a ratio, got 'many'"),
        (None, TypeError, "must be 'auto', an int or a float, got None"),
        (True, TypeError, "must be 'auto', an int or a float, got True"),
    ],
)
def test_a_wrong_number_of_selected_experts(data, value, error, message: str) -> None:
    with pytest.raises(error, match=message):
        model(n_selected=value).fit(*data)
    fitted = model().fit(*data).set_params(n_selected=value)
    with pytest.raises(error, match=message):  # and the same at the next prediction
        fitted.predict(data[0])


def test_selection_all_excludes_a_smaller_n_selected(data) -> None:
    with pytest.raises(ValueError, match="selection='all' "):
        model(selection="all").fit(*data)


# ------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("parameter", "known"),
    [
        ("partition", PARTITIONERS),
        ("selection", SELECTORS),
        ("aggregation", AGGREGATORS),
        ("kernel", ["auto", "rbf", "matern12", "matern32", "matern52"]),
        ("optimizer", ["lbfgs", "None"]),
        ("training", ["auto", "full"]),
    ],
)
def test_the_error_of_an_unknown_name_lists_the_known_ones(data, parameter: str, known) -> None:
    with pytest.raises(ValueError, match="nonsense") as error:
        model(**{parameter: "nonsense"}).fit(*data)
    for name in known:
        assert name in str(error.value)


@pytest.mark.parametrize("parameter", ["partition", "selection", "aggregation", "engine", "kernel"])
def test_an_object_of_the_wrong_kind_is_refused(data, parameter: str) -> None:
    with pytest.raises((TypeError, ValueError), match=parameter):
        model(**{parameter: object()}).fit(*data)


def test_a_classifier_without_probabilities_is_refused(data) -> None:
    with pytest.raises(TypeError, match="predict_proba"):
        model(selection=LinearSVC()).fit(*data)


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (KNNSelector("cosine"), "Unknown metric 'cosine'.*euclidean, manhattan, minkowski, hamming, kernel"),
        (KNNSelector("minkowski", p=0.5), "must be from 1 to 15, or infinite, got 0.5"),
        (KNNSelector("minkowski", p=16), "must be from 1 to 15, or infinite, got 16"),
        (DNNSelector(output="relu"), "Unknown output 'relu'.*softmax, sigmoid"),
        (GGMSelector(penalty=0.0), "penalty must be positive, got 0"),
    ],
)
def test_a_wrong_setting_of_a_selector(data, selector, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(selection=selector).fit(*data)


@pytest.mark.parametrize(("value", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_a_wrong_number_of_restarts(data, value, error) -> None:
    with pytest.raises(error, match="n_restarts must be"):
        model(n_restarts=value).fit(*data)


def test_a_kernel_of_the_wrong_width(data) -> None:
    with pytest.raises(ValueError, match="length_scale has 3 entries, but X has 2 features"):
        model(kernel=RBF([1.0, 1.0, 1.0]) + WhiteKernel()).fit(*data)


def test_a_kernel_that_is_nothing_but_noise(data) -> None:
    with pytest.raises(ValueError, match="is only noise; add a signal"):
        model(kernel=WhiteKernel()).fit(*data)


class _Wrong(Selector):
    def __init__(self, index=None):
        self.index = index

    def select(self, X, n_selected):
        return np.tile(np.asarray(self.index), (len(X), 1))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([0, 4], "from −1 to 3"),
        ([-2, 0], "from −1 to 3"),
        ([0.0, 1.0], "int"),
        ([1, 1], "twice"),
        ([-1, -1], "without an expert"),
    ],
)
def test_wrong_results_of_a_selector_are_refused(data, index, message: str) -> None:
    for n_selected in (2, "auto"):
        with pytest.raises(ValueError, match=message):
            model(selection=_Wrong(index), n_selected=n_selected).fit(*data)
    fitted = model().fit(*data).set_params(selection=_Wrong(index))
    for method in (fitted.predict, fitted.explain, fitted.select):
        with pytest.raises(ValueError, match=message):
            method(data[0])


# ------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize("labels", [np.zeros(59, int), np.zeros((60, 1), int), np.zeros(60), None])
def test_labels_of_the_wrong_shape_or_type(data, labels) -> None:
    with pytest.raises(ValueError, match="one label per row"):
        model(partition=labels, n_experts="auto").fit(*data)


def test_labels_that_do_not_fit_n_experts(data) -> None:
    with pytest.raises(ValueError, match="n_experts=4, but partition holds 3 different labels"):
        model(partition=np.arange(60) % 3).fit(*data)


def test_negative_labels_without_grbcm(data) -> None:
    labels = np.arange(60) % 4 - 1
    with pytest.raises(ValueError, match="only aggregation='grbcm' uses"):
        model(partition=labels, n_experts="auto").fit(*data)
    with pytest.raises(ValueError, match="all labels are negative"):
        model(partition=np.full(60, -1), n_experts="auto", aggregation="grbcm").fit(*data)


# --------------------------------------------------------------------------- degenerate data


@pytest.mark.parametrize("value", [0.0, 5.0, -1e12, 1e-300])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("n_restarts", [0, 1])
def test_a_constant_target_is_predicted_everywhere(data, value, standardize: bool, n_restarts: int) -> None:
    X, _ = data
    with pytest.warns(ConstantTargetWarning, match="All training targets are equal"):
        fitted = model(standardize=standardize, n_restarts=n_restarts).fit(X, np.full(60, value))
    mean, std = assert_sane(fitted, np.concatenate([X, 100 + X]))
    np.testing.assert_allclose(mean, value, rtol=1e-12, atol=1e-20)
    assert (std <= 1e-6 * max(abs(value), 1e-6)).all()


def test_a_constant_output_does_not_change_the_other(data) -> None:
    X, y = data
    single_mean, single_std = model().fit(X, y).predict(X, return_std=True)
    with pytest.warns(ConstantTargetWarning, match="output 0"):
        fitted = model().fit(X, np.stack([np.full(60, 7.0), y], axis=1))
    mean, std = assert_sane(fitted, X)
    np.testing.assert_allclose(mean[:, 0], 7.0, rtol=1e-12)
    assert (std[:, 0] < 1e-6).all()
    np.testing.assert_allclose(mean[:, 1], single_mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(std[:, 1], single_std, rtol=1e-6)


@pytest.mark.parametrize("partition", PARTITIONERS)
def test_constant_and_duplicated_columns(data, partition: str) -> None:
    X, y = data
    wide = np.column_stack([X, np.full(60, 3.7), X[:, 0]])
    plain = model(partition=partition, n_selected=1.0).fit(X, y)
    fitted = model(partition=partition, n_selected=1.0).fit(wide, y)
    mean, _ = assert_sane(fitted, wide)
    np.testing.assert_allclose(mean, plain.predict(X), atol=0.15)


@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.GpexpertsWarning")
@pytest.mark.parametrize("name", AGGREGATORS)
@pytest.mark.parametrize("partition", PARTITIONERS)
def test_all_rows_equal(name: str, partition: str) -> None:
    """The best prediction is the mean of the targets, with the spread of one target."""
    y = np.random.default_rng(0).normal(3.0, 2.0, size=40)
    fitted = model(partition=partition, aggregation=name).fit(np.ones((40, 2)), y)
    mean, std = assert_sane(fitted, np.ones((3, 2)))
    np.testing.assert_allclose(mean, y.mean(), atol=1.0)
    assert (std > 0.5).all()
    assert (std < 4.0).all()


def test_empty_clusters_are_dropped_with_a_warning(data) -> None:
    X, y = np.repeat([[0.0], [1.0], [5.0]], 20, axis=0), np.random.default_rng(0).normal(size=60)
    with pytest.warns(FewerExpertsWarning, match="only 3"):
        fitted = model(n_experts=5, n_selected=4).fit(X, y)
    assert fitted.n_experts_ == 3
    assert fitted.select(X).shape == (60, 3)
    assert_sane(fitted, X)


def test_jitter_for_repeated_rows_without_noise_is_reported() -> None:
    X = np.repeat(np.linspace(0, 1, 10)[:, None], 3, axis=0)
    y = np.sin(5 * X[:, 0])
    kernel = 1.0 * RBF(0.5, "fixed") + WhiteKernel(1e-18, "fixed")
    with pytest.warns(RepairWarning, match="needed jitter"):
        fitted = DistributedGPRegressor(kernel=kernel, n_experts=1, optimizer=None).fit(X, y)
    mean, _ = assert_sane(fitted, X)
    np.testing.assert_allclose(mean, y, atol=1e-3)
    assert fitted.repairs_["training_blocks_with_jitter"] == 1
    assert fitted.repairs_["experts_with_jitter"][0] > 0


# ---------------------------------------------------------------------- types and memory layouts


@pytest.mark.parametrize("name", AGGREGATORS)
def test_types_and_layouts_give_the_same_prediction(name: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 50, size=(60, 3)), rng.integers(-5, 5, size=60)
    expected = (
        model(aggregation=name, **FIXED).fit(X.astype(float), y.astype(float)).predict(X, return_std=True)
    )
    frozen_X, frozen_y = X.astype(float), y.astype(float)
    frozen_X.flags.writeable = frozen_y.flags.writeable = False
    strided = np.zeros((120, 6))
    strided[::2, ::2] = X
    variants = [
        (X, y),
        (X.astype(np.float32), y.astype(np.float32)),
        (X.astype(np.int8), y.astype(np.int16)),
        (frozen_X, frozen_y),
        (np.asfortranarray(X, dtype=float), y),
        (strided[::2, ::2], y[::-1].copy()[::-1]),
        (X.tolist(), y.tolist()),
    ]
    for X_variant, y_variant in variants:
        fitted = model(aggregation=name, **FIXED).fit(X_variant, y_variant)
        np.testing.assert_array_equal(fitted.predict(X_variant, return_std=True), expected)


def test_the_caller_s_arrays_are_neither_changed_nor_kept(data) -> None:
    X, y = data
    before = X.copy(), y.copy()
    fitted = model().fit(X, y)
    fitted.predict(X, return_std=True)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])
    X[:], y[:] = 0.0, 0.0  # the model has its own copies
    np.testing.assert_array_equal(fitted.predict(before[0]), model().fit(*before).predict(before[0]))


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_units_do_not_matter(data, scale: float) -> None:
    X, y = data
    mean, std = model().fit(X, y).predict(X, return_std=True)
    scaled_mean, scaled_std = assert_sane(model().fit(X * scale, y * scale), X * scale)
    np.testing.assert_allclose(scaled_mean / scale, mean, atol=1e-4)
    np.testing.assert_allclose(scaled_std / scale, std, rtol=1e-3)


class _NoCovariance(RBF):
    """Not a covariance function at all."""

    def __call__(self, X, Y=None, eval_gradient=False):
        result = super().__call__(X, Y, eval_gradient)
        return (-result[0], -result[1]) if eval_gradient else -result


def test_a_kernel_that_is_no_covariance_is_refused(data) -> None:
    with pytest.raises(NotPositiveDefiniteError, match=r"not positive definite.*Add a WhiteKernel"):
        model(kernel=_NoCovariance(), optimizer=None).fit(*data)


# --------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    "value", ["lots", "4 XB", "", "1.2.3GB", "-5GB", 10, 0, -1, float("nan"), float("inf")]
)
def test_a_memory_budget_that_is_no_size(data, value) -> None:
    with pytest.raises(ValueError, match="memory_budget"):
        model(memory_budget=value).fit(*data)


@pytest.mark.parametrize("value", [None, True, [1]])
def test_a_memory_budget_of_the_wrong_type(data, value) -> None:
    with pytest.raises(TypeError, match="memory_budget"):
        model(memory_budget=value).fit(*data)


def test_kmeans_with_a_wrong_cap(data) -> None:
    with pytest.raises(ValueError, match="max_size"):
        model(partition=KMeansPartitioner(max_size=0)).fit(*data)


# ------------------------------------------------------------------------------ the own expert


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_neighbors": -1}, ValueError, "n_neighbors must be at least 0, got -1"),
        ({"n_neighbors": 2.5}, TypeError, "n_neighbors must be 'auto' or an int of at least 0, got 2.5"),
        ({"n_neighbors": True}, TypeError, "n_neighbors must be 'auto' or an int"),
        ({"n_neighbors": "many"}, TypeError, "n_neighbors must be 'auto' or an int"),
        ({"n_neighbors": None}, TypeError, "n_neighbors must be 'auto' or an int"),
        ({"n_neighbors": 0, "n_selected": 0}, ValueError, "leave nothing to predict with"),
        ({"n_neighbors": 8, "aggregation": "rbcm"}, ValueError, r"shares rows.*Use n_selected=0"),
        ({"n_neighbors": 8, "aggregation": "poe", "n_selected": "auto"}, ValueError, "shares rows"),
        ({"n_neighbors": 8, "aggregation": "grbcm"}, ValueError, "needs its fixed experts"),
        (
            {"n_neighbors": "auto", "n_selected": 0, "aggregation": "grbcm"},
            ValueError,
            "needs its fixed experts",
        ),
    ],
)
def test_own_experts_that_cannot_be(data, settings, error, message: str) -> None:
    with pytest.raises(error, match=message):
        model(**settings).fit(*data)
    if settings.get("aggregation") == "grbcm":
        return
    fitted = model(**FIXED).fit(*data).set_params(**settings)
    with pytest.raises(error, match=message):  # and the same at the next prediction
        fitted.predict(data[0])


@pytest.mark.parametrize("m", [60, 61, 10**9])
def test_more_neighbours_than_rows_are_all_rows(data, m: int) -> None:
    X, y = data
    own = model(n_neighbors=m, n_selected=0, standardize=False, **FIXED).fit(X, y)
    exact = model(n_experts=1, n_selected=1, n_neighbors=0, standardize=False, **FIXED).fit(X, y)
    new = np.random.default_rng(1).normal(size=(20, 2))
    for latent in (False, True):
        np.testing.assert_allclose(
            own.predict(new, return_std=True, latent=latent),
            exact.predict(new, return_std=True, latent=latent),
            rtol=1e-7,
            atol=1e-9,
        )


@pytest.mark.parametrize("aggregation", ["poe", "gpoe", "bcm", "npae"])
def test_the_own_expert_alone_serves_rules_of_one_expert(data, aggregation: str) -> None:
    X, y = data
    fitted = model(n_neighbors=20, n_selected=0, aggregation=aggregation, **FIXED).fit(X, y)
    assert_sane(fitted, X)
    assert fitted.select(X).shape == (60, 0)
    np.testing.assert_allclose(fitted.predict(X[7:8]), fitted.predict(X)[7:8], rtol=1e-9)


@pytest.mark.parametrize("aggregation", ["poe", "rbcm", "grbcm"])
def test_auto_neighbours_are_none_for_rules_of_independent_experts(data, aggregation: str) -> None:
    fitted = model(aggregation=aggregation, n_neighbors="auto", **FIXED).fit(*data)
    assert fitted.predictor_.tuning.n_neighbors == 0


HARD = {
    "all rows equal": np.ones((80, 2)),
    "one-hot": np.eye(6)[np.arange(80) % 6],
    "d = 500": np.random.default_rng(0).normal(size=(80, 500)),
    "duplicates": np.repeat(np.random.default_rng(0).normal(size=(20, 2)), 4, axis=0),
}


@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.GpexpertsWarning")
@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("noise", [1e-10, 0.01])
@pytest.mark.parametrize("n_selected", [0, 2])
def test_own_experts_of_hard_rows(name: str, noise: float, n_selected: int) -> None:
    X = HARD[name]
    y = np.random.default_rng(1).normal(size=80)
    kernel = 1.0 * RBF(1.0) + WhiteKernel(noise)
    fitted = model(
        partition=np.arange(80) % 4, n_experts="auto", kernel=kernel, optimizer=None,
        n_neighbors=16, n_selected=n_selected,
    ).fit(X, y)  # fmt: skip
    queries = np.concatenate([X[:5], X[:5] + 0.1, X[:1] + 1e6])
    _, std = assert_sane(fitted, queries)
    assert (std > 0).all()
    _, latent = fitted.predict(queries, return_std=True, latent=True)
    assert (latent > 0).all()

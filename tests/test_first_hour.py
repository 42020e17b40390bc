"""Habits of scikit-learn's GaussianProcessRegressor: kernel objects in the units of X and y², noise, dask."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Matern, WhiteKernel

from gpexperts import DistributedGPRegressor
from gpexperts.exceptions import NoNoiseWarning


def days(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Four years of temperatures."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 4 * 365.25, size=n))
    return t[:, None], 10.0 + 8.0 * np.sin(2 * np.pi * t / 365.25) + rng.normal(size=n)


def table(n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Columns of very different units."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(n, 2)) * [1000.0, 0.01] + [5e4, 3.0]
    signal = np.sin(X[:, 0] / 300) + 100 * (X[:, 1] - 3.0)
    return X, 500.0 + 40.0 * signal + 4.0 * rng.normal(size=n)


# -------------------------------------------------------------------------- kernel objects, raw units


@pytest.mark.parametrize(
    "signal",
    [
        1600.0 * RBF([300.0, 0.01]),
        900.0 * Matern([400.0, 0.02], nu=1.5),
        700.0 * RBF([300.0, 0.01]) * RBF([1e4, 1.0]),  # no stationary form of its own
    ],
    ids=str,
)
def test_one_expert_is_scikit_learn_s_exact_gp(signal) -> None:
    """At the same θ, in the units of X and y², with y centred."""
    X, y = table()
    kernel = signal + WhiteKernel(16.0)
    model = DistributedGPRegressor(
        kernel=kernel, optimizer=None, n_experts=1, n_selected=1, aggregation="poe", n_jobs=1
    ).fit(X, y)
    assert model.kernel_ == kernel
    queries = X[:20] + np.array([50.0, 0.001])
    theirs = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(X, y - y.mean())
    expected, expected_std = theirs.predict(queries, return_std=True)
    mean, std = model.predict(queries, return_std=True)
    np.testing.assert_allclose(mean, expected + y.mean(), rtol=1e-7)
    np.testing.assert_allclose(std, expected_std, rtol=1e-6)


def test_standardize_false_does_not_even_centre_the_target() -> None:
    X, y = table()
    kernel = 1600.0 * RBF([300.0, 0.01]) + WhiteKernel(16.0)
    model = DistributedGPRegressor(
        kernel=kernel, optimizer=None, n_experts=1, n_selected=1, aggregation="poe", standardize=False
    ).fit(X, y)
    expected = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(X, y).predict(X[:10])
    np.testing.assert_allclose(model.predict(X[:10]), expected, rtol=1e-7)
    np.testing.assert_allclose(model.predict(X[:1] + 1e9), 0.0, atol=1e-9)


def test_a_trained_kernel_object_is_in_the_units_of_the_data() -> None:
    X, y = table(300)
    kernel = 1000.0 * RBF([500.0, 0.05], (1e-4, 1e5)) + WhiteKernel(10.0)
    model = DistributedGPRegressor(kernel=kernel, n_experts=1, training="full", n_jobs=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
        theirs = GaussianProcessRegressor(kernel, alpha=0.0).fit(X, y - y.mean())
    np.testing.assert_allclose(model.kernel_.theta, theirs.kernel_.theta, atol=0.05)
    assert 2.0 < np.sqrt(model.kernel_.k2.noise_level) < 6.0  # of the data: 4


@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.BoundWarning")
def test_the_trained_kernel_gives_the_same_model_again() -> None:
    X, y = table()
    first = DistributedGPRegressor(kernel="rbf", n_experts=3, n_jobs=1, random_state=0).fit(X, y)
    labels = first.labels_
    fixed = {"partition": labels, "optimizer": None, "selection": "all", "aggregation": "rbcm", "n_jobs": 1}
    again = DistributedGPRegressor(kernel=first.kernel_, **fixed).fit(X, y)
    first.set_params(selection="all", aggregation="rbcm")
    for one, other in zip(first.predict(X, return_std=True), again.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.BoundWarning")
def test_a_fixed_period_in_days_recovers_the_yearly_cycle() -> None:
    X, y = days(200)
    cycle = ExpSineSquared(1.0, 365.25, periodicity_bounds="fixed")
    kernel = 50.0 * cycle * RBF(2000.0, (100.0, 1e6)) + WhiteKernel(1.0)
    settings = {"n_experts": 2, "n_selected": 2, "n_neighbors": 0, "n_jobs": 1, "random_state": 0}
    model = DistributedGPRegressor(kernel=kernel, **settings).fit(X, y)
    next_year = 4 * 365.25 + np.arange(0.0, 365.0, 7.0)
    expected = 10.0 + 8.0 * np.sin(2 * np.pi * next_year / 365.25)
    assert np.sqrt(np.mean((model.predict(next_year[:, None]) - expected) ** 2)) < 1.0
    assert "periodicity=365" in str(model.kernel_)


def test_parts_and_selection_do_not_depend_on_the_units_of_a_kernel_object() -> None:
    X, y = table()
    units = np.array([2.0**10, 2.0**-7])
    models = [
        DistributedGPRegressor(
            kernel=1600.0 * RBF(np.array([300.0, 0.01]) * u) + WhiteKernel(16.0),
            optimizer=None, n_experts=4, n_selected=2, n_jobs=1, random_state=0,
        ).fit(X * u, y)
        for u in (np.ones(2), units)
    ]  # fmt: skip
    np.testing.assert_array_equal(models[0].labels_, models[1].labels_)
    np.testing.assert_array_equal(models[0].select(X), models[1].select(X * units))
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(X * units), rtol=1e-9)


# ------------------------------------------------------------------------------------------- noise


def test_a_kernel_without_noise_on_noisy_data_is_warned_of() -> None:
    X, y = days()
    kernel = 60.0 * RBF(50.0)
    with pytest.warns(NoNoiseWarning, match=r"no WhiteKernel.*look noisy. Add \+ WhiteKernel\(\)"):
        DistributedGPRegressor(kernel=kernel, optimizer=None, n_jobs=1, random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DistributedGPRegressor(
            kernel=kernel + WhiteKernel(1.0), optimizer=None, n_jobs=1, random_state=0
        ).fit(X, y)


def test_a_kernel_without_noise_on_exact_data_is_not_warned_of() -> None:
    X, _ = days(200)
    y = np.sin(2 * np.pi * X[:, 0] / 365.25)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", NoNoiseWarning)
        model = DistributedGPRegressor(
            kernel=1.0 * Matern(100.0, nu=2.5), optimizer=None, n_jobs=1, random_state=0
        ).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-3)


# -------------------------------------------------------------------------------------------- dask


def test_a_dask_array_without_an_engine_is_refused() -> None:
    da = pytest.importorskip("dask.array")
    X, y = days(100)
    lazy = da.from_array(X, chunks=(40, 1))
    model = DistributedGPRegressor(kernel="rbf", optimizer=None, n_experts=2, n_jobs=1)
    with pytest.raises(ValueError, match=r"X is a dask collection, but engine=None.*engine='dask'.*compute"):
        model.fit(lazy, da.from_array(y, chunks=40))
    assert not hasattr(model, "model_")
    model.fit(X, y)
    for method in (model.predict, model.predict_interval, model.select, model.explain):
        with pytest.raises(ValueError, match=r"X is a dask collection.*X\.compute\(\)"):
            method(lazy)


def test_a_dask_target_without_an_engine_is_refused() -> None:
    da = pytest.importorskip("dask.array")
    X, y = days(100)
    with pytest.raises(ValueError, match=r"y is a dask collection.*compute"):
        DistributedGPRegressor(kernel="rbf", optimizer=None).fit(X, da.from_array(y, chunks=40))


def test_a_dask_frame_without_an_engine_is_refused() -> None:
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    X, y = days(100)
    frame = dd.from_pandas(pd.DataFrame({"day": X[:, 0]}), npartitions=3)
    with pytest.raises(ValueError, match="X is a dask"):
        DistributedGPRegressor(kernel="rbf", optimizer=None).fit(frame, y)

"""Predictions are finite for any finite input, however far away, and for data of any size."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import gpexperts
from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import AGGREGATORS
from gpexperts.exceptions import ConstantTargetWarning
from gpexperts.kernels.named import NAMED_KERNELS
from gpexperts.selection import SELECTORS, KNNSelector
from tests.problems import fixed_model, random_problem


def data(scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(48, 2))
    return scale * X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=48)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
@pytest.mark.parametrize("kernel", NAMED_KERNELS)
def test_a_query_whose_distance_overflows_gets_the_prior(kernel: str, scale: float) -> None:
    """Distances of ∞ must neither give an index outside of 0…M − 1 nor ∞ · 0 = NaN in Matérn kernels."""
    X, y = data(scale)
    settings = {"n_selected": 3, "n_neighbors": 8, "kernel": kernel, "optimizer": None, "random_state": 0}
    model = DistributedGPRegressor(n_experts=4, **settings).fit(X, y)
    far = np.array([[q, -q] for q in (1e80, 1e160, 1e200, 1.7e308) if q > 1e6 * scale] + [[0.0, 1.7e308]])
    prior = float(np.sqrt(model.model_.covariance.prior_variance(far[:1])[0]) * model.model_.y_scale.scale[0])
    for selection in SELECTORS:
        model.set_params(selection=selection, n_selected="auto" if selection == "all" else 3)
        mean, std = model.predict(far, return_std=True, latent=True)
        np.testing.assert_array_equal(mean, model.model_.y_scale.shift[0])
        np.testing.assert_allclose(mean, y.mean(), rtol=1e-8)
        np.testing.assert_allclose(std, prior, rtol=1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "minkowski", "kernel"])
@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_nearest_experts_do_not_depend_on_units(metric: str, scale: float) -> None:
    """Without standardisation, powers of distances of 1e150 overflowed and those of 1e-150 vanished."""
    X, y = data()
    settings = {
        "n_experts": 5,
        "n_selected": 3,
        "kernel": "rbf",
        "optimizer": None,
        "selection": KNNSelector(metric),
        "standardize": False,
    }
    chosen = [
        DistributedGPRegressor(**settings, partition="balanced", random_state=0).fit(s * X, y).select(s * X)
        for s in (1.0, scale)
    ]
    np.testing.assert_array_equal(chosen[0], chosen[1])


@pytest.mark.parametrize("p", [1, 15, np.inf])
def test_every_power_of_a_large_distance_finds_the_nearest(p: float, tmp_path: Path) -> None:
    """From p = 16 on, powers of 1e20 overflow: now refused. A model with p = ∞ could not be saved."""
    X, y = data()
    selection = KNNSelector("minkowski", p)
    model = DistributedGPRegressor(n_experts=4, n_selected=2, optimizer=None, selection=selection).fit(X, y)
    queries = 10.0 ** np.arange(-20, 300, 20)[:, None] * [1.0, -1.0]
    chosen = model.select(queries)
    assert len(np.unique(chosen[:, 0])) > 1
    model.save(tmp_path / "model.gpx")
    np.testing.assert_array_equal(gpexperts.load(tmp_path / "model.gpx").select(queries), chosen)


@pytest.mark.parametrize("rule", AGGREGATORS)
@pytest.mark.parametrize("a", [1e-140, 1e140])
def test_aggregation_does_not_depend_on_the_units_of_the_target(rule: str, a: float) -> None:
    """NPAE compared squares of explained variances, which overflow from targets of 1e77 on."""
    p = random_problem(3)
    plain = fixed_model(p, aggregation=rule).predict(p.X_new, return_std=True, latent=True)
    kernel = p.kernel.clone_with_theta(p.kernel.theta + np.array([2, 0, 0, 2]) * np.log(a))
    scaled = fixed_model(p._replace(y=a * p.y), aggregation=rule, kernel=kernel)
    for one, other in zip(plain, scaled.predict(p.X_new, return_std=True, latent=True), strict=True):
        np.testing.assert_allclose(other / a, one, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("size", "what"), [(1e200, "X"), (1e200, "y"), (1e-200, "y")])
def test_without_standardisation_sizes_that_cannot_be_squared_are_refused(size: float, what: str) -> None:
    """Targets of 1e-200 ended in the advice to add a WhiteKernel."""
    X, y = data()
    model = DistributedGPRegressor(kernel="rbf", standardize=False)
    with pytest.raises(ValueError, match=rf"standardize=False, but {what} has values of size .*e[+-]"):
        model.fit(size * X, y) if what == "X" else model.fit(X, size * y)


def test_inputs_far_from_zero_keep_their_digits_without_standardisation() -> None:
    """Inputs were divided by the length scale before they were centred, which cost eight digits at 1e8."""
    p = random_problem(1)
    moved = p._replace(X=np.round(p.X, 4) + 2.0**27, X_new=np.round(p.X_new, 4) + 2.0**27)
    near = p._replace(X=moved.X - 2.0**27, X_new=moved.X_new - 2.0**27)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for one, other in zip(
            fixed_model(near).predict(near.X_new, return_std=True),
            fixed_model(moved).predict(moved.X_new, return_std=True),
            strict=True,
        ):
            np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("value", [1e-300, -1e-150, 1e-20, 1e150])
def test_the_std_of_a_constant_target_is_its_rounding(value: float) -> None:
    X, _ = data()
    with pytest.warns(ConstantTargetWarning):
        model = DistributedGPRegressor(kernel="rbf").fit(X, np.full(len(X), value))
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, value)
    assert (std > 0).all()
    assert (std < 1e-7 * abs(value)).all()

"""Leave-one-out against models that have never seen the row, and intervals from its residuals."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import gpexperts
from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import NPAE
from gpexperts.exceptions import RefitRequiredError
from gpexperts.prepare import experts_view
from tests.joint.models import SETUPS, data, fixed

X, Y, _ = data(120)
CORRECTED = NPAE(disagreement=2.0, scale=1.2, local_noise=0.7, floor=0.1)
BRUTE: list[dict[str, Any]] = [
    *({"setup": setup} for setup in SETUPS),
    *({"setup": setup, "aggregation": CORRECTED} for setup in SETUPS),
    {"setup": "experts", "aggregation": "gpoe"},
    {"setup": "experts", "aggregation": "rbcm"},
    {"setup": "both", "selection": "knn"},
    {
        "setup": "experts",
        "partition": np.arange(120) % 40,
        "n_experts": 40,
        "selection": "all",
        "n_selected": 40,
    },
]


def brute_force(model: DistributedGPRegressor, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of a row, in the units of the experts, by experts that were built without it."""
    predictor = model.predictor_
    experts = predictor.model.experts
    position = int(np.flatnonzero(experts.numbers == row)[0])
    rest = experts.without(np.array([position]))
    selector = predictor.selector
    if selector.uses_rows:
        selector = clone(selector).fit(experts_view(predictor.model, predictor.settings, rest))
    query = experts.X[[position]]
    index = np.empty((1, 0), dtype=int)
    if predictor.tuning.n_selected:
        index = selector.select(query, predictor.tuning.n_selected)
    moments = rest.gather(query, index, predictor.formula.request, predictor.settings.engine)
    prediction = predictor.formula.aggregator.combine(moments)
    return prediction.mean[0], predictor.formula.variance(prediction, latent=False)[0]


@pytest.mark.parametrize("given", BRUTE, ids=lambda g: "-".join(str(v)[:12] for v in g.values()))
def test_loo_is_that_of_models_without_the_row(given: dict[str, Any]) -> None:
    outputs = np.column_stack([Y, Y**2])
    model = fixed(X, outputs, **given)
    loo = model.loo()
    np.testing.assert_array_equal(loo.row, np.arange(len(X)))
    for row in range(0, len(X), 7):
        mean, var = brute_force(model, row)
        np.testing.assert_allclose(loo.mean[row], mean, atol=1e-8)
        np.testing.assert_allclose(loo.std[row], np.sqrt(var), rtol=1e-8)
    np.testing.assert_allclose(loo.residual, outputs - loo.mean, atol=1e-12)
    np.testing.assert_allclose(loo.standardized_residual, loo.residual / loo.std)
    density = -0.5 * np.log(2 * np.pi * loo.std**2) - 0.5 * (loo.residual / loo.std) ** 2
    np.testing.assert_allclose(loo.log_density, density)


def test_exact_gp_by_scikit_learn_in_the_users_units() -> None:
    y = 100 + 20 * Y
    kernel = 400.0 * RBF(0.5) + WhiteKernel(30.0)
    model = DistributedGPRegressor(
        n_experts=1, kernel=kernel, optimizer=None, standardize=False, aggregation=NPAE(disagreement=None)
    ).fit(X, y)
    loo = model.loo()
    for row in (0, 17, 99):
        rest = np.delete(np.arange(len(X)), row)
        gp = GaussianProcessRegressor(kernel, alpha=1e-300, optimizer=None).fit(X[rest], y[rest])
        mean, std = gp.predict(X[[row]], return_std=True)
        assert loo.mean[row] == pytest.approx(mean[0], rel=1e-8)
        assert loo.std[row] == pytest.approx(std[0], rel=1e-8)


@pytest.mark.parametrize("setup", SETUPS)
def test_batches_and_threads_do_not_matter(setup: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = fixed(X, Y, setup, aggregation=CORRECTED).loo()
    monkeypatch.setattr("gpexperts.leave_one_out.batch_size", lambda *_: 11)
    monkeypatch.setattr("gpexperts.experts.leave_one_out._ENTRIES", 60)
    other = fixed(X, Y, setup, aggregation=CORRECTED, n_jobs=2).loo()
    for one, two in zip(expected, other, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-9, atol=1e-10)


def test_equal_rows() -> None:
    """More equal rows than neighbours: the row itself may not be among those that are found."""
    repeated = np.repeat(X[:4], 30, axis=0)
    y = np.arange(120.0) % 7
    loo = fixed(repeated, y, "own", n_neighbors=8).loo()
    for row in (0, 29, 64):
        mean, _ = brute_force(fixed(repeated, y, "own", n_neighbors=8), row)
        assert loo.mean[row] == pytest.approx(mean[0], abs=1e-8)


def test_held_out_rows_are_predicted_as_they_are() -> None:
    model = fixed(X, Y, "own", calibrate="conformal")
    loo = model.loo()
    np.testing.assert_array_equal(loo.row, np.arange(len(X)))
    held = model.labels_ == -2
    assert held.sum() == 30
    mean, std = model.predict(X[held], return_std=True)
    np.testing.assert_allclose(loo.mean[held], mean, atol=1e-12)
    np.testing.assert_allclose(loo.std[held], std)
    np.testing.assert_allclose(loo.residual, Y - loo.mean, atol=1e-12)


def test_jackknife_takes_widths_from_all_rows_and_holds_none_out(tmp_path) -> None:
    model = fixed(X, Y, "both", calibrate="jackknife")
    assert (model.labels_ >= 0).all()
    z = np.sort(np.abs(model.loo().standardized_residual))
    assert model.interval_width(0.8, [1.0]) == pytest.approx(np.quantile(z, 0.8, method="weibull"))
    assert "120 training rows" in model.choices_["calibrate"].reason
    lower, upper = model.predict_interval(X[:3], 0.8)
    mean, std = model.predict(X[:3], return_std=True)
    np.testing.assert_allclose(upper - mean, model.interval_width(0.8, std) * std)
    np.testing.assert_allclose(mean - lower, model.interval_width(0.8, std) * std)
    model.save(tmp_path / "model.gpx")
    for other in (gpexperts.load(tmp_path / "model.gpx"), pickle.loads(pickle.dumps(model))):
        assert other.interval_width(0.8, [1.0]) == model.interval_width(0.8, [1.0])


def test_jackknife_needs_no_new_fit() -> None:
    model = fixed(X, Y, "own")
    model.set_params(calibrate="jackknife")
    other = fixed(X, Y, "own", calibrate="jackknife")
    assert model.interval_width(0.8, [1.0]) == other.interval_width(0.8, [1.0])
    model.set_params(calibrate="conformal")
    with pytest.raises(RefitRequiredError, match="calibrate"):
        model.predict_interval(X)


def test_jackknife_covers() -> None:
    """The model has half the noise of the data; intervals of new rows hold 90 % nevertheless."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(size=(2400, 1))
    y = np.sin(6 * rows[:, 0]) + 0.2 * rng.normal(size=2400)
    model = DistributedGPRegressor(
        kernel=1.0 * RBF(0.2) + WhiteKernel(0.01), optimizer=None, n_experts=3, n_neighbors=24, n_selected=0,
        aggregation=NPAE(disagreement=None), calibrate="jackknife", random_state=0, n_jobs=1,
    ).fit(rows[:400], y[:400])  # fmt: skip
    lower, upper = model.predict_interval(rows[400:], 0.9)
    assert np.mean((y[400:] >= lower) & (y[400:] <= upper)) == pytest.approx(0.9, abs=0.03)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="loo is not available for aggregation='grbcm'"):
        fixed(X, Y, "experts", aggregation="grbcm").loo()
    with pytest.raises(ValueError, match="calibrate='jackknife' is not available for aggregation='grbcm'"):
        fixed(X, Y, "experts", aggregation="grbcm", calibrate="jackknife")

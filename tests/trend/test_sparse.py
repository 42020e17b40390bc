"""The sparse GP: against a dense formula, in its exact limit, and as the trend of an estimator."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from gpexperts import DistributedGPRegressor, fit_trend, load
from gpexperts.exceptions import TrendError
from gpexperts.kernels.named import covariance_of
from gpexperts.row_noise import noise_table, plain
from gpexperts.scaling import Standardizer
from gpexperts.trend.sparse import InducingPoints, SparseGP, SparseSums

KERNEL = ConstantKernel(1.5) * RBF([0.4, 0.7]) + WhiteKernel(0.2)
SIGNAL, NOISE = KERNEL.k1, 0.2
UNITS = (
    Standardizer(np.array([0.5, -1.0]), np.array([2.0, 3.0])),
    Standardizer(np.array([7.0]), np.array([4.0])),
)
rng = np.random.default_rng(0)
X, Z, NEW = rng.uniform(-1, 1, (60, 2)), rng.uniform(-1, 1, (9, 2)), rng.uniform(-1.5, 1.5, (11, 2))
Y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.4 * rng.standard_normal(60)


def fitted(Z: np.ndarray, rows: slice = slice(None), noise: np.ndarray | None = None) -> SparseGP:
    sums = SparseSums(InducingPoints(covariance_of(KERNEL), Z), 1)
    sums.add(0, X[rows], Y[rows], plain(len(X[rows])) if noise is None else noise)
    return sums.posterior(*UNITS)


def of_user(points: np.ndarray) -> np.ndarray:
    return UNITS[0].restore(points)


def fitc(weight: np.ndarray, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance at NEW, written out: a GP with covariance Q + diag(K − Q + noise)."""
    inverse = np.linalg.inv(SIGNAL(Z) + 1e-12 * np.eye(len(Z)))
    Q, Q_new = SIGNAL(X, Z) @ inverse @ SIGNAL(Z, X), SIGNAL(NEW, Z) @ inverse @ SIGNAL(Z, X)
    C = Q + np.diag(np.diag(SIGNAL(X) - Q) + (NOISE + given**2) / weight)
    return Q_new @ np.linalg.solve(C, Y), SIGNAL(NEW) - Q_new @ np.linalg.solve(C, Q_new.T)


def test_moments_are_those_of_the_dense_formula() -> None:
    weight, given = rng.uniform(0.5, 3.0, len(X)), rng.uniform(0.0, 0.5, len(X))
    mean, covariance = fitc(weight, given)
    ours = fitted(Z, noise=noise_table(weight, given)).moments(of_user(NEW))
    np.testing.assert_allclose(ours[0], 4.0 * mean + 7.0, rtol=1e-8)
    np.testing.assert_allclose(ours[1], 16.0 * np.diag(covariance), rtol=1e-7)


def test_an_inducing_point_at_every_row_is_the_exact_gp() -> None:
    exact = GaussianProcessRegressor(KERNEL, optimizer=None).fit(X, Y)
    mean, std = exact.predict(NEW, return_std=True)
    ours = fitted(X).moments(of_user(NEW))
    np.testing.assert_allclose((ours[0] - 7.0) / 4.0, mean, atol=1e-5)
    np.testing.assert_allclose(ours[1] / 16.0, std**2 - NOISE, atol=1e-5)


def test_a_fold_is_left_out_by_its_sums() -> None:
    sums = SparseSums(InducingPoints(covariance_of(KERNEL), Z), 3)
    for f in range(3):
        sums.add(f, X[20 * f : 20 * f + 20], Y[20 * f : 20 * f + 20], plain(20))
    without, alone = sums.posterior(*UNITS, without=0), fitted(Z, slice(20, 60))
    for one, other in zip(without.moments(of_user(NEW)), alone.moments(of_user(NEW)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_gradients_are_those_of_differences() -> None:
    sparse, x, h = fitted(Z), of_user(NEW[0]), 1e-4
    ends = np.concatenate([x + h * np.eye(2), x - h * np.eye(2)])
    gradient, var = sparse.gradient(x)
    mean, _ = sparse.moments(ends)
    np.testing.assert_allclose(gradient, (mean[:2] - mean[2:]) / (2 * h), rtol=1e-6)
    scaled = sparse.inputs(ends)
    v = sparse.points.features(scaled)
    given = sparse.conditioned(v)
    covariance = 16.0 * (SIGNAL(scaled) - v.T @ v + given.T @ given)
    for j in range(2):
        difference = covariance[j, j] + covariance[j + 2, j + 2] - 2 * covariance[j, j + 2]
        assert var[j] == pytest.approx(difference / (2 * h) ** 2, rel=1e-4)


# ------------------------------------------------------------------------------- in an estimator


def smooth(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, noisy targets and the true function."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    truth = 10.0 * np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 50.0
    return X, truth + 3.0 * rng.standard_normal(n), truth


ROWS, TARGETS, _ = smooth(1200)
QUERIES, _, TRUTH = smooth(200, 1)
SETTINGS = {"n_experts": 4, "kernel": "rbf", "noise": "gaussian", "n_neighbors": 64, "random_state": 0}


@pytest.fixture(scope="module", autouse=True)
def _few_inducing_points() -> Iterator[None]:
    """As many as a function of two inputs with long waves needs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_trend, "INDUCING", 100)
        yield


@pytest.fixture(scope="module")
def model() -> DistributedGPRegressor:
    """Tests do not change it."""
    return DistributedGPRegressor(**SETTINGS, n_selected=0, trend="sparse").fit(ROWS, TARGETS)


def test_it_is_nearer_to_the_exact_gp_than_neighbours_are(model: DistributedGPRegressor) -> None:
    exact = DistributedGPRegressor(**SETTINGS | {"n_experts": 1, "n_neighbors": 0}, trend=None)
    exact.fit(ROWS, TARGETS)
    local = DistributedGPRegressor(**SETTINGS, n_selected=0, trend=None).fit(ROWS, TARGETS)
    error, of_exact, of_local = (
        float(np.sqrt(np.mean((m.predict(QUERIES) - TRUTH) ** 2))) for m in (model, exact, local)
    )
    assert error < 1.1 * of_exact < of_local
    _, std = model.predict(QUERIES, return_std=True, latent=True)
    _, expected = exact.predict(QUERIES, return_std=True, latent=True)
    assert np.median(std / expected) == pytest.approx(1.0, abs=0.15)
    _, std = model.predict(QUERIES, return_std=True)
    assert np.median(std) == pytest.approx(3.0, rel=0.1)


def test_far_from_all_rows_it_is_the_prior(model: DistributedGPRegressor) -> None:
    mean, std = model.predict([[1e3, 1e3]], return_std=True)
    signal = model.model_.trend.sparse
    assert signal is not None
    prior = float(
        np.sqrt(signal.points.covariance.prior_variance(np.zeros((1, 2)))[0] * signal.variance_unit)
    )
    assert prior > 4.0
    assert std[0] == pytest.approx(np.sqrt(prior**2 + 9.0), rel=0.1)
    assert mean[0] == pytest.approx(TARGETS.mean(), abs=1.0)


@pytest.mark.parametrize("latent", [False, True])
def test_covariances_sums_and_samples_contain_its_error(model: DistributedGPRegressor, latent: bool) -> None:
    some = QUERIES[:30]
    mean, std = model.predict(some, return_std=True, latent=latent)
    joint_mean, covariance = model.predict(some, return_cov=True, latent=latent)
    np.testing.assert_allclose(joint_mean, mean)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std, rtol=1e-6)
    assert np.linalg.eigvalsh(covariance).min() > -1e-8 * covariance.max()
    weights = np.linspace(-1.0, 2.0, 30)
    total = model.predict_sum(some, weights, latent=latent)
    assert total.mean == pytest.approx(weights @ mean)
    assert total.std == pytest.approx(np.sqrt(weights @ covariance @ weights), rel=1e-6)
    samples = model.sample_y(some, 4000, random_state=0, latent=latent)
    np.testing.assert_allclose(np.cov(samples), covariance, atol=0.12 * covariance.max())


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.predict(QUERIES, return_std=True),
        lambda m: m.predict(QUERIES, return_cov=True),
        lambda m: m.predict_sum(QUERIES),
        lambda m: m.sample_y(QUERIES, 2, random_state=0),
        lambda m: m.explain(QUERIES),
    ],
    ids=["predict", "covariance", "sum", "samples", "explain"],
)
def test_its_features_are_computed_once_for_each_query(
    call: Callable[[DistributedGPRegressor], object],
    model: DistributedGPRegressor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed, features = [], InducingPoints.features

    def counted(points: InducingPoints, X: np.ndarray) -> np.ndarray:
        computed.append(len(X))
        return features(points, X)

    monkeypatch.setattr(InducingPoints, "features", counted)
    call(model)
    assert computed == [len(QUERIES)]


def test_gradient_of_the_estimator(model: DistributedGPRegressor) -> None:
    x, h = QUERIES[:3], 1e-5
    gradient, std = model.predict_gradient(x, return_std=True)
    for j in range(2):
        step = h * np.eye(2)[j]
        difference = (model.predict(x + step) - model.predict(x - step)) / (2 * h)
        np.testing.assert_allclose(gradient[:, j], difference, rtol=1e-4, atol=0.01)
    assert (std > 0).all()


def test_files_and_pickles_keep_it(model: DistributedGPRegressor, tmp_path: Path) -> None:
    expected = model.predict(QUERIES, return_std=True)
    model.save(tmp_path / "model.gpx")
    for other in (load(tmp_path / "model.gpx"), pickle.loads(pickle.dumps(model))):
        for one, two in zip(other.predict(QUERIES, return_std=True), expected, strict=True):
            np.testing.assert_array_equal(one, two)


def test_explanations_and_updates_know_it(model: DistributedGPRegressor) -> None:
    explanation = model.explain(QUERIES[:5])
    np.testing.assert_allclose(explanation.mean, model.predict(QUERIES[:5]))
    assert explanation.trend_role == "mean"
    other = pickle.loads(pickle.dumps(model)).partial_fit(QUERIES, TRUTH, retrain="never")
    assert np.isfinite(other.predict(QUERIES)).all()


def test_two_targets_are_refused() -> None:
    with pytest.raises(TrendError, match="needs one target, got 2"):
        DistributedGPRegressor(**SETTINGS, trend="sparse").fit(ROWS, np.stack([TARGETS, TARGETS], axis=1))


@pytest.mark.parametrize("setting", [{"training": "full"}, {"optimizer": None}])
def test_it_needs_a_kernel_that_is_trained(setting: dict[str, str | None]) -> None:
    with pytest.raises(ValueError, match="use training='auto' and an optimizer"):
        DistributedGPRegressor(**SETTINGS, trend="sparse", **setting).fit(ROWS, TARGETS)


def test_auto_chooses_it_for_a_smooth_function_in_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_trend, "EXACT_ROWS", 500)
    model = DistributedGPRegressor(**SETTINGS, n_selected=0).fit(ROWS, TARGETS)
    assert model.choices_["trend"].value == "sparse as mean"
    assert "better than none" in model.choices_["trend"].reason

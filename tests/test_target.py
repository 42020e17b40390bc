"""Transformed targets: predictions in the units of the target, and the density of the target itself."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import FunctionTransformer, PowerTransformer

from gpexperts import DistributedGPRegressor, inspection, load
from gpexperts.exceptions import UnsavableModelError
from gpexperts.metrics import score
from gpexperts.target import Log, TargetTransform, UserTransform, YeoJohnson, fitted_transform

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (120, 2))
Y = np.exp(1.5 * np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.standard_normal(120))
T = RNG.uniform(-2, 2, (30, 2))
KERNEL = ConstantKernel(2.0) * RBF([0.8, 1.5]) + WhiteKernel(0.04)
FIXED: dict[str, Any] = {"kernel": KERNEL, "optimizer": None, "n_experts": 1, "random_state": 0}

TRANSFORMS = [
    Log(),
    *(YeoJohnson(np.array([power]), np.array([3.0])) for power in (0.0, 0.3, 1.0, 1.6, 2.0)),
    fitted_transform(PowerTransformer(standardize=False), Y[:, None], float(Y.min())),
]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: f"{t.name}-{getattr(t, 'power', '')}")
def test_inverse_and_slope_of_every_transform(transform: TargetTransform) -> None:
    y = np.geomspace(0.05, 20, 40)[:, None]
    if isinstance(transform, YeoJohnson):
        y = np.concatenate([y, -y])
    np.testing.assert_allclose(transform.inverse(transform.forward(y)), y, rtol=1e-7)
    step = 1e-6 * np.abs(y)
    slope = (transform.forward(y + step) - transform.forward(y - step)) / (2 * step)
    np.testing.assert_allclose(transform.log_slope(y), np.log(slope), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("power", [0.0, 0.4, 1.3])
def test_yeo_johnson_is_that_of_scipy(power: float) -> None:
    y = RNG.standard_normal(50)
    ours = YeoJohnson(np.array([power]), np.array([1.0])).forward(y[:, None])[:, 0]
    np.testing.assert_allclose(ours, stats.yeojohnson(y, power), rtol=1e-9)
    skewed = np.exp(RNG.standard_normal(2000))
    found = fitted_transform("yeo-johnson", skewed[:, None], 0.0)
    assert isinstance(found, YeoJohnson)
    expected = np.clip(stats.yeojohnson_normmax(skewed / skewed.std()), 0.0, 2.0)
    assert found.power[0] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("transform", TRANSFORMS[:3], ids=lambda t: f"{t.name}-{getattr(t, 'power', '')}")
def test_moments_and_density_agree_with_integration(transform: TargetTransform) -> None:
    m, s = np.array([[0.4]]), np.array([[0.5]])
    mean, std = transform.moments(m, s)

    def density(y: float) -> float:
        return float(np.exp(transform.log_density(np.array([[y]]), m, s))[0, 0])

    low, high = (float(transform.inverse(m + k * s)[0, 0]) for k in (-9, 9))
    total, first, second = (
        integrate.quad(lambda y, k=k: y**k * density(y), low, high, points=[float(mean[0, 0])], limit=200)[0]
        for k in (0, 1, 2)
    )
    assert total == pytest.approx(1.0, abs=1e-6)
    assert mean[0, 0] == pytest.approx(first, rel=1e-5)
    assert std[0, 0] == pytest.approx(np.sqrt(second - first**2), rel=1e-4)
    if transform.name == "log":
        assert mean[0, 0] == pytest.approx(np.exp(0.4 + 0.125), rel=1e-9)


def test_log_model_is_the_model_of_the_logarithm() -> None:
    ours = DistributedGPRegressor(target_transform="log", **FIXED).fit(X, Y)
    plain = DistributedGPRegressor(**FIXED).fit(X, np.log(Y))
    m, s = plain.predict(T, return_std=True)
    mean, std = ours.predict(T, return_std=True)
    np.testing.assert_allclose(mean, np.exp(m + s**2 / 2), rtol=1e-7)
    np.testing.assert_allclose(std, mean * np.sqrt(np.expm1(s**2)), rtol=1e-6)
    np.testing.assert_allclose(ours.predict(T), mean)
    for one, other in zip(ours.predict_interval(T), plain.predict_interval(T), strict=True):
        np.testing.assert_allclose(one, np.exp(other), rtol=1e-9)
    _, latent = plain.predict(T, return_std=True, latent=True)
    np.testing.assert_allclose(
        ours.predict(T, return_std=True, latent=True)[0], np.exp(m + latent**2 / 2), rtol=1e-7
    )
    np.testing.assert_allclose(np.sort(inspection.training_targets(ours)), np.sort(Y), rtol=1e-9)
    y_new = np.exp(RNG.standard_normal(30))
    more = inspection.scored(ours, T, y_new)
    expected = stats.lognorm.logpdf(y_new, s, scale=np.exp(m))
    np.testing.assert_allclose(more["log_density"], expected, rtol=1e-7)
    scores = score(y_new, mean, std, Y, width=ours.interval_width, **more)
    assert scores.nlpd == pytest.approx(-expected.mean())
    lower, upper = ours.predict_interval(T, level=0.9)
    assert scores.coverage[0.9] == pytest.approx(np.mean((y_new >= lower) & (y_new <= upper)))
    assert inspection.scored(plain, T, y_new) == {}


def test_given_noise_is_that_of_the_target_itself() -> None:
    given = 0.3 * Y
    ours = DistributedGPRegressor(target_transform="log", **FIXED).fit(X, Y, noise_std=given)
    plain = DistributedGPRegressor(**FIXED).fit(X, np.log(Y), noise_std=np.full(120, 0.3))
    np.testing.assert_allclose(ours.predict_interval(T)[0], np.exp(plain.predict_interval(T)[0]), rtol=1e-9)


def test_auto_transforms_a_skewed_target_and_leaves_a_gaussian_one() -> None:
    settings: dict[str, Any] = {"target_transform": "auto", "kernel": "rbf", "n_jobs": 1, "random_state": 0}
    skewed = DistributedGPRegressor(**settings).fit(X, Y)
    assert skewed.choices_["target_transform"].value in ("log", "yeo-johnson")
    plain = DistributedGPRegressor(**settings).fit(X, np.log(Y) + 20)
    assert plain.choices_["target_transform"].value is None
    assert plain.model_.target is None


def test_files_and_pickles(tmp_path: Path) -> None:
    for name in ("log", "yeo-johnson"):
        fitted = DistributedGPRegressor(target_transform=name, calibrate="conformal", **FIXED).fit(X, Y)
        fitted.save(tmp_path / "m.gpx")
        for other in (load(tmp_path / "m.gpx"), pickle.loads(pickle.dumps(fitted))):
            np.testing.assert_array_equal(other.predict(T), fitted.predict(T))
    own = DistributedGPRegressor(target_transform=PowerTransformer(), **FIXED).fit(X, Y)
    assert isinstance(own.model_.target, UserTransform)
    with pytest.raises(UnsavableModelError, match="target_transform"):
        own.save(tmp_path / "m.gpx")
    assert np.isfinite(own.predict(T)).all()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("log", ValueError, "needs positive targets, but the smallest is -"),
        ("sqrt", ValueError, "target_transform"),
        (3, TypeError, "transformer with transform and inverse_transform, got 3"),
        (FunctionTransformer(np.negative, np.negative), ValueError, "must increase with the target"),
        (FunctionTransformer(np.log, np.exp, check_inverse=False), ValueError, "one finite number"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in log")
def test_bad_transforms_are_refused(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        DistributedGPRegressor(target_transform=given, **FIXED).fit(X, Y - 1.0)

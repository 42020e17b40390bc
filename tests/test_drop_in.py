"""The drop-in, with few rows and with more rows than `exact_rows`, against scikit-learn's class."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor as Exact
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from gpexperts import DistributedGPRegressor, GaussianProcessRegressor

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(90, 2))
Y = 5 + np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=90)
X_NEW = RNG.uniform(size=(7, 2))
KERNEL = 1.5 * Matern([0.4, 0.7], nu=2.5)


class Large(GaussianProcessRegressor):
    """Every data set has more rows than this."""

    exact_rows = 0


CASES: dict[str, dict[str, Any]] = {
    "alpha": {"kernel": KERNEL, "alpha": 0.02},
    "alpha per row": {"kernel": KERNEL, "alpha": np.linspace(0.0, 0.1, 90), "normalize_y": True},
    "default kernel": {"alpha": 0.02},
    "no noise": {"kernel": 1.0 * Matern(0.5, nu=0.5)},
    "white": {"kernel": KERNEL + WhiteKernel(0.02), "alpha": 0.0},
    "white and alpha": {"kernel": KERNEL + WhiteKernel(0.02), "alpha": 0.01, "normalize_y": True},
    "sum": {"kernel": KERNEL + DotProduct() + WhiteKernel(0.02)},
}


@pytest.mark.parametrize("y", [Y, Y[:, None], np.column_stack([Y, Y**2])], ids=["flat", "one", "two"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [GaussianProcessRegressor, Large])
def test_the_same_numbers_at_the_same_hyperparameters(size: type, case: str, y: np.ndarray) -> None:
    given = {"optimizer": None, "random_state": 0, **CASES[case]}
    exact, model = Exact(**given).fit(X, y), size(**given).fit(X, y)
    np.testing.assert_allclose(model.predict(X_NEW), exact.predict(X_NEW), rtol=1e-6)
    if size is GaussianProcessRegressor or model.regressor_.model_.covariance.noise_variance == 0.0:
        # Otherwise variances are corrected by held-out rows.
        for option in ("return_std", "return_cov"):
            mean, spread = model.predict(X_NEW, **{option: True})
            expected = exact.predict(X_NEW, **{option: True})
            np.testing.assert_allclose(mean, expected[0], rtol=1e-6)
            np.testing.assert_allclose(spread, expected[1], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(model.kernel_.theta, exact.kernel_.theta)
    assert str(model.kernel_) == str(exact.kernel_)
    assert model.sample_y(X_NEW, 3).shape == exact.sample_y(X_NEW, 3).shape
    np.testing.assert_allclose(model.y_train_, exact.y_train_)


@pytest.mark.parametrize("case", ["white", "white and alpha"])
def test_std_and_covariance_agree(case: str) -> None:
    large = Large(optimizer=None, **CASES[case]).fit(X, Y)
    _, std = large.predict(X_NEW, return_std=True)
    _, cov = large.predict(X_NEW, return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-8)
    assert np.linalg.eigvalsh(cov).min() > 0


def test_training_reaches_the_likelihood_of_scikit_learn() -> None:
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.1)
    exact, large = (c(kernel, normalize_y=True, random_state=0).fit(X, Y) for c in (Exact, Large))
    assert exact.log_marginal_likelihood(large.kernel_.theta) > exact.log_marginal_likelihood_value_ - 0.5
    assert large.log_marginal_likelihood() == large.log_marginal_likelihood_value_


def test_few_rows_are_trained_as_by_scikit_learn_and_predicted_by_one_expert(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"kernel": KERNEL + WhiteKernel(0.02), "random_state": 0, "n_restarts_optimizer": 1}
    exact = Exact(**given).fit(X, Y)
    expected = exact.predict(X_NEW, return_cov=True)
    monkeypatch.delattr(Exact, "predict")
    model = GaussianProcessRegressor(**given).fit(X, Y)
    assert isinstance(model.regressor_, DistributedGPRegressor)
    assert model.regressor_.n_experts_ == 1
    for ours, theirs in zip(model.predict(X_NEW, return_cov=True), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)
    for name in ("L_", "alpha_", "log_marginal_likelihood_value_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(exact, name))


def test_a_model_can_be_fitted_again_to_fewer_rows_and_copied() -> None:
    model = GaussianProcessRegressor(KERNEL, alpha=0.02, optimizer=None)
    model.exact_rows = 50
    assert not hasattr(model.fit(X, Y), "L_")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X_NEW), model.predict(X_NEW))
    assert hasattr(model.fit(X[:50], Y[:50]), "L_")
    np.testing.assert_allclose(
        model.predict(X_NEW), Exact(KERNEL, alpha=0.02, optimizer=None).fit(X[:50], Y[:50]).predict(X_NEW)
    )
    assert clone(model).get_params() == Exact(KERNEL, alpha=0.02, optimizer=None).get_params()


def test_refusals() -> None:
    for given, message in (
        ({"alpha": np.full(3, 0.1)}, r"\(3 != 90\)"),
        ({"optimizer": lambda *_: None}, "optimizer is a function"),
        ({"n_targets": 2}, "n_targets"),
    ):
        with pytest.raises(ValueError, match=message):
            Large(KERNEL, **given).fit(X, Y)
    model = Large(KERNEL, alpha=0.02, optimizer=None).fit(X, Y)
    with pytest.raises(RuntimeError, match="At most one"):
        model.predict(X_NEW, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="matrix of all 90 rows"):
        model.log_marginal_likelihood(model.kernel_.theta)
    with pytest.raises(ValueError, match="Gradient"):
        model.log_marginal_likelihood(eval_gradient=True)

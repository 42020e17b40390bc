"""The drop-in with more rows than `exact_rows`, against scikit-learn's class on the same rows."""

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
    "alpha and normalize_y": {"kernel": KERNEL, "alpha": 0.02, "normalize_y": True},
    "default kernel": {"alpha": 0.02},
    "white": {"kernel": KERNEL + WhiteKernel(0.02)},
    "white and alpha": {"kernel": KERNEL + WhiteKernel(0.02), "alpha": 0.01, "normalize_y": True},
    "sum": {"kernel": KERNEL + DotProduct() + WhiteKernel(0.02)},
}


@pytest.mark.parametrize("y", [Y, np.column_stack([Y, Y**2])], ids=["one", "two"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_numbers_at_the_same_hyperparameters(case: str, y: np.ndarray) -> None:
    given = {"optimizer": None, "random_state": 0, **CASES[case]}
    exact, large = Exact(**given).fit(X, y), Large(**given).fit(X, y)
    assert isinstance(large.regressor_, DistributedGPRegressor)
    np.testing.assert_allclose(large.predict(X_NEW), exact.predict(X_NEW), rtol=1e-6)
    if "white" not in case and case != "sum":  # otherwise variances are corrected by held-out rows
        for option in ("return_std", "return_cov"):
            mean, spread = large.predict(X_NEW, **{option: True})
            expected = exact.predict(X_NEW, **{option: True})
            np.testing.assert_allclose(mean, expected[0], rtol=1e-6)
            np.testing.assert_allclose(spread, expected[1], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(large.kernel_.theta, exact.kernel_.theta)
    assert str(large.kernel_) == str(exact.kernel_)
    assert large.sample_y(X_NEW, 3).shape == exact.sample_y(X_NEW, 3).shape
    np.testing.assert_allclose(large.y_train_, exact.y_train_)


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


def test_few_rows_are_fitted_by_scikit_learn() -> None:
    given = {"kernel": KERNEL + WhiteKernel(0.02), "random_state": 0}
    model, exact = GaussianProcessRegressor(**given).fit(X, Y), Exact(**given).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X_NEW), exact.predict(X_NEW))
    assert not hasattr(model, "regressor_")


def test_a_model_can_be_fitted_again_to_fewer_rows_and_copied() -> None:
    model = GaussianProcessRegressor(KERNEL, alpha=0.02, optimizer=None)
    model.exact_rows = 50
    assert hasattr(model.fit(X, Y), "regressor_")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X_NEW), model.predict(X_NEW))
    assert not hasattr(model.fit(X[:50], Y[:50]), "regressor_")
    np.testing.assert_array_equal(
        model.predict(X_NEW), Exact(KERNEL, alpha=0.02, optimizer=None).fit(X[:50], Y[:50]).predict(X_NEW)
    )
    assert clone(model).get_params() == Exact(KERNEL, alpha=0.02, optimizer=None).get_params()


def test_refusals() -> None:
    for given, message in (
        ({"alpha": np.full(90, 0.1)}, "alpha has one value for each row"),
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

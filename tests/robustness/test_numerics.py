"""Numerically difficult data: predictions are right, with every kernel, aggregator and selector.

Small problems are compared with 60-digit arithmetic (`precise`). Larger ones are trained from start to end
and must give finite means within reason and variances between 0 and the prior.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Kernel, Matern, RationalQuadratic, WhiteKernel

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import AGGREGATORS, NPAE
from gpexperts.exceptions import RepairWarning
from gpexperts.kernels.named import NAMED_KERNELS, covariance_of
from gpexperts.linalg import cholesky
from gpexperts.linalg.cholesky import factorise
from gpexperts.selection import SELECTORS
from gpexperts.training.likelihood import Block, log_marginal_likelihood
from tests.robustness.precise import Precise, predict

COMPOSITE = "composite"
KERNELS = [*NAMED_KERNELS, COMPOSITE]
SIGNAL = 1.5


def kernel_of(name: str, length_scale: Any, noise: float) -> Kernel:
    """A kernel with signal variance `SIGNAL`; 0 is no WhiteKernel at all."""
    smoothness = {"rbf": np.inf, "matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
    if name == COMPOSITE:
        signal = 1.0 * RBF(length_scale) + 0.5 * RationalQuadratic(length_scale, alpha=1.0)
    else:
        signal = SIGNAL * Matern(length_scale, nu=smoothness[name])
    return signal + WhiteKernel(noise, (1e-20, 1e3)) if noise else signal


def truth(X: np.ndarray) -> np.ndarray:
    return np.sin(3.0 * X[:, 0]) + 0.5 * X[:, -1]


# ---------------------------------------------------------------- against sixty digits, θ given


def _rows(kind: str) -> np.ndarray:
    """Twelve inputs on a line."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(12, 1))
    pairs = np.repeat(X[:6], 2, axis=0)
    return {
        "distinct": X,
        "half of them twice": pairs,
        "1e-12 apart": pairs + 1e-12 * np.tile([[0.0], [1.0]], (6, 1)),
        "all the same": np.repeat(X[:1], 12, axis=0),
        "offset 1e8": X + 1e8,
    }[kind]


@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.NoNoiseWarning")  # 12 rows may look noisy
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    ("rows", "length_scale", "noise", "tolerance"),
    [
        ("distinct", 0.5, 1e-2, 1e-12),
        ("distinct", 0.5, 0.0, 1e-9),
        ("half of them twice", 0.5, 0.0, 1e-9),
        ("half of them twice", 0.5, 1e-8, 1e-10),
        ("1e-12 apart", 0.5, 0.0, 1e-9),
        ("1e-12 apart", 0.5, 1e-8, 1e-10),
        ("all the same", 0.5, 1e-2, 1e-12),
        ("offset 1e8", 0.5, 1e-6, 1e-10),
        ("distinct", 1e5, 1e-2, 1e-11),  # where named kernels end: no influence at all …
        # … and every row for itself, where distances from matrix products have lost six digits.
        ("distinct", 1e-3, 1e-2, 1e-8),
        ("distinct", 1e-3, 0.0, 1e-8),
    ],
)
def test_every_aggregator_agrees_with_sixty_digits(
    name: str, rows: str, length_scale: float, noise: float, tolerance: float
) -> None:
    X = _rows(rows)
    y = truth(X - X.mean()) + (0.1 * np.random.default_rng(1).normal(size=len(X)) if noise >= 1e-2 else 0.0)
    # On a training row, beside one, and 1e6 length scales away.
    queries = np.concatenate([X[:1], X[3:4] + 0.02 * length_scale, X[:1] + 1e6 * length_scale])
    exact = Precise(X, y, name, SIGNAL, np.array([length_scale]), noise or 1e-10 * SIGNAL)
    for rule in AGGREGATORS:
        labels = np.arange(12) // 4 if rule != "grbcm" else np.array([-1, 0, 1, 2] * 3)
        model = DistributedGPRegressor(
            partition=labels,
            kernel=kernel_of(name, length_scale, noise),
            optimizer=None,
            training="full",
            standardize=False,
            selection="all",
            n_neighbors=0,
            aggregation=rule,
        ).fit(X, y)
        mean, std = model.predict(queries, return_std=True, latent=True)
        expected = np.array([predict(exact, labels, rule, x) for x in queries])
        np.testing.assert_allclose(mean, expected[:, 0], rtol=0, atol=tolerance, err_msg=rule)
        np.testing.assert_allclose(std**2, expected[:, 1], rtol=0, atol=tolerance, err_msg=rule)
        assert not model.repairs_["experts_with_jitter"]


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
@pytest.mark.parametrize("apart", [0.0, 1e-12, 1e-9])
@pytest.mark.parametrize("noise", [1e-2, 1e-6, 1e-10])
def test_likelihood_of_rows_close_together(nu: float, apart: float, noise: float) -> None:
    """Matérn 1/2 took distances of 1e-8 for those of equal rows: the likelihood was wrong by 20 nats."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.uniform(-1, 1, size=(15, 2)), 2, axis=0)
    X[1::2] += apart * rng.normal(size=(15, 2))
    y = np.sin(3 * X[:, :1])
    kernel = SIGNAL * Matern([0.5, 0.7], nu=nu) + WhiteKernel(noise, (1e-12, 1.0))
    ours = log_marginal_likelihood(covariance_of(kernel), Block(X, y))
    theirs = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(X, y[:, 0])
    value, gradient = theirs.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    tolerance = 1e-14 / noise + 1e-11
    assert ours.jitter == 0
    np.testing.assert_allclose(ours.value, value, rtol=tolerance)
    np.testing.assert_allclose(ours.gradient, gradient, rtol=0, atol=tolerance * np.abs(gradient).max())


# ------------------------------------------------------------------------- from start to end


def _torture() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    n = 60
    X = rng.uniform(-1, 1, size=(n, 2))
    noise = 0.1 * rng.normal(size=n)
    y = truth(X) + noise
    pairs = np.repeat(X[: n // 2], 2, axis=0)
    close = pairs + 1e-12 * rng.normal(size=pairs.shape)
    return {
        "all rows the same": (np.repeat(X[:1], n, axis=0), y),
        "every row twice": (pairs, truth(pairs) + noise),
        "every row twice, no noise": (pairs, truth(pairs)),
        "rows 1e-12 apart": (close, truth(pairs) + noise),
        "rows 1e-12 apart, no noise": (close, truth(close)),
        "inputs of 1e-150": (1e-150 * X, y),
        "inputs of 1e150": (1e150 * X, y),
        "inputs of 1e-150 and 1e150": (X * [1e-150, 1e150], y),
        "targets of 1e-150": (X, 1e-150 * y),
        "targets of 1e150": (X, 1e150 * y),
        "inputs and targets offset by 1e8": (X + 1e8, y + 1e8),
        "no noise": (X, truth(X)),
        "nothing but noise": (X, rng.normal(size=n)),
    }


TORTURE = _torture()
QUICK = ("all rows the same", "rows 1e-12 apart, no noise", "inputs of 1e-150 and 1e150", "targets of 1e150")


def assert_sane(model: DistributedGPRegressor, X: np.ndarray, y: np.ndarray, queries: np.ndarray) -> None:
    """Every rule that the fitted experts can serve, with every selector."""
    rules = [
        name
        for name, rule in AGGREGATORS.items()
        if rule.needs_communication == (model.model_.experts.shared is not None)
    ]
    fitted = model.model_
    prior = fitted.covariance.prior_variance(fitted.x_scale.transform(queries))
    prior = np.sqrt(prior) * fitted.y_scale.scale[0]
    off_by = np.abs(y - y.mean()).max()
    cases = [(selection, rule, 0) for selection in SELECTORS for rule in rules]
    cases += [(selection, "npae", 32) for selection in SELECTORS if "npae" in rules]
    for selection, rule, m in cases:
        M = model.n_experts_
        K = ("auto" if m == 0 else M) if selection == "all" else min(3, M)
        given = NPAE(disagreement=None) if m else rule  # a corrected variance may be less than the latent one
        model.set_params(selection=selection, aggregation=given, n_selected=K, n_neighbors=m)
        mean, std = model.predict(queries, return_std=True, latent=True)
        case = f"{rule}, {selection}, {m} neighbours"
        assert np.isfinite(mean).all(), case
        assert (std > 0).all(), case
        assert (std <= prior * (1 + 1e-9)).all(), case
        assert (np.abs(mean - y.mean()) <= 3.0 * off_by).all(), case
        _, observed = model.predict(queries, return_std=True)
        assert (observed >= std).all(), case
        # A noise of 1e-10 of the signal leaves six digits of sixteen.
        one, one_std = model.predict(queries[:1], return_std=True, latent=True)
        assert one == pytest.approx(mean[:1], abs=1e-6 * off_by), case
        assert one_std == pytest.approx(std[:1], abs=1e-6 * prior[0]), case
        for empty in model.predict(queries[:0], return_std=True):
            assert empty.shape == (0,), case


@pytest.mark.filterwarnings(
    "ignore::gpexperts.exceptions.BoundWarning", "ignore::gpexperts.exceptions.RepairWarning"
)
@pytest.mark.parametrize(
    ("kernel", "case"),
    [
        pytest.param(name, case, marks=[] if name == "matern12" and case in QUICK else pytest.mark.slow)
        for name in KERNELS
        for case in TORTURE
    ],
)
def test_trained_on_torture(kernel: str, case: str) -> None:
    X, y = TORTURE[case]
    size = np.abs(X - X.mean(axis=0)).max(axis=0)
    beside = X[:4] + 0.01 * size
    queries = np.concatenate([X[:4], beside, X[:1] + 1e6 * (size + (size == 0))])
    chosen = kernel_of(COMPOSITE, 1.0, 0.1) if kernel == COMPOSITE else kernel
    for rule in ("npae", "grbcm"):
        model = DistributedGPRegressor(
            n_experts=4, partition="random", kernel=chosen, aggregation=rule, random_state=0
        )
        assert_sane(model.fit(X, y), X, y, queries)


@pytest.mark.parametrize("rule", AGGREGATORS)
def test_one_row_per_expert(rule: str) -> None:
    X, y = TORTURE["no noise"]
    labels = np.arange(20)
    if rule == "grbcm":
        labels = np.where(labels % 4 == 0, -1, labels)
    model = DistributedGPRegressor(
        partition=labels,
        kernel=kernel_of("matern32", 0.7, 1e-4),
        optimizer=None,
        training="full",
        aggregation=rule,
        selection="knn",
        n_selected=3,
        n_neighbors="auto" if rule == "npae" else 0,
    ).fit(X[:20], y[:20])
    assert_sane(model, X[:20], y[:20], X[15:30])


@pytest.mark.parametrize(
    "large", [pytest.param(400, id="400 rows"), pytest.param(5000, id="5000 rows", marks=pytest.mark.slow)]
)
def test_a_large_expert_beside_tiny_ones(large: int) -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, size=(large + 8, 2))
    y = truth(X) + 0.1 * rng.normal(size=len(X))
    labels = np.concatenate([np.zeros(large, dtype=int), 1 + np.arange(8) // 2])
    model = DistributedGPRegressor(
        partition=labels, kernel=kernel_of("matern32", 0.7, 1e-2), optimizer=None, random_state=0
    ).fit(X, y)
    queries = rng.uniform(-1.2, 1.2, size=(30, 2))
    assert_sane(model, X, y, queries)
    mean = model.set_params(selection="all", aggregation="npae", n_selected="auto").predict(queries[:10])
    np.testing.assert_allclose(mean, truth(queries[:10]), atol=0.2)


@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.BoundWarning")
@pytest.mark.parametrize("optimizer", [None, pytest.param("lbfgs", marks=pytest.mark.slow)])
def test_more_inputs_than_rows(optimizer: str | None) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 500))
    y = X[:, 0] + 0.1 * rng.normal(size=50)
    model = DistributedGPRegressor(n_experts=3, kernel="rbf", optimizer=optimizer, random_state=0).fit(X, y)
    assert_sane(model, X, y, np.concatenate([X[:3], 1e6 * X[:3], rng.normal(size=(3, 500))]))


def test_the_defaults_on_torture() -> None:
    """`kernel="auto"` chooses among the four, and predictions are still reasonable."""
    for case in ("rows 1e-12 apart", "inputs of 1e-150 and 1e150", "targets of 1e150"):
        X, y = TORTURE[case]
        mean, std = DistributedGPRegressor(random_state=0).fit(X, y).predict(X, return_std=True)
        assert np.abs(mean - y).max() < 4 * std.max()
        assert std.max() < y.std()


# --------------------------------------------------------------- one place that factorises


def _needs_jitter(n_rows: int = 18) -> tuple[np.ndarray, np.ndarray, Kernel]:
    X = np.repeat(np.linspace(0, 3, n_rows // 2)[:, None], 2, axis=0)
    kernel = 2.0 * RBF(0.9) + WhiteKernel(1e-17, (1e-20, 1.0))
    return X, np.sin(X[:, 0]), kernel


@pytest.mark.parametrize("size", [1e-100, 1.0, 1e100])
def test_jitter_is_relative_to_the_matrix(size: float) -> None:
    X, _, kernel = _needs_jitter()
    C = covariance_of(kernel).noisy_gram(X)
    factor, plain = factorise(size * C), factorise(C.copy())
    assert factor.jitter == plain.jitter > 0
    pivots = [np.diagonal(f.lower) ** 2 for f in (factor, plain)]
    np.testing.assert_allclose(pivots[0] / size, pivots[1], rtol=1e-2)


def test_value_and_gradient_use_the_same_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no less than 1e-6 is tried, differences of the value are the gradient."""
    X, y, kernel = _needs_jitter()
    monkeypatch.setattr(cholesky, "JITTERS", (0.0, 1e-6))
    covariance, block = covariance_of(kernel), Block(X, y[:, None] + 0.1)
    here = log_marginal_likelihood(covariance, block)
    assert here.jitter == 1e-6

    def value(theta: np.ndarray) -> float:
        there = log_marginal_likelihood(covariance.at(theta), block)
        assert there.jitter == 1e-6
        return there.value

    step = 1e-4
    differences = [
        (value(kernel.theta + step * e) - value(kernel.theta - step * e)) / (2 * step) for e in np.eye(3)
    ]
    np.testing.assert_allclose(here.gradient, differences, rtol=1e-4, atol=1e-4)


def test_jitter_is_recorded_for_each_expert_and_reported_once() -> None:
    """Two parts of three hold rows twice, and no noise lets them differ."""
    X, y, kernel = _needs_jitter(36)
    X = np.concatenate([X, 10.0 + 3.0 * np.arange(6)[:, None]])
    y = np.concatenate([y, np.zeros(6)])
    labels = np.repeat([0, 1, 2], [18, 18, 6])
    settings: dict[str, Any] = {
        "partition": labels,
        "kernel": kernel,
        "optimizer": None,
        "standardize": False,
        "selection": "all",
    }
    for training in ("full", "auto"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = DistributedGPRegressor(training=training, **settings).fit(X, y)
            model.predict(X)
            model.predict(X, return_std=True)
        repairs = [w for w in caught if issubclass(w.category, RepairWarning)]
        assert len(repairs) == 1
        assert "needed jitter" in str(repairs[0].message)
        jitter = model.repairs_["experts_with_jitter"]
        assert set(jitter) == {0, 1}
        assert all(value in cholesky.JITTERS for value in jitter.values())


def test_jitter_that_only_an_expert_needs_is_reported_at_its_first_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Training on blocks needs no jitter, an expert with other rows does."""
    X, y, kernel = _needs_jitter()
    # Every sixth row alone: far enough apart.
    monkeypatch.setattr(
        "gpexperts.training.blocks.BlockSampler.draw",
        lambda self, metric, n_blocks, block_size: [Block(X[::6], y[::6, None])],
    )
    model = DistributedGPRegressor(
        partition=np.zeros(18, dtype=int), kernel=kernel, optimizer=None, standardize=False
    )
    model.fit(X, y)  # warnings are errors here
    with pytest.warns(RepairWarning, match=r"1 experts \(up to 1e-"):
        model.predict(X[:2])
    model.predict(X[:2])  # once is enough

"""Weights and given noise: a weight of 2 is the row twice, a weight of 0 the row absent, everywhere."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import make_scorer, r2_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data

from gpexperts import DistributedGPRegressor, fit_kernel, inputs, load, pipeline
from gpexperts.aggregation import NPAE
from gpexperts.calibration import Calibration
from gpexperts.engines.threads import ThreadEngine
from gpexperts.experts.dask import DaskExperts
from gpexperts.kernels.named import covariance_of
from gpexperts.partition import assign, shards
from gpexperts.row_noise import copies, noise_table, plain, total_weight, variance, weights
from gpexperts.training.likelihood import Block, log_marginal_likelihood
from gpexperts.training.predictive import Neighbourhoods, predictive_density
from tests.clusters import in_process_client

RNG = np.random.default_rng(0)
N = 90
X = RNG.uniform(-1, 1, (N, 2))
Y = np.sin(4 * X[:, 0]) + X[:, 1] + 0.2 * RNG.standard_normal(N)
T = RNG.uniform(-1.2, 1.2, (25, 2))
LABELS = RNG.integers(0, 3, N)
WEIGHT = RNG.integers(0, 4, N).astype(float)
KERNEL = ConstantKernel(1.3) * RBF([0.6, 0.9]) + WhiteKernel(0.05)
REPEATED = np.repeat(np.arange(N), WEIGHT.astype(int))


def model(labels: np.ndarray, **given: Any) -> DistributedGPRegressor:
    settings: dict[str, Any] = {"n_selected": 2, "n_neighbors": 0, "n_jobs": 1, **given}
    return DistributedGPRegressor(
        kernel=KERNEL, optimizer=None, standardize=False, partition=labels, random_state=0, **settings
    )


# ------------------------------------------------------------------------------------- the formula


def test_variance_of_rows_is_learned_plus_given_noise_by_weight() -> None:
    noise = noise_table(np.array([1.0, 2.0, 0.5]), np.array([0.0, 1.0, 3.0]))
    np.testing.assert_allclose(variance(noise, 0.3), [0.3, 0.65, 18.6])
    assert variance(plain(3), 0.3) == 0.3
    np.testing.assert_array_equal(weights(plain(3)), 1.0)
    assert (total_weight(noise, 3), total_weight(None, 3), total_weight(plain(3), 3)) == (3.5, 3.0, 3.0)


@pytest.mark.parametrize("white", [0.05, 0.4])
def test_likelihood_of_a_weighted_block_is_that_of_its_copies(white: float) -> None:
    covariance = covariance_of(ConstantKernel(1.3) * RBF([0.6, 0.9]) + WhiteKernel(white))
    kept = WEIGHT > 0
    noise = noise_table(WEIGHT[kept], np.zeros(kept.sum()))
    weighted = log_marginal_likelihood(covariance, Block(X[kept], Y[kept, None], noise))
    twice = log_marginal_likelihood(covariance, Block(X[REPEATED], Y[REPEATED, None]))
    assert weighted.value == pytest.approx(twice.value, rel=1e-9)
    np.testing.assert_allclose(weighted.gradient, twice.gradient, rtol=1e-7, atol=1e-9)


def test_copies_with_given_noise_are_those_of_the_dense_likelihood() -> None:
    covariance = covariance_of(KERNEL)
    given = RNG.uniform(0.05, 0.5, N)
    kept = WEIGHT > 0
    weighted = noise_table(WEIGHT[kept], given[kept])
    one = log_marginal_likelihood(covariance, Block(X[kept], Y[kept, None], weighted))
    repeated = noise_table(np.ones(len(REPEATED)), given[REPEATED])
    other = log_marginal_likelihood(covariance, Block(X[REPEATED], Y[REPEATED, None], repeated))
    assert one.value == pytest.approx(other.value, rel=1e-9)
    np.testing.assert_allclose(one.gradient, other.gradient, rtol=1e-6, atol=1e-8)
    assert copies(None, 0.3) == copies(plain(4), 0.3) == (0.0, 0.0)


def test_gradients_of_weighted_rows_match_differences() -> None:
    covariance = covariance_of(KERNEL)
    noise = noise_table(RNG.uniform(0.3, 3, 40), RNG.uniform(0.05, 0.5, 40))
    block = Block(X[:40], np.stack([Y[:40], X[:40, 0]], axis=1), noise)
    near = Neighbourhoods(*(np.stack([a[k : k + 12] for k in range(0, 24, 6)]) for a in block))

    def values(theta: np.ndarray) -> np.ndarray:
        here = covariance.at(theta)
        density = predictive_density(here, near, ThreadEngine(1), predicted=3)  # type: ignore[arg-type]
        return np.array([log_marginal_likelihood(here, block).value, density.log_density])

    theta, step = covariance.kernel.theta, 1e-5
    slopes = [(values(theta + step * e) - values(theta - step * e)) / (2 * step) for e in np.eye(len(theta))]
    exact = log_marginal_likelihood(covariance, block).gradient
    density = predictive_density(covariance, near, ThreadEngine(1), predicted=3)  # type: ignore[arg-type]
    np.testing.assert_allclose(np.stack([exact, density.gradient], axis=1), slopes, rtol=1e-5, atol=1e-6)


def test_density_of_weighted_rows_is_the_dense_conditional() -> None:
    noise = noise_table(RNG.uniform(0.3, 3, 12), RNG.uniform(0.05, 0.5, 12))
    near = Neighbourhoods(X[None, :12], Y[None, :12, None], noise[None])
    found = predictive_density(covariance_of(KERNEL), near, ThreadEngine(1))  # type: ignore[arg-type]
    C = (ConstantKernel(1.3) * RBF([0.6, 0.9]))(X[:12]) + np.diag((0.05 + noise[:, 1]) / noise[:, 0])
    w = np.linalg.solve(C[:11, :11], C[:11, 11])
    mean, var = w @ Y[:11], C[11, 11] - w @ C[:11, 11]
    expected = -0.5 * np.log(2 * np.pi * var) - 0.5 * (Y[11] - mean) ** 2 / var
    assert found.log_density == pytest.approx(expected, rel=1e-9)


# ---------------------------------------------------------------------------------- the whole model


@pytest.mark.parametrize(
    "given",
    [
        *({"aggregation": rule} for rule in ("poe", "gpoe", "bcm", "rbcm", "npae")),
        # Corrections of the variance are chosen on rows that are drawn: copies would be other draws.
        {"aggregation": NPAE(disagreement=None), "n_selected": 3, "n_neighbors": 1000},
        {"aggregation": NPAE(disagreement=None), "n_selected": 0, "n_neighbors": 1000},
        {"aggregation": "grbcm"},
    ],
    ids=str,
)
def test_weight_2_is_the_row_twice_and_weight_0_the_row_absent(given: dict[str, Any]) -> None:
    labels = LABELS.copy()
    if given["aggregation"] == "grbcm":
        labels[:20] = -1
    weighted = model(labels, **given).fit(X, Y, sample_weight=WEIGHT)
    twice = model(labels[REPEATED], **given).fit(X[REPEATED], Y[REPEATED])
    both = (m.predict(T, return_std=True) for m in (weighted, twice))
    for one, other in zip(*both, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(weighted.labels_ == -3, WEIGHT == 0)
    np.testing.assert_array_equal(weighted.labels_[WEIGHT > 0], labels[WEIGHT > 0])


def test_given_noise_is_scikit_learns_alpha() -> None:
    given = RNG.uniform(0.1, 0.8, N)
    exact = GaussianProcessRegressor(KERNEL, alpha=given**2, optimizer=None).fit(X, Y)
    ours = model(np.zeros(N, dtype=int), n_selected=1).fit(X, Y, noise_std=given)
    mean, std = exact.predict(T, return_std=True)
    for one, other in zip(ours.predict(T, return_std=True), (mean, std), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


def test_given_noise_is_in_the_units_of_the_target() -> None:
    given = RNG.uniform(0.1, 0.8, N)
    kernel = "rbf"
    one = DistributedGPRegressor(kernel=kernel, n_experts=1, random_state=0).fit(X, Y, noise_std=given)
    hundred = DistributedGPRegressor(kernel=kernel, n_experts=1, random_state=0).fit(
        X, 1024.0 * Y, noise_std=1024.0 * given
    )
    np.testing.assert_allclose(hundred.predict(T), 1024.0 * one.predict(T), rtol=1e-6)


def test_explained_rows_are_numbered_as_the_user_numbers_them() -> None:
    own = model(LABELS, n_selected=0, n_neighbors=5).fit(X, Y, sample_weight=WEIGHT).explain(T).own
    assert own is not None
    np.testing.assert_array_equal(own.inputs, X[own.rows])
    assert (WEIGHT[own.rows] > 0).all()


@pytest.mark.parametrize("weight", [3.0, 1e-3])
def test_only_ratios_of_weights_matter_if_the_noise_is_learned(weight: float) -> None:
    settings: dict[str, Any] = {"kernel": "rbf", "n_experts": 1, "random_state": 0}
    relative = np.repeat([0.5, 1.5], N // 2)
    one, other = (
        DistributedGPRegressor(**settings).fit(X, Y, sample_weight=w) for w in (relative, weight * relative)
    )
    for a, b in zip(one.predict(T, return_std=True), other.predict(T, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_weighted_training_downweights_rows() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(-3, 3, (200, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)
    bad = rng.random(200) < 0.2
    y[bad] += rng.choice([-4.0, 4.0], bad.sum())
    t = np.linspace(-2.8, 2.8, 50)[:, None]
    fits = [
        DistributedGPRegressor(kernel="rbf", random_state=0).fit(X, y, sample_weight=w)
        for w in (None, np.where(bad, 1e-3, 1.0))
    ]
    errors = [np.sqrt(np.mean((m.predict(t) - np.sin(t[:, 0])) ** 2)) for m in fits]
    assert errors[1] < 0.05 < 0.3 < errors[0]


# ------------------------------------------------------------------------------ scikit-learn's ways


def test_metadata_routing_passes_weights_on() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = model(np.zeros(60, dtype=int), n_selected=1).set_fit_request(
            sample_weight=True, noise_std=True
        )
        weight = np.r_[np.ones(N - 5), np.zeros(5)]
        scaler = StandardScaler(with_mean=False, with_std=False).set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, estimator)
        params = {"sample_weight": weight, "noise_std": np.full(N, 0.1)}
        scorer = make_scorer(r2_score).set_score_request(sample_weight=False)
        scores = cross_val_score(pipeline, X, Y, params=params, cv=3, scoring=scorer, error_score="raise")
    by_hand = []
    for k in range(3):
        test = np.arange(30 * k, 30 * (k + 1))
        train = np.delete(np.arange(N), test)
        fitted = model(np.zeros(60, dtype=int), n_selected=1).fit(
            X[train], Y[train], sample_weight=weight[train], noise_std=np.full(60, 0.1)
        )
        by_hand.append(fitted.score(X[test], Y[test]))
    np.testing.assert_allclose(scores, by_hand, rtol=1e-9)


def test_scikit_learn_s_check_of_weights_at_fixed_hyperparameters_and_parts() -> None:
    kernel = 1.0 * RBF(3.0) + WhiteKernel(0.1)
    estimator = DistributedGPRegressor(kernel=kernel, optimizer=None, random_state=0)
    check_sample_weight_equivalence_on_dense_data("DistributedGPRegressor", estimator)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"sample_weight": np.r_[-1.0, np.ones(N - 1)]},
            "must not be negative, got -1 in row 0",
        ),
        (
            {"sample_weight": np.r_[1.0, np.nan, np.ones(N - 2)]},
            "must be finite, got nan in row 1",
        ),
        ({"sample_weight": np.zeros(N)}, "sample_weight is 0 for every row"),
        ({"sample_weight": np.ones(N - 1)}, rf"sample_weight.shape == \({N - 1},\), expected \({N},\)"),
        ({"sample_weight": np.ones((N, 2))}, "sample_weight must be 1D"),
        ({"sample_weight": ["heavy"] * N}, "sample_weight must be one number per row: .*'heavy'"),
        ({"noise_std": np.r_[np.ones(N - 1), 0.0]}, f"noise_std must be positive, got 0 in row {N - 1}"),
        ({"noise_std": np.full(N, -2.0)}, "noise_std must be positive, got -2"),
        ({"noise_std": np.full(N, np.inf)}, "noise_std must be finite"),
    ],
)
def test_bad_weights_and_noise_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(LABELS).fit(X, Y, **given)


def test_given_noise_of_several_outputs_needs_one_unit() -> None:
    both, noise = np.stack([Y, -Y], axis=1), np.full(N, 0.5)
    with pytest.raises(ValueError, match="units of one target, but y has 2"):
        model(LABELS).set_params(standardize=True).fit(X, both, noise_std=noise)
    mean = model(LABELS).fit(X, both, noise_std=noise).predict(X[:5])
    one = model(LABELS).fit(X, Y, noise_std=noise).predict(X[:5])
    np.testing.assert_allclose(mean, np.stack([one, -one], axis=1), rtol=1e-10)


# -------------------------------------------------------------------------------------- calibration


@pytest.mark.parametrize("n", [20, 300])
def test_quantiles_of_weighted_scores_are_those_of_their_copies(n: int) -> None:
    """300 rows of weight 2 make several groups by std, which no row belongs to in part."""
    scores = RNG.uniform(size=(n, 2))
    weight = np.full(n, 2.0) if n == 300 else RNG.integers(1, 5, n).astype(float)
    std = np.exp(RNG.normal(size=(n, 2)))
    repeated = np.repeat(np.arange(len(scores)), weight.astype(int))
    one = Calibration.of(scores, std, weight)
    other = Calibration.of(scores[repeated], std[repeated])
    for level in (0.01, 0.3, 0.77, 0.9, 0.95):
        widths, of_copies = one.widths(level), other.widths(level)
        assert len(widths.values[0]) == (5 if n == 300 else 1)
        np.testing.assert_allclose(widths(std), of_copies(std), rtol=1e-12)
        np.testing.assert_allclose(one.quantile(level), other.quantile(level), rtol=1e-12)
        np.testing.assert_allclose(one.quantile(level, widths), other.quantile(level, widths), rtol=1e-12)
    np.testing.assert_allclose(one.variance_scale, other.variance_scale)


# --------------------------------------------------------------------------------------------- Dask


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    with in_process_client() as client:
        yield client


@pytest.mark.parametrize(("rule", "place"), [("npae", "arrays"), ("grbcm", "frames")])
def test_weights_on_a_cluster_are_those_of_arrays(
    client: distributed.Client, monkeypatch: pytest.MonkeyPatch, place: str, rule: str
) -> None:
    for module in (pipeline, fit_kernel, inputs, assign):
        monkeypatch.setattr(module, "SAMPLE_ROWS", 60)
    monkeypatch.setattr(shards, "SHARD_ROWS", 40)
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (160, 2))
    y, weight, given = np.sin(4 * X[:, 0]), rng.integers(0, 3, 160).astype(float), rng.uniform(0.1, 0.5, 160)
    settings: dict[str, Any] = {
        "kernel": KERNEL,
        "optimizer": None,
        "n_experts": 5,
        "aggregation": rule,
        "n_selected": 2,
        "n_neighbors": 12 if rule == "npae" else 0,
        "random_state": 0,
    }
    here = DistributedGPRegressor(**settings).fit(X, y, sample_weight=weight, noise_std=given)
    columns: list[Any] = [X, y, weight, given]
    if place == "arrays":
        columns = [da.from_array(c, chunks=(50, *c.shape[1:])) for c in columns[:3]] + [given]
    else:
        table = dd.from_pandas(
            pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y, "w": weight, "s": given}), npartitions=3
        )
        columns = [table[["a", "b"]], table["y"], table["w"], table["s"]]
    there = DistributedGPRegressor(engine=client, **settings).fit(
        *columns[:2], sample_weight=columns[2], noise_std=columns[3]
    )
    assert isinstance(there.model_.experts, DaskExperts)
    queries = T if place == "arrays" else pd.DataFrame(T, columns=["a", "b"])
    both = here.predict(T, return_std=True), there.predict(queries, return_std=True)
    for one, other in zip(*both, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)
    local = there.to_local()
    np.testing.assert_allclose(local.predict(queries), both[0][0], rtol=1e-8)


def test_bad_weights_of_a_partition_are_refused(client: distributed.Client) -> None:
    collections = [da.from_array(c, chunks=(50, *c.shape[1:])) for c in (X, Y)]
    estimator = DistributedGPRegressor(kernel=KERNEL, optimizer=None, engine=client)
    with pytest.raises(ValueError, match=r"sample_weight \(partition 1\) must not be negative"):
        estimator.fit(*collections, sample_weight=np.r_[np.ones(60), -np.ones(N - 60)])
    with pytest.raises(ValueError, match="sample_weight is 0 for every row"):
        estimator.fit(*collections, sample_weight=np.zeros(N))
    with pytest.raises(ValueError, match="X has 90 rows and sample_weight has 89"):
        estimator.fit(*collections, sample_weight=np.ones(N - 1))


# -------------------------------------------------------------------------------------------- files


def test_weights_are_saved(tmp_path: Path) -> None:
    for given in ({"sample_weight": WEIGHT}, {"sample_weight": WEIGHT, "noise_std": np.full(N, 0.2)}):
        fitted = model(LABELS, n_selected=2, n_neighbors=20, calibrate="conformal").fit(X, Y, **given)
        fitted.save(tmp_path / "m.gpx")
        restored = load(tmp_path / "m.gpx")
        intervals = (m.predict_interval(T, level=0.8) for m in (fitted, restored))
        for one, other in zip(*intervals, strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(fitted.labels_, restored.labels_)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(T), fitted.predict(T))

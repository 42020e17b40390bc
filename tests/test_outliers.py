"""Outliers and Student-t noise."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import distributed
import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from gpexperts import DistributedGPRegressor, fit_kernel, inputs, load, pipeline
from gpexperts.experts.dask import DaskExperts
from gpexperts.experts.local import LocalExperts
from gpexperts.kernels.named import covariance_of
from gpexperts.outliers import gross_share, guess_outliers
from gpexperts.partition import assign, shards
from gpexperts.row_noise import (
    noise_table,
    observation_variance,
    precisions,
    student_precision,
    variance,
    weights,
)
from gpexperts.rows.arrays import ArrayRows
from tests.clusters import in_process_client

RNG = np.random.default_rng(0)
N = 160
X = RNG.uniform(-2, 2, (N, 2))
F = np.sin(2 * X[:, 0]) + X[:, 1]
CLEAN = F + 0.1 * RNG.standard_normal(N)
WRONG = RNG.permutation(N)[:8]
Y = CLEAN.copy()
Y[WRONG] += RNG.choice([-1.0, 1.0], 8) * RNG.uniform(8, 20, 8)
T = RNG.uniform(-2, 2, (300, 2))
TARGETS = np.sin(2 * T[:, 0]) + T[:, 1] + 0.1 * RNG.standard_normal(300)
KERNEL = ConstantKernel(1.5) * RBF([0.9, 2.0]) + WhiteKernel(0.01)
FIXED: dict[str, Any] = {"kernel": KERNEL, "optimizer": None, "random_state": 0, "n_jobs": 1}


def test_precision_of_a_residual() -> None:
    table = student_precision(np.empty((3, 0)), np.array([0.0, 35.9, 100.0]), 4.0)
    np.testing.assert_allclose(precisions(table)[0], [1.0, 1.0, (5 / 104) ** 2])
    np.testing.assert_allclose(weights(table), [1.0, 1.0, (5 / 104) ** 2])
    np.testing.assert_allclose(variance(table, 0.2), [0.2, 0.2, 0.2 * (104 / 5) ** 2])
    np.testing.assert_allclose(observation_variance(table, 0.2), 0.2)
    again = student_precision(table, np.ones(3), 4.0)
    np.testing.assert_allclose(precisions(again), 1.0)


def test_first_guess_marks_gross_outliers_only() -> None:
    rows = ArrayRows(X, Y[:, None], noise_table(np.full(N, 2.0), np.zeros(N)))
    guess = guess_outliers(rows, np.random.RandomState(0))
    marked = rows.mapped(guess)
    precision, share = precisions(marked.noise)
    assert set(np.flatnonzero(precision < 0.3)) == set(WRONG.tolist())
    np.testing.assert_array_equal(np.delete(share, WRONG), 1.0)
    np.testing.assert_array_equal(marked.noise[:, 0], 1.0)  # weights relative to their mean
    clean = ArrayRows(X, CLEAN[:, None])
    np.testing.assert_array_equal(
        precisions(clean.mapped(guess_outliers(clean, np.random.RandomState(0))).noise), 1.0
    )


def test_gross_share_separates_wrong_targets_from_heavy_tails_and_jumps() -> None:
    rng = np.random.default_rng(3)
    inputs = rng.uniform(-2, 2, (1500, 2))
    smooth = np.sin(2 * inputs[:, 0]) + inputs[:, 1] + 0.1 * rng.standard_normal(1500)
    wrong = smooth.copy()
    wrong[:8] += 15 * smooth.std()
    heavy = smooth + 0.5 * rng.standard_t(3, 1500)
    jumps = np.where(inputs[:, 0] > 1.6, 50.0, 0.0) + 0.1 * rng.standard_normal(1500)
    shares = [
        gross_share(ArrayRows(inputs, y[:, None]), np.random.RandomState(0))
        for y in (wrong, smooth, heavy, jumps, np.zeros(1500))
    ]
    assert shares[0] > 3.0
    assert max(shares[1:]) < 0.5


def test_one_round_of_weights_is_the_formula_of_dense_leave_one_out() -> None:
    experts = LocalExperts(
        X[:40], Y[:40, None], np.array([0, 40]), covariance_of(KERNEL), factor_budget=10**9
    )
    table = experts.robust(4.0, 1).noise
    C = (ConstantKernel(1.5) * RBF([0.9, 2.0]))(X[:40])
    expected = []
    for i in range(40):
        rest = np.delete(np.arange(40), i)
        q = np.linalg.solve(C[np.ix_(rest, rest)] + 0.01 * np.eye(39), C[rest, i])
        r, v = Y[i] - q @ Y[rest], C[i, i] - q @ C[rest, i]
        z2 = r**2 / (v + 0.01)
        expected.append(1.0 if z2 <= 36 else (5.0 / (4.0 + z2)) ** 2)
    assert min(expected) < 0.1
    np.testing.assert_allclose(precisions(table)[0], expected, rtol=1e-6)
    twice = experts.robust(4.0, 1).robust(4.0, 1).noise
    np.testing.assert_allclose(experts.robust(4.0, 2).noise, twice)


def fitted(noise: str, y: np.ndarray) -> DistributedGPRegressor:
    return DistributedGPRegressor(noise=noise, kernel="rbf", n_jobs=1, random_state=0).fit(X, y)


def error(model: DistributedGPRegressor) -> float:
    return float(np.sqrt(np.mean((model.predict(T) - TARGETS) ** 2)))


def test_outliers_do_not_spoil_a_fit_with_student_noise() -> None:
    without, robust = fitted("gaussian", CLEAN), fitted("auto", Y)
    assert robust.choices_["noise"].value == "student"
    assert error(robust) < 1.1 * error(without)
    assert error(fitted("gaussian", Y)) > 3 * error(without)
    for level in (0.5, 0.95):
        lower, upper = robust.predict_interval(T, level)
        assert abs(np.mean((lower <= TARGETS) & (upper >= TARGETS)) - level) < 0.07
    found = np.flatnonzero(precisions(robust.model_.experts.noise)[0] < 0.2)
    assert set(robust.model_.experts.numbers[found]) == set(WRONG.tolist())


def test_auto_keeps_gaussian_noise_without_outliers() -> None:
    same, plain = fitted("auto", CLEAN), fitted("gaussian", CLEAN)
    assert same.choices_["noise"].value == "gaussian"
    assert "gross outliers are 0 of" in same.choices_["noise"].reason
    given = DistributedGPRegressor(noise="auto", **FIXED).fit(X, Y)
    assert "hyperparameters are given" in given.choices_["noise"].reason
    np.testing.assert_array_equal(same.predict(T), plain.predict(T))
    assert error(fitted("student", CLEAN)) < 1.02 * error(plain)


def test_conformal_intervals_cover_all_targets_also_outliers() -> None:
    """A tenth of the targets is wrong: intervals of ordinary observations cover about 86 %."""
    covered = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        inputs = rng.uniform(-2, 2, (1400, 2))
        y = np.sin(2 * inputs[:, 0]) + inputs[:, 1] + 0.1 * rng.standard_normal(1400)
        wrong = rng.permutation(1400)[:140]
        y[wrong] += rng.choice([-1.0, 1.0], 140) * rng.uniform(8, 20, 140)
        model = DistributedGPRegressor(noise="student", calibrate="conformal", n_neighbors=16, **FIXED)
        lower, upper = model.fit(inputs[:400], y[:400]).predict_interval(inputs[400:], 0.95)
        covered.append(np.mean((lower <= y[400:]) & (y[400:] <= upper)))
        assert model.predict(inputs[400:], return_std=True)[1].mean() < 0.3
    # 100 rows are held out: of one fit, the share varies by 0.022.
    assert np.mean(covered) > 0.93


@pytest.mark.parametrize("rule", ["npae", "grbcm"])
def test_files_calibration_and_trend(tmp_path: Path, rule: str) -> None:
    model = DistributedGPRegressor(
        noise="student",
        calibrate="scale",
        trend="linear",
        trend_role="mean",
        n_experts=2,
        aggregation=rule,
        **FIXED,
    ).fit(X, Y)
    _, std = model.predict(T, return_std=True)
    assert std.mean() < 0.3
    model.save(tmp_path / "m.gpx")
    for other in (load(tmp_path / "m.gpx"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(T), model.predict(T))


def test_bad_noise_is_refused() -> None:
    with pytest.raises(ValueError, match="noise"):
        DistributedGPRegressor(noise="cauchy", **FIXED).fit(X, Y)


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    with in_process_client() as client:
        yield client


@pytest.mark.parametrize("rule", ["npae", "grbcm"])
def test_a_cluster_weights_rows_as_arrays_do(
    client: distributed.Client, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    for module in (pipeline, fit_kernel, inputs, assign):
        monkeypatch.setattr(module, "SAMPLE_ROWS", 60)
    monkeypatch.setattr(shards, "SHARD_ROWS", 40)
    settings = {
        **FIXED,
        "n_experts": 4,
        "n_selected": 2,
        "n_neighbors": 0,
        "aggregation": rule,
        "noise": "student",
    }
    here = DistributedGPRegressor(**settings).fit(X, Y)
    collections = da.from_array(X, chunks=(70, 2)), da.from_array(Y, chunks=70)
    there = DistributedGPRegressor(engine=client, **settings).fit(*collections)
    assert isinstance(there.model_.experts, DaskExperts)
    np.testing.assert_allclose(here.predict(T), there.predict(T), rtol=1e-7)
    np.testing.assert_allclose(there.to_local().predict(T), there.predict(T), rtol=1e-10)

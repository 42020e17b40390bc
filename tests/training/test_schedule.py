"""Training in stages: the kernel of the data is chosen, θ is near the truth, and noise is found."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern, WhiteKernel

from gpexperts.engines import ThreadEngine
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.named import AUTOMATIC_KERNELS
from gpexperts.kernels.raw import candidate_covariances
from gpexperts.rows.arrays import ArrayRows
from gpexperts.scaling import Standardizer
from gpexperts.training import schedule
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.corrected import predicted_from_neighbours
from gpexperts.training.schedule import Evidence, StagedTraining, train_in_stages


def draw_from(kernel, n: int, d: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.7, 1.7, size=(n, d))
    f = np.linalg.cholesky(kernel(X) + 1e-9 * np.eye(n)) @ rng.standard_normal(n)
    return X, (f + np.sqrt(noise) * rng.standard_normal(n))[:, None]


def sampler_of(X: np.ndarray, y: np.ndarray) -> BlockSampler:
    source = ArrayRows(X, y)
    sample = source.sample(len(X), np.random.RandomState(1))
    return BlockSampler(source, sample, np.arange(y.shape[1]), np.random.RandomState(0))


def candidates_of(sampler: BlockSampler, kernel) -> dict[str, Covariance]:
    identity = Standardizer.identity(len(sampler.spread))
    return candidate_covariances(kernel, sampler.spread, sampler.y_spread, identity)


def train(X: np.ndarray, y: np.ndarray, kernel="auto", **settings) -> StagedTraining:
    sampler = sampler_of(X, y)
    return train_in_stages(candidates_of(sampler, kernel), sampler, ThreadEngine(1), **settings)


@pytest.mark.parametrize(
    ("truth", "name"),
    [(RBF(0.5), "rbf"), (Matern(0.5, nu=1.5), "matern32"), (Matern(0.5, nu=0.5), "matern12")],
)
def test_the_kernel_is_chosen_by_the_data(truth, name: str) -> None:
    X, y = draw_from(truth, 700, 1, noise=1e-3, seed=3)
    trained = train(X, y)
    assert trained.choice == name
    assert set(trained.evidence["first"]) == set(AUTOMATIC_KERNELS)
    assert trained.choice in trained.evidence["last"]


def test_theta_is_near_the_truth() -> None:
    X, y = draw_from(RBF(0.5), 900, 2, noise=0.05, seed=0)
    trained = train(X, y, "rbf").covariance
    np.testing.assert_allclose(trained.metric(np.ones(2)), 0.5, rtol=0.25)
    assert trained.noise_variance == pytest.approx(0.05, rel=0.25)


@pytest.mark.parametrize("n", [schedule.EXACT, pytest.param(4000, marks=pytest.mark.slow)])
def test_fine_structure_is_found_under_noise(n: int) -> None:
    """From long length scales alone, training ends where the wave is noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.7, 1.7, size=(n, 3))
    y = 0.7 * np.sin(18 * X[:, 0]) + rng.standard_normal(n)
    trained = train(X, y[:, None], "matern32").covariance
    assert trained.metric(np.ones(3))[0] < 0.2
    assert trained.noise_variance == pytest.approx(1.0, rel=0.1)


def test_noise_is_found_even_if_the_first_stage_finds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = draw_from(RBF(0.5), 600, 2, noise=0.1, seed=0)
    corner = ConstantKernel(1.0) * RBF([0.05, 0.05]) + WhiteKernel(1e-9, (1e-10, 1e2))
    original = schedule._Stages.train

    def mistrained(self, covariance, blocks, **settings):
        if "n_restarts" in settings:  # the first stage
            return original(self, covariance.with_kernel(corner), blocks, max_steps=0)
        return original(self, covariance, blocks, **settings)

    monkeypatch.setattr(schedule._Stages, "train", mistrained)
    assert train(X, y, "rbf").covariance.noise_variance == pytest.approx(0.1, rel=0.3)


def test_the_noise_is_trained_on_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "FINAL_BLOCKS", (2, 50))
    monkeypatch.setattr(schedule, "EXACT", 0)
    X, y = draw_from(RBF(1.0), 800, 1, noise=0.2, seed=5)
    trained = train(X, y, "rbf")
    assert trained.covariance.noise_variance == pytest.approx(0.2, rel=0.15)
    np.testing.assert_allclose(trained.trace[-1].theta, trained.covariance.kernel.theta)


def test_untrainable_kernels_are_only_evaluated() -> None:
    X, y = draw_from(RBF(0.5), 100, 1, noise=0.1, seed=0)
    kernel = ConstantKernel(2.0) * RBF(0.7) + WhiteKernel(0.3)
    trained = train(X, y, kernel, trainable=False)
    np.testing.assert_array_equal(trained.covariance.kernel.theta, kernel.theta)
    assert len(trained.trace) == 1


def test_a_kernel_without_length_scales_is_trained_too() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(150, 1))
    y = np.sin(2 * np.pi * X) + 0.1 * rng.standard_normal((150, 1))
    kernel = 1.0 * ExpSineSquared(1.0, 1.05, periodicity_bounds=(0.8, 1.3)) + WhiteKernel(0.1)
    trained = train(X, y, kernel).covariance
    assert trained.kernel.get_params()["k1__k2__periodicity"] == pytest.approx(1.0, abs=0.02)


def test_the_score_is_the_mean_of_likelihood_and_error() -> None:
    assert Evidence(1.0, 0.5).score < Evidence(0.98, 0.4).score < Evidence(1.0, 0.4).score
    assert Evidence(0.3, np.exp(-1.0)).score == pytest.approx(0.5 * (0.3 + 0.5))
    assert np.isfinite(Evidence(5.0, 0.0).score)


def test_the_steps_of_all_stages_are_numbered() -> None:
    X, y = draw_from(RBF(0.5), 300, 1, noise=0.1, seed=0)
    trace = train(X, y, "rbf").trace
    assert [row.step for row in trace] == list(range(len(trace)))
    seconds = [row.seconds for row in trace]
    assert seconds == sorted(seconds)


def test_equal_rows_with_equal_targets_do_not_let_the_noise_vanish() -> None:
    X, y = draw_from(Matern([0.3, 0.3], nu=0.5), 1800, 2, 1e-4, 0)
    twins = np.arange(200)
    X, y = np.concatenate([X, X[twins]]), np.concatenate([y, y[twins]])
    y[-4:] += 3.0  # of 200 equal rows, four have another target
    sampler = sampler_of(X, y)
    kernel = candidates_of(sampler, "matern12")["matern12"]
    vanished, right = (kernel.at(np.log([1.0, 0.3, 0.3, noise])) for noise in (1e-9, 0.05))
    stages = schedule._Stages(sampler, ThreadEngine(1), None, lambda message: None)
    assert 1e-3 < stages.settled(vanished).noise_variance < 0.1
    assert stages.settled(right).noise_variance == pytest.approx(0.05, rel=0.3)
    # The few that show it must not be hidden by a bound of standardised errors.
    rows = sampler.fresh_neighbourhoods(np.ones(2), 2000, 48)
    bounded = [
        predicted_from_neighbours(c, rows, ThreadEngine(1)).log_density().sum() for c in (vanished, right)
    ]
    assert bounded[0] > bounded[1]


@pytest.mark.parametrize("prefers_start", [True, False])
def test_further_training_on_all_rows_is_kept_if_it_predicts_better(monkeypatch, prefers_start: bool) -> None:
    X, y = draw_from(Matern([0.3, 0.3], nu=1.5), 200, 2, 0.1, 0)
    sampler = sampler_of(X, y)
    start = candidates_of(sampler, "matern32")["matern32"].at(np.log([1.0, 0.5, 0.5, 0.05]))
    theta = start.kernel.theta

    def evidence(covariance: Covariance, block: object) -> Evidence:
        is_start = np.array_equal(covariance.kernel.theta, theta)
        return Evidence(float(is_start == prefers_start), 1.0)

    monkeypatch.setattr(schedule, "corrected_evidence", evidence)
    end = schedule.train_further("matern32", start, sampler, ThreadEngine(1)).covariance
    assert np.array_equal(end.kernel.theta, theta) == prefers_start

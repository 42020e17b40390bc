"""Other starts are found, and lead where the usual start does not."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel

from gpexperts.engines import ThreadEngine
from gpexperts.kernels.named import covariance_of
from gpexperts.kernels.raw import candidate_covariances
from gpexperts.rows.arrays import ArrayRows
from gpexperts.scaling import Standardizer
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.nearest import Stage, evidence_of_fresh_rows, trained_on_neighbours
from gpexperts.training.polish import polish
from gpexperts.training.predictive import predictive_density
from gpexperts.training.starts import (
    OTHER_STARTS,
    starts_by_groups,
    starts_with_little_noise,
    starts_without_an_input,
)

ENGINE = ThreadEngine(1)


def grouped(n: int = 3000, levels: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Each of many machines has a function of its own; numbers of machines that are near tell nothing."""
    rng = np.random.default_rng(0)
    machine = rng.integers(levels, size=n)
    x, phase = rng.uniform(size=n), rng.uniform(0, 6, size=levels)
    X = np.stack([machine / levels, x], axis=1)
    return X, (np.sin(3 * x + phase[machine]) + 0.5 * rng.standard_normal(n))[:, None]


def sampler_of(X: np.ndarray, y: np.ndarray, sample_rows: int | None = None) -> BlockSampler:
    source = ArrayRows(X, y)
    sample = source.sample(sample_rows or len(X), np.random.RandomState(1))
    return BlockSampler(source, sample, np.arange(y.shape[1]), np.random.RandomState(0))


@pytest.mark.parametrize("sample_rows", [None, 1500])
def test_the_length_scale_of_the_group_is_below_its_steps(sample_rows: int | None) -> None:
    X, y = grouped()
    sampler = sampler_of(X, y, sample_rows)
    candidates = candidate_covariances("auto", sampler.spread, sampler.y_spread, Standardizer.identity(2))
    usual = candidates["matern12"]
    (found,) = starts_by_groups(usual, usual, sampler, ENGINE)
    group, within = found.metric(np.ones(2))
    assert group < 1 / 60
    assert within > 0.1


def test_a_group_is_found_beside_a_category() -> None:
    X, y = grouped(1500, levels=30)
    X, index = np.hstack([X, np.eye(3)[np.arange(1500) % 3]]), np.array([0, 1, 2, 2, 2])
    source = ArrayRows(X, y)
    sample, rng = source.take(np.arange(1500)), np.random.RandomState(0)
    sampler = BlockSampler(source, sample, np.arange(1), rng, index)
    units = Standardizer.identity(5)
    candidates = candidate_covariances("auto", sampler.spread, sampler.y_spread, units, index)
    usual = candidates["matern12"]
    (found,) = starts_by_groups(usual, usual, sampler, ENGINE)
    assert found.metric(np.ones(5))[0] < 1 / 30
    # Without an input: a category is left out as a whole.
    short = usual.at(np.log([1.0, 0.5, 0.5, 0.01, 0.1]))
    without = starts_without_an_input(short, short, sampler, ENGINE)
    assert without[0].metric(np.ones(5)).argmax() == 2
    np.testing.assert_array_equal(np.ptp(without[0].metric(np.ones(5))[2:]), 0.0)


def test_one_gross_target_does_not_decide_between_kernels() -> None:
    X, y = grouped()
    sampler = sampler_of(X, y)
    drawn = sampler.fresh_neighbourhoods(np.ones(2), 300, 32)
    row = np.flatnonzero((drawn.X[7, -1] == X).all(axis=1))
    y[row] += 1000.0
    candidates = candidate_covariances("auto", sampler.spread, sampler.y_spread, Standardizer.identity(2))
    # The wrong kernel only has more noise, and would be better by far if the gross target counted in full.
    right, wrong = (candidates["matern12"].at(np.log([0.5, 0.001, 1.0, noise])) for noise in (0.25, 4.0))
    sampler = sampler_of(X, y)
    score = [evidence_of_fresh_rows(kernel, sampler, ENGINE, 300, 32).score for kernel in (right, wrong)]
    full = [
        predictive_density(kernel, sampler.fresh_neighbourhoods(np.ones(2), 300, 32), ENGINE).log_density
        for kernel in (right, wrong)
    ]
    assert full[1] > full[0]
    assert score[0] > score[1]


@pytest.mark.parametrize("worthwhile", [-1.0, 10.0])
def test_polishing_keeps_what_predicts_fresh_rows_best(
    monkeypatch: pytest.MonkeyPatch, worthwhile: float
) -> None:
    for stage in ("FIRST", "SECOND"):
        monkeypatch.setattr(f"gpexperts.training.polish.{stage}", Stage(300, 16, 6))
    for checked in ("CHECKED", "CHECKED_IN_NOISE"):
        monkeypatch.setattr(f"gpexperts.training.polish.{checked}", (300, 32))
    monkeypatch.setattr("gpexperts.training.polish.WORTHWHILE", worthwhile)
    X, y = grouped()
    sampler = sampler_of(X, y)
    candidates = candidate_covariances("auto", sampler.spread, sampler.y_spread, Standardizer.identity(2))
    smooth = candidates["matern32"].at(np.log([1.0, 0.5, 0.5, 0.5]))
    polished = polish({"matern32": smooth}, candidates, sampler, ENGINE, report=lambda message: None)
    assert polished is not None
    score = {how: evidence.score for how, evidence in polished.evidence.items()}
    best = max(OTHER_STARTS, key=lambda origin: score[origin])
    assert min(score[best], score["by groups of inputs"]) > score["matern32"] + 0.2
    assert polished.name == list(candidates)[-1]
    assert f"started {best}" in polished.reason
    fresh = evidence_of_fresh_rows(polished.covariance, sampler, ENGINE, 300, 32)
    further = score["neighbours"] >= score[best] + worthwhile
    assert fresh.score == pytest.approx(score["neighbours" if further else best])
    assert further == (worthwhile < 0.0)


def test_the_kernel_that_predicts_fresh_rows_best_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for stage in ("FIRST", "SECOND"):
        monkeypatch.setattr(f"gpexperts.training.polish.{stage}", Stage(300, 16, 2))
    monkeypatch.setattr("gpexperts.training.polish.CHECKED", (300, 32))
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1600, 2))
    sampler = sampler_of(X, np.sin(6 * X).sum(axis=1, keepdims=True) + 0.01 * rng.standard_normal((1600, 1)))
    candidates = candidate_covariances("auto", sampler.spread, sampler.y_spread, Standardizer.identity(2))
    ends = {name: candidates[name].at(np.log([1.0, 0.5, 0.5, 1e-4])) for name in ("matern12", "rbf")}
    polished = polish(ends, candidates, sampler, ENGINE, report=lambda message: None)
    assert polished is not None
    assert polished.name == "rbf"
    assert polished.evidence["rbf"].score > polished.evidence["matern12"].score


def test_composite_kernels_are_not_trained_on_neighbours() -> None:
    kernel = 1.0 * RBF([1.0, 1.0]) + 1.0 * RBF([0.1, 0.1]) + WhiteKernel(0.1)
    given = {"given": covariance_of(kernel)}
    sampler = sampler_of(*grouped())
    assert polish(given, given, sampler, ENGINE, report=lambda message: None) is None


@pytest.mark.parametrize(
    "kernel",
    [
        1.0 * Matern([1.0, 1.0], "fixed", nu=0.5) + WhiteKernel(0.1),
        1.0 * Matern(1.0, nu=0.5) + WhiteKernel(0.1),
    ],
)
def test_fixed_or_common_length_scales_have_no_such_start(kernel) -> None:
    usual, sampler = covariance_of(kernel), sampler_of(*grouped())
    for starts_of in (starts_by_groups, starts_without_an_input):
        assert starts_of(usual, usual, sampler, ENGINE) == []


def test_inputs_without_repeated_values_have_no_such_start() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(500, 2))
    kernel = 1.0 * Matern([1.0, 1.0], nu=0.5) + WhiteKernel(0.1)
    usual = covariance_of(kernel)
    assert starts_by_groups(usual, usual, sampler_of(X, X[:, :1]), ENGINE) == []


def test_a_start_without_the_input_that_keeps_equals_apart_predicts_better() -> None:
    rng = np.random.default_rng(0)
    day, x = rng.integers(100, size=3000), rng.uniform(size=3000)
    X = np.stack([day / 100, x], axis=1)
    y = np.sin(40 * x[:, None]) + 0.3 * rng.standard_normal((3000, 1))
    sampler = sampler_of(X, y)
    kernel = covariance_of(1.0 * Matern([1.0, 1.0], (1e-4, 1e4), nu=0.5) + WhiteKernel(0.1))
    trained = kernel.at(np.log([1.0, 0.001, 1.0, 0.9]))  # each day for itself, and the rest is noise
    found = starts_without_an_input(kernel, trained, sampler, ENGINE)
    assert [each.metric(np.ones(2)).argmax() for each in found] == [0, 1]  # the shortest first
    ends = [
        trained_on_neighbours(each, sampler, ENGINE, (Stage(300, 32, 8),)) for each in (trained, found[0])
    ]
    assert ends[1].metric(np.ones(2))[0] > 1.0
    scores = [evidence_of_fresh_rows(each, sampler, ENGINE, 500, 32).score for each in ends]
    assert scores[1] > scores[0] + 0.3


def test_the_start_with_little_noise() -> None:
    sampler = sampler_of(*grouped())
    kernel = covariance_of(1.0 * Matern([1.0, 1.0], nu=0.5) + WhiteKernel(0.1))
    (found,) = starts_with_little_noise(kernel, kernel, sampler, ENGINE)
    assert found.noise_variance == pytest.approx(0.05 * sampler.variance)
    assert found.signal_variance == pytest.approx(2.0 * sampler.variance)
    np.testing.assert_allclose(found.metric(np.ones(2)), 1.0)

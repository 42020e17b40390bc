"""Joint training: the sum of likelihoods, its trace, restarts, bounds and fixed hyperparameters."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel

from gpexperts.engines import ThreadEngine
from gpexperts.exceptions import BoundWarning, RepairWarning
from gpexperts.kernels.named import covariance_of, named_kernel
from gpexperts.training.likelihood import Block, maximise_likelihood, warn_of_bounds, warn_of_jitter
from tests.problems import Problem, random_problem

SERIAL = ThreadEngine(1)


def blocks_of(p: Problem) -> list[Block]:
    return [Block(p.X[p.labels == i], p.y[p.labels == i, None]) for i in range(p.n_experts)]


def trained(p: Problem, kernel: Kernel) -> Kernel:
    return maximise_likelihood(covariance_of(kernel), blocks_of(p), SERIAL).covariance.kernel


def sum_of_likelihoods(p: Problem, kernel: Kernel) -> float:
    """Σ_i log p(y_i | X_i, θ), by scikit-learn."""
    return sum(
        GaussianProcessRegressor(kernel, alpha=1e-300, optimizer=None)
        .fit(b.X, b.y[:, 0])
        .log_marginal_likelihood_value_
        for b in blocks_of(p)
    )


def test_the_objective_is_the_sum_of_scikit_learn_s_likelihoods(problem: Problem) -> None:
    start = maximise_likelihood(covariance_of(problem.kernel), blocks_of(problem), SERIAL, max_steps=0)
    expected = sum_of_likelihoods(problem, problem.kernel)
    np.testing.assert_allclose(start.trace[0].log_marginal_likelihood, expected, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_training_increases_the_likelihood_to_a_stationary_point(seed: int) -> None:
    p = random_problem(seed)
    start = 1.0 * RBF([1.0, 1.0]) + WhiteKernel(0.3)
    training = maximise_likelihood(covariance_of(start), blocks_of(p), SERIAL)
    values = [row.log_marginal_likelihood for row in training.trace]
    assert [row.step for row in training.trace] == list(range(len(values)))
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(values))
    np.testing.assert_array_equal(training.trace[0].theta, start.theta)
    np.testing.assert_allclose(training.covariance.kernel.theta, training.trace[-1].theta)
    np.testing.assert_allclose(values[-1], sum_of_likelihoods(p, training.covariance.kernel), rtol=1e-9)
    low, high = start.bounds.T
    free = (training.trace[-1].theta > low + 1e-6) & (training.trace[-1].theta < high - 1e-6)
    if free.all():
        assert training.trace[-1].gradient_norm < 1e-2 * training.trace[0].gradient_norm
    assert values[-1] > sum_of_likelihoods(p, p.kernel) - 1.0  # at least as likely as the truth


def test_restarts_do_not_lower_the_likelihood_and_are_reproducible(problem: Problem) -> None:
    start = covariance_of(1e-3 * RBF([30.0, 30.0]) + WhiteKernel(5.0))
    blocks = blocks_of(problem)
    plain = maximise_likelihood(start, blocks, SERIAL)
    again = [
        maximise_likelihood(start, blocks, SERIAL, n_restarts=2, random_state=np.random.RandomState(1))
        for _ in range(2)
    ]
    assert again[0].trace[-1].log_marginal_likelihood >= plain.trace[-1].log_marginal_likelihood
    np.testing.assert_array_equal(again[0].trace[-1].theta, again[1].trace[-1].theta)


def test_several_outputs_add_up(problem: Problem) -> None:
    X, y = problem.X, problem.y[:, None]
    covariance = covariance_of(problem.kernel)
    one = maximise_likelihood(covariance, [Block(X, y)], SERIAL, max_steps=0).trace[0]
    two = maximise_likelihood(covariance, [Block(X, np.hstack([y, y]))], SERIAL, max_steps=0).trace[0]
    np.testing.assert_allclose(two.log_marginal_likelihood, 2 * one.log_marginal_likelihood, rtol=1e-12)
    np.testing.assert_allclose(two.gradient_norm, 2 * one.gradient_norm, rtol=1e-9)


@pytest.mark.parametrize("n_restarts", [0, 2])
def test_without_steps_the_kernel_is_unchanged(problem: Problem, n_restarts: int) -> None:
    result = maximise_likelihood(
        covariance_of(problem.kernel), blocks_of(problem), SERIAL, n_restarts=n_restarts, max_steps=0
    )
    np.testing.assert_array_equal(result.covariance.kernel.theta, problem.kernel.theta)
    assert len(result.trace) == 1


def test_held_blocks_give_the_same_result(problem: Problem) -> None:
    engine, blocks = ThreadEngine(2), blocks_of(problem)
    held = engine.hold(blocks, [float(len(b.y)) for b in blocks])
    covariance = covariance_of(1.0 * RBF([1.0, 1.0]) + WhiteKernel(0.3))
    ours, expected = (maximise_likelihood(covariance, b, engine) for b in (held, blocks))
    np.testing.assert_array_equal(ours.trace[-1].theta, expected.trace[-1].theta)


def test_fixed_hyperparameters_and_bounds_are_respected(problem: Problem) -> None:
    given = ConstantKernel(1.3, "fixed") * RBF([0.9, 1.1], (0.5, 2.0)) + WhiteKernel(0.05, (1e-3, 1e-1))
    kernel = trained(problem, given)
    assert kernel.k1.k1.constant_value == 1.3
    assert ((kernel.k1.k2.length_scale >= 0.5) & (kernel.k1.k2.length_scale <= 2.0)).all()
    assert 1e-3 <= kernel.k2.noise_level <= 0.1 * (1 + 1e-9)
    assert given.k2.noise_level == 0.05  # the given object is unchanged


def test_a_start_outside_its_bounds_is_clipped(problem: Problem) -> None:
    kernel = trained(problem, 1.0 * RBF([50.0, 50.0], (0.1, 5.0)) + WhiteKernel(0.05))
    assert (kernel.k1.k2.length_scale <= 5.0 * (1 + 1e-9)).all()


def test_hyperparameters_at_a_bound_are_named(problem: Problem) -> None:
    kernel = trained(problem, 1.0 * RBF([1.0, 1.0], [(0.1, 10.0), (0.01, 0.02)]) + WhiteKernel(0.05))
    with pytest.warns(BoundWarning, match=r"k1__k2__length_scale\[1\] = 0\.02 \(upper bound\)"):
        warn_of_bounds(kernel)
    warn_of_bounds(kernel, named=True)


def test_inside_the_bounds_there_is_no_warning() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_bounds(1.0 * RBF([1.0, 2.0]) + WhiteKernel(0.1))
    assert caught == []


def test_the_warning_of_jitter_has_the_name_of_the_matrices() -> None:
    with pytest.warns(RepairWarning, match="2 of 3 experts needed jitter"):
        warn_of_jitter("2 of 3 experts")


def test_hyperparameters_of_a_known_process_are_found() -> None:
    p = random_problem(11, n=400, n_experts=2)
    kernel = trained(p, named_kernel("rbf", p.X.std(axis=0), float(p.y.std())))
    np.testing.assert_allclose(kernel.k1.k2.length_scale, p.signal.k2.length_scale, rtol=0.3)
    np.testing.assert_allclose(kernel.k2.noise_level, p.noise, rtol=0.3)


def test_progress_is_reported(problem: Problem) -> None:
    seen = []
    training = maximise_likelihood(
        covariance_of(problem.kernel), blocks_of(problem), SERIAL, on_step=seen.append
    )
    assert len(seen) == len(training.trace)
    assert all(b.seconds >= a.seconds for a, b in itertools.pairwise(seen))

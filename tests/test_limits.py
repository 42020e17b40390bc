"""Limits and identities that hold whatever the data: M = 1, K = 1, far away, relabelling, scaling."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from gpexperts.aggregation import AGGREGATORS, GRBCM, NPAE
from tests.problems import Problem, dense_npae, fixed_model, gp, local_gps, random_problem

SEEDS = range(4)
EXACT_FOR_ONE = ["poe", "gpoe", "bcm", "npae"]
RULES = list(AGGREGATORS)


def rule(name: str):
    """The aggregator, without NPAE's nugget: identities hold without it."""
    return NPAE(nugget=0.0) if name == "npae" else name


def latent(model, X):
    return model.predict(X, return_std=True, latent=True)


def assert_close(actual, expected, problem: Problem, rtol: float = 1e-8) -> None:
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=0, atol=rtol * problem.scale)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", EXACT_FOR_ONE)
def test_one_expert_is_the_exact_gp(seed: int, name: str) -> None:
    p = random_problem(seed, n_experts=1)
    exact = gp(p, np.arange(len(p.X)))
    assert_close(latent(fixed_model(p, aggregation=rule(name)), p.X_new), (exact.mean, exact.var**0.5), p)


def test_one_expert_is_not_the_exact_gp_for_rbcm(problem: Problem) -> None:
    p = problem._replace(labels=np.zeros_like(problem.labels))
    exact = gp(p, np.arange(len(p.X)))
    mean, _ = latent(fixed_model(p, aggregation="rbcm"), p.X_new)
    assert np.abs(mean - exact.mean).max() > 1e-3


@pytest.mark.parametrize("seed", SEEDS)
def test_grbcm_with_one_enhanced_expert_is_the_exact_gp(seed: int) -> None:
    p = random_problem(seed)
    labels = np.where(np.arange(len(p.X)) % 3 == 0, -1, 0)
    exact = gp(p, np.arange(len(p.X)))
    model = fixed_model(p, partition=labels, aggregation="grbcm")
    assert_close(latent(model, p.X_new), (exact.mean, exact.var**0.5), p)


@pytest.mark.parametrize("name", EXACT_FOR_ONE)
def test_one_selected_expert_is_kept_as_it_is(problem: Problem, name: str) -> None:
    model = fixed_model(problem, selection="knn", n_selected=1, aggregation=rule(name))
    selected = model.select(problem.X_new)[:, 0]
    experts = local_gps(problem)
    mean = [experts[i].mean[q] for q, i in enumerate(selected)]
    std = [experts[i].var[q] ** 0.5 for q, i in enumerate(selected)]
    assert_close(latent(model, problem.X_new), (mean, std), problem)


@pytest.mark.parametrize("seed", SEEDS)
def test_npae_with_one_row_per_expert_is_the_exact_gp(seed: int) -> None:
    p = random_problem(seed, n=25, n_experts=25)
    exact = gp(p, np.arange(25))
    model = fixed_model(p, aggregation=NPAE(nugget=0.0))
    assert_close(latent(model, p.X_new), (exact.mean, exact.var**0.5), p, rtol=1e-6)


@pytest.mark.parametrize("name", RULES)
def test_far_from_all_data_the_prediction_is_the_prior(problem: Problem, name: str) -> None:
    mean, std = latent(fixed_model(problem, aggregation=rule(name)), np.full((2, 2), 1e3))
    K = problem.n_experts if name == "poe" else 1
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(std, problem.scale / np.sqrt(K), rtol=1e-10)


@pytest.mark.parametrize("name", RULES)
def test_selecting_all_equals_no_selection(problem: Problem, name: str) -> None:
    without = latent(fixed_model(problem, aggregation=rule(name)), problem.X_new)
    for selection in ("knn", "ggm"):
        model = fixed_model(problem, aggregation=rule(name), selection=selection, n_selected=1.0)
        assert_close(latent(model, problem.X_new), without, problem)


@pytest.mark.parametrize("name", RULES)
def test_relabelling_and_permuting_change_nothing(problem: Problem, name: str) -> None:
    p = problem
    rng = np.random.default_rng(5)
    labels = np.where(rng.uniform(size=len(p.X)) < 0.2, -1, p.labels) if name == "grbcm" else p.labels
    settings = {"aggregation": rule(name), "selection": "knn", "n_selected": 3}
    before = latent(fixed_model(p, partition=labels, **settings), p.X_new)
    rename = np.append(rng.permutation(p.n_experts), -1)  # the last entry keeps −1 as it is
    order = rng.permutation(len(p.X))
    moved = p._replace(X=p.X[order], y=p.y[order])
    after = latent(fixed_model(moved, partition=rename[labels][order], **settings), p.X_new)
    assert_close(after, before, p, rtol=1e-9)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("a", [-3.0, 1e-3])
def test_scaling_the_target_scales_the_prediction(problem: Problem, name: str, a: float) -> None:
    p = problem
    s2, scale = p.signal.k1.constant_value, p.signal.k2.length_scale
    mean, std = fixed_model(p, aggregation=name).predict(p.X_new, return_std=True)
    kernel = ConstantKernel(a * a * s2) * RBF(scale) + WhiteKernel(a * a * p.noise)
    scaled = fixed_model(p._replace(y=a * p.y), aggregation=name, kernel=kernel)
    scaled_mean, scaled_std = scaled.predict(p.X_new, return_std=True)
    np.testing.assert_allclose(scaled_mean, a * mean, rtol=1e-6, atol=1e-8 * abs(a))
    np.testing.assert_allclose(scaled_std, abs(a) * std, rtol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", RULES)
def test_no_variance_is_negative_or_above_the_prior(seed: int, name: str) -> None:
    p = random_problem(seed, noise=1e-4)
    X = np.concatenate([p.X, p.X_new, 3.0 * p.X_new])
    _, std = latent(fixed_model(p, aggregation=name), X)
    assert (std > 0).all()
    assert (std <= p.scale * (1 + 1e-12)).all()


def test_the_variance_of_npae_lies_between_the_exact_gp_and_the_best_expert(problem: Problem) -> None:
    _, std = latent(fixed_model(problem, aggregation=NPAE(nugget=0.0)), problem.X_new)
    best = np.min([e.var for e in local_gps(problem)], axis=0) ** 0.5
    exact = gp(problem, np.arange(len(problem.X))).var ** 0.5
    assert (std <= best * (1 + 1e-9)).all()
    assert (std >= exact * (1 - 1e-9)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_npae_against_the_dense_joint_covariance(seed: int) -> None:
    p = random_problem(seed)
    mean, var = dense_npae(p)
    assert_close(
        latent(fixed_model(p, aggregation=NPAE(nugget=0.0)), p.X_new), (mean, var**0.5), p, rtol=1e-7
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_npae_of_selected_experts_against_the_dense_joint_covariance(seed: int) -> None:
    p = random_problem(seed)
    model = fixed_model(p, aggregation=NPAE(nugget=0.0), selection="knn", n_selected=2)
    mean, var = dense_npae(p, model.select(p.X_new))
    assert_close(latent(model, p.X_new), (mean, var**0.5), p, rtol=1e-7)


def test_the_nugget_hardly_changes_a_well_specified_problem(problem: Problem) -> None:
    plain = latent(fixed_model(problem, aggregation=NPAE(nugget=0.0)), problem.X_new)
    default = latent(fixed_model(problem, aggregation="npae"), problem.X_new)
    assert_close(default, plain, problem, rtol=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_grbcm_against_a_naive_loop_over_enhanced_experts(seed: int) -> None:
    p = random_problem(seed)
    shared = np.arange(len(p.X)) % 5 == 0
    labels = np.where(shared, -1, p.labels)
    c = gp(p, np.flatnonzero(shared))
    plus = [gp(p, np.flatnonzero(shared | (labels == i))) for i in range(p.n_experts)]
    mean, var = np.empty(len(p.X_new)), np.empty(len(p.X_new))
    for q in range(len(p.X_new)):
        first = min(range(p.n_experts), key=lambda i: plus[i].var[q])
        precision, total, betas = 0.0, 0.0, 0.0
        for i, expert in enumerate(plus):
            beta = 1.0 if i == first else 0.5 * (np.log(c.var[q]) - np.log(expert.var[q]))
            precision += beta / expert.var[q]
            total += beta * expert.mean[q] / expert.var[q]
            betas += beta
        precision -= (betas - 1) / c.var[q]
        total -= (betas - 1) * c.mean[q] / c.var[q]
        mean[q], var[q] = total / precision, 1 / precision
    model = fixed_model(p, partition=labels, aggregation=GRBCM())
    assert_close(latent(model, p.X_new), (mean, var**0.5), p, rtol=1e-7)

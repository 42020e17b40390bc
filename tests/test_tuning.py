"""What held-out rows decide: K, whom to leave out, and whether to believe contradicting experts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import NPAE
from gpexperts.metrics import coverage, nlpd

SETTINGS = {"kernel": "matern32", "partition": "kmeans", "n_experts": 8, "random_state": 0, "n_jobs": 1}


def smooth_problem(n: int = 800) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-6, 6, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.standard_normal(n)


def jumping_problem(n: int = 1200) -> tuple[np.ndarray, np.ndarray]:
    """Smooth here, jumping between two levels there: a stationary model is sure of itself and wrong."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, 2))
    f = np.where(X[:, 0] > 1, np.sign(np.sin(4 * X[:, 1])), np.sin(X[:, 1]))
    return X, f + 0.01 * rng.standard_normal(n)


def test_the_choice_and_its_evidence_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = smooth_problem()
    model = DistributedGPRegressor(**SETTINGS, verbose=1).fit(X, y)
    chosen = model.choices_["n_selected"]
    losses = chosen["loss_by_n_selected"]
    assert chosen["n_selected"] in losses
    assert losses[chosen["n_selected"]] <= min(losses.values()) + 0.002
    assert f"at most {chosen['n_selected']} experts per query" in capsys.readouterr().out
    assert model.select(X[:50]).shape == (50, chosen["n_selected"])


def test_weak_experts_are_left_out_and_show_as_padding() -> None:
    X, y = smooth_problem()
    model = DistributedGPRegressor(**SETTINGS).fit(X, y)
    rule = model._rule()
    assert rule.prune > 0
    index = model.select(X)
    explanation = model.explain(X)
    np.testing.assert_array_equal(index, explanation.experts)
    assert (index >= 0).any(axis=1).all()
    assert (index < 0).any()
    assert np.all(explanation.weight[index < 0] == 0)
    total = (explanation.weight * explanation.expert_mean).sum(axis=1)
    np.testing.assert_allclose(
        total + explanation.prior_weight * explanation.prior_mean, explanation.mean, rtol=1e-9
    )
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, explanation.mean, rtol=1e-10)
    np.testing.assert_allclose(std, explanation.std, rtol=1e-10)


def test_one_expert_s_intervals_follow_its_errors() -> None:
    """Noise that grows with x: the exact GP takes it for constant, its leave-one-out errors know better."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 4, size=(900, 1))
    y = np.sin(3 * X[:, 0]) + (0.02 + 0.1 * X[:, 0]) * rng.standard_normal(900)
    train, test = slice(0, 500), slice(500, None)
    model = DistributedGPRegressor(kernel="rbf", random_state=0, n_jobs=1).fit(X[train], y[train])
    chosen = model.choices_["n_selected"]
    assert model.n_experts_ == 1
    assert chosen["queries"] == 500  # each row is held out once
    assert chosen["local_noise"] > 0
    corrected = model.predict(X[test], return_std=True)
    latent = model.predict(X[test], return_std=True, latent=True)
    model.set_params(aggregation=NPAE(disagreement=None))
    exact = model.predict(X[test], return_std=True)
    np.testing.assert_array_equal(corrected[0], exact[0])
    np.testing.assert_array_equal(latent, model.predict(X[test], return_std=True, latent=True))
    assert nlpd(y[test], *corrected) < nlpd(y[test], *exact) - 0.1


@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.BoundWarning")
def test_contradicting_experts_widen_the_interval() -> None:
    X, y = jumping_problem()
    train, test = slice(0, 900), slice(900, None)
    model = DistributedGPRegressor(**SETTINGS, aggregation=NPAE(disagreement="auto")).fit(X[train], y[train])
    assert model.choices_["n_selected"]["disagreement"] is not None
    widened = model.predict(X[test], return_std=True)
    key, rule = model._learned_rule
    model._learned_rule = key, rule._replace(disagreement=None, scale=1.0, local_noise=0.0)  # K and pruning stay
    plain = model.predict(X[test], return_std=True)
    np.testing.assert_allclose(widened[0], plain[0])
    assert nlpd(y[test], *widened) < nlpd(y[test], *plain)


def test_a_model_that_is_too_sure_of_itself_is_corrected() -> None:
    """The noise is fixed at half its variance: held-out rows ask for more."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1500, 1))
    y = np.sin(8 * X[:, 0]) + 0.3 * rng.standard_normal(1500)
    kernel = 1.0 * RBF(0.2, "fixed") + WhiteKernel(0.045, "fixed")
    settings = {"kernel": kernel, "standardize": False, "optimizer": None, "n_experts": 10, "random_state": 0}
    model = DistributedGPRegressor(**settings).fit(X[:1000], y[:1000])
    rule = model.choices_["n_selected"]
    assert rule["scale"] > 1 or rule["local_noise"] > 0
    scaled = model.predict(X[1000:], return_std=True)
    plain = model.set_params(aggregation=NPAE(disagreement=None)).predict(X[1000:], return_std=True)
    mean_squared_z = [np.mean(((y[1000:] - mean) / std) ** 2) for mean, std in (plain, scaled)]
    assert mean_squared_z[0] > 1.6
    assert mean_squared_z[1] == pytest.approx(1.0, abs=0.25)


def test_a_scale_of_the_users_own_is_kept() -> None:
    X, y = jumping_problem(300)
    model = DistributedGPRegressor(**SETTINGS, n_selected=2, optimizer=None, aggregation=NPAE()).fit(X, y)
    plain = model.predict(X, return_std=True)[1]
    scaled = model.set_params(aggregation=NPAE(scale=4.0)).predict(X, return_std=True)[1]
    assert np.all((scaled > 1.5 * plain) & (scaled <= 2.0 * plain))


def test_noise_that_differs_from_place_to_place_is_noticed() -> None:
    """Ten times the noise on one side: one noise level is too much here and too little there."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(3000, 2))
    noisy = X[:, 0] > 0
    y = np.sin(2 * X).sum(axis=1) + np.where(noisy, 0.3, 0.03) * rng.standard_normal(3000)
    train, test = slice(0, 2000), slice(2000, None)
    model = DistributedGPRegressor(**{**SETTINGS, "partition": "balanced"}).fit(X[train], y[train])
    assert model.choices_["n_selected"]["local_noise"] > 0
    corrected = model.predict(X[test], return_std=True)
    plain = model.set_params(aggregation=NPAE(disagreement=None)).predict(X[test], return_std=True)
    assert nlpd(y[test], *corrected) < nlpd(y[test], *plain) - 0.3
    for side in (noisy[test], ~noisy[test]):
        before, after = (coverage(y[test][side], mean[side], std[side]) for mean, std in (plain, corrected))
        assert abs(after - 0.95) < abs(before - 0.95)


def test_intervals_far_from_the_data_are_the_prior_s() -> None:
    X, y = jumping_problem()
    model = DistributedGPRegressor(**SETTINGS, optimizer=None).fit(X, y)
    far = model.predict(np.full((1, 2), 1e6), return_std=True)[1]
    plain = model.set_params(aggregation=NPAE(disagreement=None)).predict(np.full((1, 2), 1e6), return_std=True)[1]
    np.testing.assert_allclose(far, plain, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.BoundWarning")
def test_the_latent_function_is_not_widened() -> None:
    X, y = jumping_problem(600)
    model = DistributedGPRegressor(**SETTINGS, n_selected=3, aggregation=NPAE(disagreement=2.0)).fit(X, y)
    widened = model.predict(X, return_std=True, latent=True)[1]
    plain = model.set_params(aggregation=NPAE(disagreement=None)).predict(X, return_std=True, latent=True)[1]
    np.testing.assert_array_equal(widened, plain)


def test_a_number_of_experts_from_the_user_is_taken_as_it_is() -> None:
    X, y = smooth_problem(300)
    model = DistributedGPRegressor(**SETTINGS, n_selected=3).fit(X, y)
    assert "n_selected" not in model.choices_
    assert np.all(model.select(X) >= 0)


def test_too_few_rows_to_tell_fall_back_on_the_default() -> None:
    X, y = smooth_problem(40)
    model = DistributedGPRegressor(**SETTINGS).fit(X, y)
    assert model.select(X).shape == (40, 5)


def test_a_lone_expert_with_many_rows_is_not_factorised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = smooth_problem(300)
    settings = {"n_experts": 1, "kernel": "rbf", "random_state": 0, "n_jobs": 1}
    assert "n_selected" in DistributedGPRegressor(**settings).fit(X, y).choices_
    monkeypatch.setattr("gpexperts.tuning.MAX_SINGLE", 299)
    assert "n_selected" not in DistributedGPRegressor(**settings).fit(X, y).choices_

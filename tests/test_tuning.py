"""m, K, pruning and corrections of the variance are chosen by held-out log density."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from gpexperts import DistributedGPRegressor, prepare, tuning
from gpexperts.aggregation import NPAE
from gpexperts.engines import ThreadEngine
from gpexperts.held_out import _folds
from gpexperts.metrics import coverage, nlpd
from gpexperts.predictor import Predictor
from gpexperts.prepare import held_out
from gpexperts.tuning import choice as choosing
from gpexperts.tuning import corrections
from tests.problems import PLAIN

SETTINGS = {
    "kernel": "matern32", "partition": "kmeans", "n_experts": 8, "random_state": 0, "n_jobs": 1, **PLAIN
}  # fmt: skip


def smooth_problem(n: int = 800) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-6, 6, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.standard_normal(n)


def jumping_problem(n: int = 900) -> tuple[np.ndarray, np.ndarray]:
    """Smooth on one side, jumps between two levels on the other: not stationary."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, 2))
    f = np.where(X[:, 0] > 1, np.sign(np.sin(4 * X[:, 1])), np.sin(X[:, 1]))
    return X, f + 0.01 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def smooth_model() -> tuple[DistributedGPRegressor, str]:
    """A model with all defaults of prediction, and what its fit printed."""
    with redirect_stdout(StringIO()) as printed:
        return DistributedGPRegressor(**SETTINGS, verbose=1).fit(*smooth_problem()), printed.getvalue()


@pytest.fixture(scope="module")
def smooth_without_neighbours() -> DistributedGPRegressor:
    return DistributedGPRegressor(**SETTINGS, n_neighbors=0).fit(*smooth_problem())


def test_the_choice_has_a_reason_and_evidence(smooth_model: tuple[DistributedGPRegressor, str]) -> None:
    model, printed = smooth_model
    X, _ = smooth_problem()
    choice = model.choices_["n_selected"]
    losses = choice.evidence["loss_by_setup"]
    assert losses[choice.value] <= min(losses.values()) + 5 * choosing.PRICE  # 5: doublings of the time
    assert f"{losses[choice.value]:.4g} on {choice.evidence['rows']} held-out rows" in choice.reason
    assert f"prediction: {choice}" in printed
    chosen = model.predictor_.tuning
    assert str(chosen) == choice.value
    assert choice.evidence["tuning"] == chosen._asdict()
    assert model.select(X[:50]).shape == (50, chosen.n_selected)


def test_without_neighbours_the_fewest_experts_that_are_good_enough_are_chosen(
    smooth_without_neighbours: DistributedGPRegressor,
) -> None:
    model = smooth_without_neighbours
    X, _ = smooth_problem()
    choice = model.choices_["n_selected"]
    losses = choice.evidence["loss_by_setup"]
    assert set(losses) == {str(tuning.Tuning(k)) for k in tuning.EXPERTS}
    priced = {
        k: losses[str(t)] + choosing.PRICE * np.log2(t.cost)
        for k in (1, 2, 3, 4, 5, 6, 8)
        for t in [tuning.Tuning(k)]
    }
    assert choice.value == str(tuning.Tuning(min(priced, key=priced.__getitem__)))
    assert model.select(X[:50]).shape == (50, int(choice.value.split()[0]))


@pytest.mark.parametrize("candidates", [(32,), (32, 64), (64, 128)])
def test_every_set_of_candidates_gives_a_setup(candidates: tuple[int, ...]) -> None:
    X, y = smooth_problem(300)
    fitted = DistributedGPRegressor(**SETTINGS, n_selected=2, n_neighbors=0, optimizer=None).fit(X, y)
    predictor = fitted.predictor_
    held = held_out(fitted.model_, predictor.settings, predictor.selector)
    for experts in ((0,), (0, 1, 2)):
        setups = tuning.Setups(experts, candidates)
        found = tuning.tune(held, setups, predictor.settings.aggregator, ThreadEngine(1))
        assert found.tuning.n_neighbors in candidates
        assert found.tuning.n_selected in experts
        alone = {str(tuning.Tuning(0, m)) for m in candidates}
        assert alone & found.choice.evidence["loss_by_setup"].keys()


def test_fewer_rows_are_chosen_only_if_density_and_error_are_better() -> None:
    score = corrections.Score(1.0, 2.0)
    assert corrections.Score(0.95, 2.0).is_better_than(score)
    assert not corrections.Score(0.97, 2.0).is_better_than(score)
    assert not corrections.Score(0.5, 2.1).is_better_than(score)
    assert not corrections.Score(1.1, 1.0).is_better_than(score)


@pytest.mark.parametrize(
    ("losses", "chosen"),
    [
        ({64: 0.5, 128: 0.3, 256: 0.2, 512: 0.1, 1024: 0.09}, 512),  # a millisecond must gain 0.01
        ({64: 0.3, 128: 0.21, 256: 0.2, 512: 0.19}, 256),
        ({64: 0.3, 128: 0.21, 256: 0.204}, 128),
        ({32: 0.1, 64: 0.13, 128: 0.16}, 32),
        ({64: 0.3, 128: 0.1, 256: 0.2}, 128),
    ],
)
def test_the_number_of_neighbours_follows_the_losses(losses, chosen) -> None:
    tuner = object.__new__(choosing._Tuner)
    tuner.tried = {}
    tuner.moments = lambda k, m: m
    tuner.experts = SimpleNamespace(n_experts=10)
    tuner.rows = SimpleNamespace(score=lambda m: corrections.Score(losses[m], np.exp(2 * losses[m])))
    best = tuner._best_neighbors(list(tuning.NEIGHBORS))
    assert best == tuning.Tuning(0, chosen)


def test_the_own_expert_is_chosen_where_parts_have_borders(
    smooth_model: tuple[DistributedGPRegressor, str],
) -> None:
    model, _ = smooth_model
    losses = model.choices_["n_selected"].evidence["loss_by_setup"]
    assert losses["own expert of 128 rows"] < losses["1 expert"]
    assert model.predictor_.tuning.n_neighbors > 0


def test_a_single_wrong_target_does_not_decide() -> None:
    residual = np.array([[0.1], [-0.2], [1e6]])
    std = np.ones((3, 1))
    robust = corrections._nlpd(residual, std, np.ones(3))
    assert robust == pytest.approx(np.mean([0.005, 0.02, 800.0]) + 0.5 * np.log(2 * np.pi))
    for weight in (np.array([1.0, 1.0, 0.0]), np.array([2.0, 1.0, 0.0])):
        kept = np.repeat(residual[:, 0], weight.astype(int))
        assert corrections._nlpd(residual, std, weight) == pytest.approx(nlpd(kept, 0 * kept, 0 * kept + 1.0))


def test_the_losses_are_those_of_models_without_the_held_out_rows() -> None:
    """One fold by hand: experts without its rows predict them, with every K."""
    X, y = smooth_problem(300)
    model = DistributedGPRegressor(**SETTINGS, n_neighbors=0, aggregation=NPAE(disagreement=None)).fit(X, y)
    experts, covariance = model.model_.experts, model.model_.covariance
    folds = _folds(experts, 10**9, np.random.RandomState(model.model_.seeds.tuning))
    held_out = np.concatenate(folds)
    assert len(np.unique(held_out)) == len(held_out)
    losses = model.choices_["n_selected"].evidence["loss_by_setup"]
    expected, squares = [], []
    for rows in folds:
        kept = np.setdiff1d(np.arange(len(experts.X)), rows)
        labels = np.searchsorted(experts.offsets, kept, side="right") - 1
        nearest = np.argmin(
            cdist(
                experts.X[rows] / covariance.metric(np.ones(2)),
                experts.X[kept] / covariance.metric(np.ones(2)),
            ),
            axis=1,
        )
        for row, k in zip(rows, labels[nearest], strict=True):
            own = kept[labels == k]
            gp = GaussianProcessRegressor(covariance.kernel, optimizer=None, alpha=0.0)
            mean, std = gp.fit(experts.X[own], experts.y[own, 0]).predict(experts.X[[row]], return_std=True)
            expected.append(nlpd(experts.y[[row], 0], mean, std))  # std includes the noise
            squares.append((experts.y[row, 0] - mean[0]) ** 2)
    loss = 0.5 * (np.mean(expected) + 0.5 * np.log(np.mean(squares)))
    assert losses["1 expert"] == pytest.approx(loss, rel=1e-6)


def test_weak_experts_are_pruned_and_padded(smooth_without_neighbours: DistributedGPRegressor) -> None:
    model = smooth_without_neighbours
    X, _ = smooth_problem()
    assert model.predictor_.tuning.prune > 0
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


def test_intervals_of_a_single_expert_follow_its_leave_one_out_residuals() -> None:
    """Noise that grows with x, where the exact GP has one noise level."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 4, size=(900, 1))
    y = np.sin(3 * X[:, 0]) + (0.02 + 0.1 * X[:, 0]) * rng.standard_normal(900)
    train, test = slice(0, 500), slice(500, None)
    model = DistributedGPRegressor(kernel="rbf", random_state=0, n_jobs=1, **PLAIN).fit(X[train], y[train])
    assert model.n_experts_ == 1
    assert model.choices_["n_selected"].evidence["rows"] == 500  # each row is held out once
    assert model.predictor_.tuning.local_noise > 0
    corrected = model.predict(X[test], return_std=True)
    latent = model.predict(X[test], return_std=True, latent=True)
    model.set_params(aggregation=NPAE(disagreement=None))
    exact = model.predict(X[test], return_std=True)
    np.testing.assert_array_equal(corrected[0], exact[0])
    np.testing.assert_array_equal(latent, model.predict(X[test], return_std=True, latent=True))
    assert nlpd(y[test], *corrected) < nlpd(y[test], *exact) - 0.1


@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.BoundWarning")
def test_disagreement_of_experts_inflates_the_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "NEIGHBORS", (32, 64, 128))
    X, y = jumping_problem()
    train, test = slice(0, 600), slice(600, None)
    model = DistributedGPRegressor(**SETTINGS, aggregation=NPAE(disagreement="auto")).fit(X[train], y[train])
    corrected = model.predictor_
    assert corrected.tuning.disagreement is not None
    plain = Predictor(
        corrected.model,
        corrected.settings,
        corrected.selector,
        corrected.tuning._replace(disagreement=None, scale=1.0, local_noise=0.0),  # K and pruning stay
        corrected.choices,
        None,
        None,
    )
    of_corrected, of_plain = (
        [a[:, 0] for a in p.predict(X[test], return_std=True, latent=False)] for p in (corrected, plain)
    )
    np.testing.assert_allclose(of_corrected[0], of_plain[0])
    assert nlpd(y[test], *of_corrected) < nlpd(y[test], *of_plain)


def test_a_variance_that_is_too_small_is_corrected() -> None:
    """The noise variance is fixed at half its value."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1100, 1))
    y = np.sin(8 * X[:, 0]) + 0.3 * rng.standard_normal(1100)
    kernel = 1.0 * RBF(0.2, "fixed") + WhiteKernel(0.045, "fixed")
    settings = {"kernel": kernel, "standardize": False, "optimizer": None, "n_experts": 6, "random_state": 0}
    settings["n_neighbors"] = 0
    model = DistributedGPRegressor(**settings, **PLAIN).fit(X[:600], y[:600])
    chosen = model.predictor_.tuning
    assert chosen.scale > 1 or chosen.local_noise > 0
    scaled = model.predict(X[600:], return_std=True)
    plain = model.set_params(aggregation=NPAE(disagreement=None)).predict(X[600:], return_std=True)
    mean_squared_z = [np.mean(((y[600:] - mean) / std) ** 2) for mean, std in (plain, scaled)]
    assert mean_squared_z[0] > 1.6
    assert mean_squared_z[1] == pytest.approx(1.0, abs=0.25)


def test_a_scale_of_the_user_is_kept() -> None:
    X, y = jumping_problem(300)
    plain_npae, scaled_npae = NPAE(disagreement=None), NPAE(disagreement=None, scale=4.0)
    model = DistributedGPRegressor(**SETTINGS, n_selected=2, optimizer=None, aggregation=plain_npae).fit(X, y)
    plain = model.predict(X, return_std=True)[1]
    scaled = model.set_params(aggregation=scaled_npae).predict(X, return_std=True)[1]
    assert np.all((scaled > 1.5 * plain) & (scaled <= 2.0 * plain))


def test_noise_that_varies_with_the_input_is_corrected() -> None:
    """Ten times the noise on one side: one noise level is too much here and too little there."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(1800, 2))
    noisy = X[:, 0] > 0
    y = np.sin(2 * X).sum(axis=1) + np.where(noisy, 0.3, 0.03) * rng.standard_normal(1800)
    train, test = slice(0, 800), slice(800, None)
    settings = {**SETTINGS, "partition": "balanced", "n_selected": 0, "n_neighbors": 64}
    model = DistributedGPRegressor(**settings).fit(X[train], y[train])
    assert model.predictor_.tuning.local_noise > 0
    corrected = model.predict(X[test], return_std=True)
    plain = model.set_params(aggregation=NPAE(disagreement=None)).predict(X[test], return_std=True)
    assert nlpd(y[test], *corrected) < nlpd(y[test], *plain) - 0.3
    for side in (noisy[test], ~noisy[test]):
        before, after = (coverage(y[test][side], mean[side], std[side]) for mean, std in (plain, corrected))
        assert abs(after - 0.95) < abs(before - 0.95)


def test_far_from_the_data_the_variance_is_not_corrected() -> None:
    X, y = jumping_problem(300)
    model = DistributedGPRegressor(**SETTINGS, optimizer=None).fit(X, y)
    far = model.predict(np.full((1, 2), 1e6), return_std=True)[1]
    plain = model.set_params(aggregation=NPAE(disagreement=None)).predict(
        np.full((1, 2), 1e6), return_std=True
    )[1]
    np.testing.assert_allclose(far, plain, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.BoundWarning")
def test_the_latent_variance_is_not_corrected() -> None:
    X, y = jumping_problem(300)
    model = DistributedGPRegressor(**SETTINGS, n_selected=3, n_neighbors=64).fit(X, y)
    model.set_params(aggregation=NPAE(disagreement=2.0))
    corrected = model.predict(X, return_std=True, latent=True)[1]
    plain = model.set_params(aggregation=NPAE(disagreement=None)).predict(X, return_std=True, latent=True)[1]
    np.testing.assert_array_equal(corrected, plain)


def test_a_given_number_of_experts_is_not_tuned() -> None:
    X, y = smooth_problem(300)
    model = DistributedGPRegressor(**SETTINGS, n_selected=3, n_neighbors=0).fit(X, y)
    assert "n_selected" not in model.choices_
    assert np.all(model.select(X) >= 0)
    model.set_params(n_neighbors=50)
    assert np.all(model.select(X) >= 0)
    assert model.predictor_.tuning[:2] == (3, 50)


@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.BoundWarning")
def test_the_variance_of_a_given_own_expert_is_corrected() -> None:
    X, y = jumping_problem()
    train, test = slice(0, 600), slice(600, None)
    model = DistributedGPRegressor(**SETTINGS, n_selected=0, n_neighbors=64).fit(X[train], y[train])
    corrected = model.predict(X[test], return_std=True)
    plain = model.set_params(aggregation=NPAE(disagreement=None)).predict(X[test], return_std=True)
    np.testing.assert_allclose(corrected[0], plain[0])
    assert nlpd(y[test], *corrected) < nlpd(y[test], *plain) - 0.1


def test_the_floor_costs_little_and_is_the_largest_such() -> None:
    X, y = jumping_problem()
    model = DistributedGPRegressor(**SETTINGS, n_selected=0, n_neighbors=64, optimizer=None).fit(X, y)
    predictor = model.predictor_
    chosen = predictor.tuning
    assert chosen.floor in corrections.FLOORS
    held = held_out(model.model_, predictor.settings, predictor.selector)
    tuner = choosing._Tuner(held, predictor.settings.aggregator, ThreadEngine(1))
    moments = tuner.moments(0, 64)

    def loss(floor: float) -> float:
        prediction = chosen._replace(floor=floor).applied(tuner.aggregator).combine(moments)
        std = np.sqrt(prediction.observation_var(tuner.rows.noise))
        return float(corrections._nlpd(tuner.rows.y - prediction.mean, std, tuner.rows.weights))

    assert loss(chosen.floor) <= loss(0.0) + corrections.PREMIUM
    assert all(loss(f) > loss(0.0) + corrections.PREMIUM for f in corrections.FLOORS if f > chosen.floor)


def test_neighbours_are_chosen_beside_a_given_number_of_experts() -> None:
    X, y = smooth_problem(300)
    model = DistributedGPRegressor(**SETTINGS, n_selected=3).fit(X, y)
    losses = model.choices_["n_selected"].evidence["loss_by_setup"]
    assert {"3 experts", "own expert of 128 rows and 3 experts"} == set(losses)
    assert np.all(model.select(X) >= 0)  # a given K is not pruned


def test_too_few_rows_give_the_default_number_of_experts() -> None:
    X, y = smooth_problem(40)
    model = DistributedGPRegressor(**SETTINGS).fit(X, y)
    assert model.select(X).shape == (40, 5)


def test_a_single_large_expert_is_not_factorised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = smooth_problem(300)
    settings = {"n_experts": 1, "kernel": "rbf", "random_state": 0, "n_jobs": 1}
    assert "n_selected" in DistributedGPRegressor(**settings).fit(X, y).choices_
    monkeypatch.setattr("gpexperts.held_out.MAX_SINGLE", 299)
    assert "n_selected" not in DistributedGPRegressor(**settings).fit(X, y).choices_

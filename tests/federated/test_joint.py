"""θ from sums over clients, units from sums, and noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from gpexperts.engines import ThreadEngine
from gpexperts.exceptions import FederationError
from gpexperts.federated import ClientPolicy, ClientRows, Privacy
from gpexperts.federated.local import joint_blocks
from gpexperts.federated.privacy import clipped, spent
from gpexperts.scaling import ColumnSummary, Standardizer
from gpexperts.training.likelihood import maximise_likelihood
from tests.federated.federations import FaultyGrid, fitted, four_clients, function, holdings, queries


def test_theta_is_that_of_all_blocks_in_one_place() -> None:
    """The joint steps are those of the library's optimiser on the blocks of all clients."""
    rows = four_clients()
    grid = FaultyGrid(rows)
    model = fitted(grid, max_steps=15)
    own = [holdings(grid, rows, client) for client in model.clients_]
    start = model.fitted_.model.covariance.at(own[0].state.array("first_theta"))
    blocks = [block for held in own for block in joint_blocks(held.scaled, start, held.state.value("seed"))]
    central = maximise_likelihood(start, blocks, ThreadEngine(1), max_steps=15, tolerance=1e-4)
    theta = model.fitted_.model.covariance.kernel.theta
    np.testing.assert_allclose(theta, central.covariance.kernel.theta, rtol=1e-6, atol=1e-6)
    assert model.n_steps_ <= 15


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_units_are_those_of_all_rows(offset: float) -> None:
    rows = [ClientRows(own.X + offset, own.y * 1e-5) for own in four_clients()]
    model = fitted(FaultyGrid(rows), calibrate=None, max_steps=0)
    X, y = np.concatenate([own.X for own in rows]), np.concatenate([own.y for own in rows])
    fit = model.fitted_.model
    for found, A in ((fit.x_scale, X), (fit.y_scale, y[:, None])):
        known = Standardizer.of(ColumnSummary.of(A))
        np.testing.assert_allclose(found.shift, known.shift, rtol=1e-9)
        np.testing.assert_allclose(found.scale, known.scale, rtol=1e-8)
    np.testing.assert_allclose(np.concatenate(fit.y_summary), [y.mean(), y.std()], rtol=1e-9)


def test_a_constant_input_has_no_deviation() -> None:
    rows = [ClientRows(np.column_stack([own.X, np.full(len(own.X), 0.1)]), own.y) for own in four_clients()]
    model = fitted(FaultyGrid(rows), max_steps=0)
    assert model.fitted_.model.x_scale.scale[2] == 1.0


def test_the_kernel_is_chosen_by_the_mean_score() -> None:
    model = fitted(FaultyGrid(four_clients()), kernel="auto", max_steps=1)
    scores = model.choices_["kernel"].evidence["scores"]
    assert model.choices_["kernel"].value == max(scores, key=scores.get)
    assert set(scores) == {"rbf", "matern52", "matern32", "matern12"}


def test_noise_hides_gradients_and_is_accounted_for() -> None:
    privacy = Privacy(0.5, centroid_noise=1.0, delta=1e-5)
    models = [
        fitted(FaultyGrid(four_clients()), privacy=privacy, selection="knn", max_steps=5) for _ in range(2)
    ]
    first, second = (model.kernel_.theta for model in models)
    assert not np.allclose(first, second)
    for model in models:
        error = np.abs(model.predict(queries()) - function(queries())).mean()
        assert error < 0.5
        assert model.privacy_.n_releases == 7
        assert 0 < model.privacy_.epsilon_client < model.privacy_.epsilon_row < np.inf


@pytest.mark.parametrize("n_sums", [1, 16])
def test_epsilon_is_an_upper_bound_close_to_the_exact_one(n_sums: int) -> None:
    """K Gaussian mechanisms with noise σ are one with μ = √k·Δ/σ (Dong et al., 2022), with an exact δ(ε).

    Δ is twice the clip: the vector of a client whose rows are replaced can point the other way.
    """
    found = spent(Privacy(6.0, delta=1e-5), 10, n_sums, centroids=False)
    mu = (
        np.sqrt(n_sums) * np.linalg.norm(clipped(np.array([9.0]), 1.0) - clipped(np.array([-9.0]), 1.0)) / 6.0
    )

    def delta(epsilon: float) -> float:
        return float(ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))

    assert delta(found.epsilon_client) <= 1e-5 <= delta(0.8 * found.epsilon_client)
    assert found.epsilon_row == found.epsilon_client
    assert spent(Privacy(3.0), 10, n_sums, centroids=True).epsilon_row == np.inf


def test_contributions_are_clipped() -> None:
    vector = np.array([3.0, -4.0])
    np.testing.assert_allclose(clipped(vector, 1.0), vector / 5.0)
    np.testing.assert_array_equal(clipped(vector, 6.0), vector)


def test_a_client_may_insist_on_noise() -> None:
    policy = ClientPolicy(n_jobs=1, min_noise_multiplier=1.5)
    with pytest.raises(FederationError, match=r"this client needs 1\.5"):
        fitted(FaultyGrid(four_clients(), policy=policy))
    with pytest.raises(FederationError, match=r"Noise of 1 times the clip"):
        fitted(FaultyGrid(four_clients(), policy=policy), privacy=Privacy(1.0))
    assert fitted(FaultyGrid(four_clients(), policy=policy), privacy=Privacy(1.5), max_steps=1).privacy_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"privacy": Privacy(1.0), "kernel": "auto"}, "named kernel"),
        ({"privacy": Privacy(1.0), "selection": "dnn"}, "no noise for the weights"),
        ({"privacy": Privacy(1.0), "secure_sum": False}, "needs secure_sum=True"),
        ({"privacy": 1.0}, "None or a Privacy"),
    ],
)
def test_noise_that_would_promise_too_much(parameters: dict, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        fitted(FaultyGrid(four_clients()), **parameters)


def test_noise_parameters_are_checked() -> None:
    for parameters in ({"noise_multiplier": 0.0}, {"noise_multiplier": 1.0, "clip": -1.0}):
        with pytest.raises(ValueError, match="must be a positive number"):
            Privacy(**parameters)
    with pytest.raises(ValueError, match="delta"):
        Privacy(1.0, delta=2.0)
    with pytest.raises(ValueError, match="centroid_noise"):
        Privacy(1.0, centroid_noise=-1.0)

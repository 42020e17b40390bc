"""The same parts, θ and selector give the predictions of the library."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpexperts import DistributedGPRegressor
from gpexperts.federated import ClientPolicy, FederatedGPRegressor
from gpexperts.predictor import Predictor
from tests.federated.federations import (
    FaultyGrid,
    all_experts,
    fitted,
    four_clients,
    function,
    holdings,
    queries,
)

RULES = ("poe", "gpoe", "bcm", "rbcm", "grbcm")


@pytest.mark.parametrize("selection", ["certain", "knn", "dnn", "all"])
@pytest.mark.parametrize("rule", RULES)
def test_predictions_are_those_of_the_library(rule: str, selection: str) -> None:
    rows, X = four_clients(), queries()
    grid = FaultyGrid(rows)
    public = queries(25, seed=5)
    communication = (public, function(public)) if rule == "grbcm" else None
    given = {"kernel": "rbf", "expert_size": 30, "max_steps": 0, "network_rounds": 1, "random_state": 0}
    model = FederatedGPRegressor(**given, aggregation=rule, selection=selection).fit(grid, communication)
    fit = model.fitted_
    library = Predictor(
        replace(fit.model, experts=all_experts(model, grid, rows)),
        fit.settings,
        fit.selector,
        fit.tuning,
        {},
        None,
        fit.calibration,
    )
    for latent in (False, True):
        mean, std = model.predict(X, return_std=True, latent=latent)
        expected_mean, expected_std = library.predict(X, return_std=True, latent=latent)
        np.testing.assert_allclose(mean, expected_mean[:, 0], rtol=1e-8)
        np.testing.assert_allclose(std, expected_std[:, 0], rtol=1e-8)
    assert model.absent_ == set()


def test_predictions_are_those_of_the_estimator() -> None:
    """From raw rows on: units, kernel and selection of the estimator, which sees all rows."""
    rows, X = four_clients(), queries()
    grid = FaultyGrid(rows)
    model = fitted(grid, selection="knn", n_selected=3)
    own = [holdings(grid, rows, client) for client in model.clients_]
    labels = [
        model.experts_of_[client][held.state.array("labels")]
        for client, held in zip(model.clients_, own, strict=True)
    ]
    central = DistributedGPRegressor(
        kernel=model.kernel_,
        optimizer=None,
        partition=np.concatenate(labels),
        aggregation="gpoe",
        selection="knn",
        n_selected=3,
        n_neighbors=0,
        noise="gaussian",
        trend=None,
    ).fit(np.concatenate([held.kept.X for held in own]), np.concatenate([held.kept.y[:, 0] for held in own]))
    mean, std = model.predict(X, return_std=True)
    expected_mean, expected_std = central.predict(X, return_std=True)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-8)
    np.testing.assert_allclose(std, expected_std, rtol=1e-8)
    np.testing.assert_array_equal(model.select(X), central.select(X))


def test_a_secure_sum_changes_nothing() -> None:
    policy = {"needs_secure_sum": False, "n_jobs": 1}

    masked, plain = (
        fitted(FaultyGrid(four_clients(), policy=ClientPolicy(**policy)), secure_sum=secure)
        for secure in (True, False)
    )
    np.testing.assert_array_equal(
        masked.fitted_.model.covariance.kernel.theta, plain.fitted_.model.covariance.kernel.theta
    )
    assert masked.log_.n_rounds == plain.log_.n_rounds + 2 + masked.n_steps_


def test_several_outputs() -> None:
    rows = [replace(own, y=np.stack([own.y, -2.0 * own.y], axis=1)) for own in four_clients()]
    model, X = fitted(FaultyGrid(rows)), queries()
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (len(X), 2)
    np.testing.assert_allclose(mean[:, 1], -2.0 * mean[:, 0], rtol=1e-6)

"""Samples are functions, with the mean and covariance of `predict`."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import DotProduct

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import NPAE
from gpexperts.joint import samples as module
from tests.joint.models import KERNEL, SETUPS, data, fixed

X, Y, X_NEW = data()
MODELS = {setup: fixed(X, 20 + 3 * Y, setup, standardize=True) for setup in SETUPS}


@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("setup", SETUPS)
def test_moments_are_those_of_predict(setup: str, latent: bool) -> None:
    """Against standard errors: each standardised mean and covariance is within 5 of them."""
    model, n = MODELS[setup], 2000
    samples = model.sample_y(X_NEW, n, random_state=1, latent=latent)
    assert samples.shape == (len(X_NEW), n)
    mean, cov = model.predict(X_NEW, return_cov=True, latent=latent)
    std = np.sqrt(np.diag(cov))
    z = (samples - mean[:, None]) / std[:, None]
    assert np.abs(z.mean(axis=1)).max() < 5 / np.sqrt(n)
    error = z @ z.T / n - cov / np.outer(std, std)
    assert np.abs(error).max() < 5 * np.sqrt(2 / n) + 0.05  # and what 1024 frequencies leave


@pytest.mark.parametrize("setup", SETUPS)
def test_a_drawn_function_is_one_function(setup: str, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = MODELS[setup].draw_functions(3, random_state=7)
    whole = functions(X_NEW)
    assert whole.shape == (len(X_NEW), 3)
    single = np.concatenate([functions(x[None]) for x in X_NEW])
    np.testing.assert_allclose(single, whole, rtol=1e-9)
    np.testing.assert_allclose(functions[1](X_NEW), whole[:, 1], rtol=1e-9)
    np.testing.assert_allclose(functions[1:](X_NEW), whole[:, 1:], rtol=1e-9)
    more = MODELS[setup].draw_functions(5, random_state=7)  # the first ones are the same
    np.testing.assert_allclose(more(X_NEW)[:, :3], whole, rtol=1e-9)
    assert len(functions) == len(list(functions)) == 3
    monkeypatch.setattr(module, "_PIECE", 5)
    monkeypatch.setattr(module, "_GROUP", 36)
    monkeypatch.setattr(module, "most_entries", lambda _: 10**9)
    np.testing.assert_allclose(functions(np.tile(X_NEW, (3, 1))), np.tile(whole, (3, 1)), rtol=1e-9)
    again = MODELS[setup].draw_functions(3, random_state=7)(X_NEW)
    np.testing.assert_array_equal(again, functions(X_NEW))
    assert np.abs(MODELS[setup].draw_functions(3, random_state=8)(X_NEW) - whole).max() > 0.1


def test_many_samples_are_drawn_in_pieces_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOGETHER", 600)
    model = MODELS["own"]
    samples = model.sample_y(X_NEW, 2000, random_state=1, latent=True)
    assert samples.shape == (len(X_NEW), 2000)
    assert len(np.unique(samples[0])) == 2000
    mean, std = model.predict(X_NEW, return_std=True, latent=True)
    np.testing.assert_allclose((samples.mean(axis=1) - mean) / std, 0, atol=5 / np.sqrt(2000))
    np.testing.assert_allclose(samples.std(axis=1), std, rtol=0.12)
    np.testing.assert_array_equal(samples[:, :600], model.sample_y(X_NEW, 600, random_state=1, latent=True))


def test_functions_are_smooth_where_the_selection_does_not_change() -> None:
    line = np.column_stack([np.linspace(0.4, 0.6, 401), np.full(401, 0.5)])
    values = MODELS["exact"].draw_functions(4, random_state=0)(line)
    std = MODELS["exact"].predict(line, return_std=True, latent=True)[1].max()
    assert np.abs(np.diff(values, axis=0)).max() < 0.2 * std


def test_functions_outlive_a_new_fit() -> None:
    model = fixed(X, Y, "own")
    functions = model.draw_functions(2, random_state=0)
    before = functions(X_NEW)
    model.fit(X[:100], -Y[:100])
    np.testing.assert_array_equal(functions(X_NEW), before)


def test_shapes_and_corrections_of_several_outputs() -> None:
    model = DistributedGPRegressor(
        n_experts=5, n_neighbors=24, n_selected=1, kernel=KERNEL, optimizer=None, n_jobs=1, random_state=0,
        aggregation=NPAE(disagreement=2.0, scale=2.0),
    ).fit(X, np.column_stack([Y, 10 * Y[::-1]]))  # fmt: skip
    samples = model.sample_y(X_NEW, 2000, random_state=0)
    assert samples.shape == (len(X_NEW), 2, 2000)
    _, std = model.predict(X_NEW, return_std=True)
    np.testing.assert_allclose(samples.std(axis=2), std, rtol=0.12)
    assert model.draw_functions(2, random_state=0)(X_NEW).shape == (len(X_NEW), 2, 2)


def test_threads_do_not_matter() -> None:
    expected = MODELS["both"].sample_y(X_NEW, 2, random_state=3)
    other = fixed(X, 20 + 3 * Y, "both", standardize=True, n_jobs=2).sample_y(X_NEW, 2, random_state=3)
    np.testing.assert_allclose(other, expected, rtol=1e-9)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="no Fourier features"):
        fixed(X, Y, "exact", kernel=KERNEL + DotProduct()).sample_y(X_NEW)
    with pytest.raises(ValueError, match="not available for aggregation='gpoe'"):
        fixed(X, Y, "experts", aggregation="gpoe").draw_functions()
    with pytest.raises(ValueError, match="n_samples"):
        MODELS["own"].sample_y(X_NEW, 0)
    with pytest.raises(TypeError, match=r"n_samples must be a positive int, got 2\.5"):
        MODELS["own"].sample_y(X_NEW, 2.5)
    assert MODELS["own"].sample_y(np.empty((0, 2)), 2).shape == (0, 2)

"""Boosted trees after a ridge regression: many levels, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

from gpexperts import DistributedGPRegressor, load
from gpexperts.columns.encoder import MANY_LEVELS, ColumnEncoder, profile_columns
from gpexperts.columns.frames import frame_of
from gpexperts.trend.effects import PENALTIES, LinearAndTrees, RidgeThenTrees, ridge
from gpexperts.trend.regressors import fitted_regressor, kept, new_regressor, resized

RNG = np.random.default_rng(0)
N, N_LEVELS = 800, 60
EFFECTS = RNG.normal(size=N_LEVELS)


def table(n: int, rng: np.random.Generator, noise: float = 1.0) -> tuple[pd.DataFrame, np.ndarray]:
    """Effects of many levels, and a jump that only trees can see."""
    level, x = rng.integers(0, N_LEVELS, n), rng.uniform(-1, 1, n)
    y = EFFECTS[level] + 2.0 * (x > 0.2) + noise * rng.normal(size=n)
    return pd.DataFrame({"x": x, "level": [f"l{k}" for k in level]}), y


@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_is_scikit_learn_s_with_the_penalty_of_cross_validation(weighted: bool) -> None:
    X = RNG.normal(size=(60, 5)) * [1.0, 1.0, 10.0, 0.1, 1.0]
    y = X @ [1.0, 0.0, 0.1, 3.0, 0.0] + RNG.normal(size=60)
    w = RNG.uniform(0.5, 2.0, 60) if weighted else np.ones(60)
    w /= w.mean()
    units = np.array([1.0, 1.0, 10.0, 0.1, 1.0])
    found = ridge(X, y, 3.0 * w if weighted else None, units)
    scores, models = [], []
    for penalty in PENALTIES:
        one = Ridge(penalty).fit(X / units, y, sample_weight=w)
        A = np.sqrt(w)[:, None] * (X - np.average(X, axis=0, weights=w)) / units
        hat = A @ np.linalg.solve(A.T @ A + penalty * np.eye(5), A.T)
        residual = np.sqrt(w) * (y - one.predict(X / units))
        scores.append(residual @ residual / (59 - np.trace(hat)) ** 2)
        models.append(one)
    best = models[int(np.argmin(scores))]
    np.testing.assert_allclose(found.coef, best.coef_ / units, rtol=1e-8)
    assert found.intercept == pytest.approx(best.intercept_)


def test_more_columns_than_rows_are_no_failure() -> None:
    X, y = RNG.normal(size=(20, 50)), RNG.normal(size=20)
    assert np.isfinite(ridge(X, y, None, np.ones(50)).predict(X)).all()


def test_layout_names_the_inputs_of_many_levels() -> None:
    frame, _ = table(N, RNG)
    frame["few"] = ["a", "b", "c", "d"] * (N // 4)
    encoder = ColumnEncoder.of(profile_columns(frame_of(frame), "from_dtype"))
    many = encoder.layout(encoder.width + 1).many_levels
    assert many.sum() == N_LEVELS + 1 > MANY_LEVELS  # and the one of other levels
    assert many[1 : N_LEVELS + 2].all()
    assert not ColumnEncoder.numbers(3).layout(3).many_levels.any()


def test_trees_after_ridge_predict_better_than_trees() -> None:
    frame, y = table(N, RNG)
    new, truth = table(500, RNG, noise=0.0)
    encoder = ColumnEncoder.of(profile_columns(frame_of(frame), "from_dtype"))
    Z, Q = encoder.transform(frame), encoder.transform(new)
    levels = encoder.layout(encoder.width).many_levels
    regressor = resized(new_regressor("boosting", N, 0, levels), 100)
    assert isinstance(regressor, RidgeThenTrees)
    assert regressor.trees.max_iter == 100
    fitted = fitted_regressor(regressor, Z, y, np.ones(N))
    np.testing.assert_allclose(list(fitted.staged_predict(Q))[-1], fitted.predict(Q))
    arrays = kept(fitted, Z)
    assert isinstance(arrays, LinearAndTrees)
    np.testing.assert_allclose(arrays.predict(Q), fitted.predict(Q), rtol=1e-9)
    trees_alone = fitted_regressor(resized(new_regressor("boosting", N, 0), 100), Z, y, None)
    assert isinstance(trees_alone, HistGradientBoostingRegressor)
    errors = [
        min(np.mean((stage - truth) ** 2) for stage in each.staged_predict(Q))
        for each in (fitted, trees_alone)
    ]
    assert errors[0] < 0.8 * errors[1]


def test_only_columns_of_many_levels_leave_trees_all_of_them() -> None:
    assert isinstance(new_regressor("boosting", N, 0, np.ones(40, dtype=bool)), HistGradientBoostingRegressor)


def test_a_file_holds_both_parts(tmp_path: Path) -> None:
    frame, y = table(N, RNG)
    settings = {"trend": "boosting", "trend_role": "mean", "n_neighbors": 0, "n_experts": 1, "n_selected": 1}
    model = DistributedGPRegressor(kernel="rbf", optimizer=None, random_state=0, n_jobs=1, **settings)
    model.fit(frame, y)
    assert isinstance(model.model_.trend.predictors[0], LinearAndTrees)
    model.save(tmp_path / "m.gpx")
    np.testing.assert_array_equal(load(tmp_path / "m.gpx").predict(frame[:9]), model.predict(frame[:9]))

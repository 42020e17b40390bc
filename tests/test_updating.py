"""New rows and forgotten rows, against models that are built from the same rows."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import gpexperts
from gpexperts import updating
from gpexperts.updates import density_loss
from tests.joint.models import SETUPS, data, fixed

X, Y, X_NEW = data(160)
LABELS = np.arange(160) % 5


def model_of(setup: str, rows: Any = slice(None), **changes: Any):
    given = {} if setup == "exact" else {"partition": LABELS[rows]}
    return fixed(X[rows], Y[rows], setup, **(given | changes))


def assert_same(one, other, **tolerance: float) -> None:
    for a, b in zip(one.predict(X_NEW, return_std=True), other.predict(X_NEW, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, **({"rtol": 1e-10, "atol": 1e-10} | tolerance))


@pytest.mark.parametrize("setup", SETUPS)
def test_forgetting_leaves_the_model_that_never_saw_the_rows(setup: str) -> None:
    gone = np.array([3, 40, 41, 159])
    kept = np.delete(np.arange(160), gone)
    model = model_of(setup, selection="knn")
    model.predict(X_NEW)  # factors exist before
    never = model_of(setup, kept, selection="knn")
    # The selection by centroids stays as it was.
    never.model_ = updating.replace(never.model_, centroids=model.model_.centroids)
    never.set_params(n_jobs=1)
    assert_same(model.forget(gone), never)
    np.testing.assert_array_equal(np.flatnonzero(model.labels_ == -3), gone)
    assert model.predictor_.model.experts.offsets[-1] == 156


@pytest.mark.parametrize("setup", SETUPS)
def test_new_rows_go_to_the_nearest_part(setup: str) -> None:
    first = np.arange(120)
    model = model_of(setup, first)
    centroids = model.centroids_
    model.predict(X_NEW)
    model.partial_fit(X[120:], Y[120:], retrain="never")
    scaled = (X[120:, None] - centroids) / np.array([0.4, 0.7])
    expected = np.argmin((scaled**2).sum(axis=2), axis=1)
    np.testing.assert_array_equal(model.labels_[120:], expected)
    whole = fixed(X, Y, setup, **({} if setup == "exact" else {"partition": model.labels_}))
    whole.model_ = updating.replace(whole.model_, centroids=model.model_.centroids)
    whole.set_params(n_jobs=1)
    assert_same(model, whole)


def test_only_factors_of_changed_parts_are_made_again() -> None:
    model = model_of("experts", selection="all", n_selected=5)
    model.predict(X_NEW)
    before = dict(model.model_.experts._kept)
    assert len(before) == 5
    model.forget([0])  # of part 0
    after = model.model_.experts._kept
    assert set(after) == {1, 2, 3, 4}
    assert all(after[i] is before[i] for i in after)


def test_rows_are_numbered_by_arrival_and_numbers_are_not_used_again() -> None:
    model = model_of("own", np.arange(100))
    model.forget([99, 5]).partial_fit(X[100:102], Y[100:102], retrain="never")
    assert len(model.labels_) == 102
    assert model.model_.row_numbers.tolist() == [i for i in range(102) if i not in (5, 99)]
    assert sorted(model.model_.experts.numbers) == list(range(100))
    with pytest.raises(ValueError, match="Row 5 has weight 0, or has been forgotten already"):
        model.forget([5])
    model.forget([100])
    np.testing.assert_array_equal(model.loo().row, [i for i in range(102) if i not in (5, 99, 100)])


def test_parts_that_grow_are_split() -> None:
    model = model_of("both", np.arange(50), selection="nearest_rows")
    assert model.n_experts_ == 5
    rng = np.random.default_rng(0)
    more = rng.uniform(size=(300, 2))
    model.partial_fit(more, np.sin(5 * more[:, 0]), retrain="never")
    sizes = model.model_.experts.sizes
    assert len(sizes) > 5
    assert sizes.max() <= 20  # the largest part of the fit had 10 rows
    assert sizes.sum() == 350
    np.testing.assert_array_equal(np.bincount(model.labels_), sizes)
    np.testing.assert_allclose(model.model_.experts.X[np.argsort(model.model_.experts.numbers)][50:], more)
    for i in range(model.n_experts_):
        rows = np.flatnonzero(model.labels_ == i)
        assert set(model.model_.experts.numbers[slice(*model.model_.experts.offsets[i : i + 2])]) == set(rows)
    whole = fixed(
        np.concatenate([X[:50], more]), np.concatenate([Y[:50], np.sin(5 * more[:, 0])]), "both",
        partition=model.labels_, n_experts="auto", selection="nearest_rows",
    )  # fmt: skip
    whole.model_ = updating.replace(whole.model_, centroids=model.model_.centroids)
    whole.set_params(n_jobs=1)
    assert_same(model, whole)


def test_learned_selectors_are_kept_and_parts_are_not_split() -> None:
    model = model_of("experts", np.arange(50), selection="all", n_selected=5)
    selector = model.predictor_.selector
    model.partial_fit(X[50:], Y[50:], retrain="never")
    assert model.n_experts_ == 5
    assert model.predictor_.selector is selector


def test_partial_fit_before_fit_fits() -> None:
    model = model_of("own")
    again = clone(model).partial_fit(X, Y)
    assert_same(again, model, rtol=0, atol=0)


def test_retraining_now_is_a_new_fit_with_the_old_numbers() -> None:
    model = model_of("own", np.arange(100), partition="balanced")
    model.forget([7]).partial_fit(X[100:], Y[100:], retrain="now")
    kept = np.delete(np.arange(160), 7)
    assert_same(model, fixed(X[kept], Y[kept], "own", partition="balanced"))
    np.testing.assert_array_equal(model.model_.row_numbers, kept)
    assert model.labels_[7] == -3
    assert (np.delete(model.labels_, 7) >= 0).all()
    np.testing.assert_allclose(model.loo().residual + model.loo().mean, Y[kept])


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of every training after the first."""
    rows: list[int] = []
    real = updating._fitted_again

    def counted(model: Any, settings: Any) -> Any:
        rows.append(len(model.experts.X))
        return real(model, settings)

    monkeypatch.setattr(updating, "_fitted_again", counted)
    return rows


def test_retraining_is_decided_by_the_density_of_new_rows(trained: list[int]) -> None:
    rng = np.random.default_rng(0)
    X, Y, _ = data(1000)
    model = fixed(X, Y, "own")
    for scale in (1.0, 5.0):
        for _ in range(3):
            rows = rng.uniform(size=(100, 2))
            mean, std = model.predict(rows, return_std=True)
            model.partial_fit(rows, mean + scale * std * rng.normal(size=100))
        assert bool(trained) == (scale > 1)


def test_twice_as_many_rows_are_trained_again(trained: list[int]) -> None:
    model = model_of("own", np.arange(20), partition="balanced")
    for start in range(20, 160, 5):
        model.partial_fit(X[start : start + 5], Y[start : start + 5])
    assert trained == [40, 80, 160]
    model = model_of("own", np.arange(20), partition="balanced").partial_fit(X[20:], Y[20:], retrain="never")
    assert len(trained) == 3
    model.partial_fit(X[:1], Y[:1])  # rows that were learned before count too
    assert trained[3:] == [161]


def test_density_loss() -> None:
    rng = np.random.default_rng(0)
    assert density_loss(rng.normal(size=10**5), None) < 1e-3
    assert density_loss(2 * rng.normal(size=10**5), None) == pytest.approx(0.5 * (3 - np.log(4)), abs=0.03)
    assert density_loss(0.5 * rng.normal(size=10**5), None) > 0.2
    assert density_loss(2 * rng.normal(size=10**5), 2 * rng.normal(size=10**5)) < 1e-3
    assert density_loss(np.array([1.0, 1.0, 1e9]), None) < 0.5 * 40**2 / 3  # a gross error is clipped


def test_files_and_pickles_keep_updates(tmp_path) -> None:
    model = model_of("both", np.arange(120)).forget([4, 9]).partial_fit(X[120:], Y[120:], retrain="never")
    model.save(tmp_path / "model.gpx")
    for other in (gpexperts.load(tmp_path / "model.gpx"), pickle.loads(pickle.dumps(model))):
        assert_same(other, model)
        np.testing.assert_array_equal(other.labels_, model.labels_)
        with pytest.raises(ValueError, match="forgotten already"):
            other.forget([9])
        assert_same(other.forget([10]), pickle.loads(pickle.dumps(model)).forget([10]))


@pytest.mark.parametrize("calibrate", ["conformal", "jackknife"])
def test_calibrated_models(calibrate: str) -> None:
    model = fixed(X[:120], Y[:120], "own", calibrate=calibrate)
    model.partial_fit(X[120:], Y[120:], retrain="never")
    assert len(model.labels_) == 160
    held = np.flatnonzero(model.labels_ == -2)
    if len(held):
        model.forget(held[:2])
        assert len(model.predictor_.calibration.scores) == len(held) - 2
        with pytest.raises(ValueError, match="all rows that calibrate holds out"):
            model.forget(held[2:])
    assert model.interval_width(0.8, [1.0]) > 0
    np.testing.assert_allclose(model.loo().residual + model.loo().mean, Y[model.loo().row])


def test_bad_input() -> None:
    model = model_of("own")
    before = model.predict(X_NEW)
    cases: list[tuple[Any, type[Exception], str]] = [
        ([160], ValueError, "Row 160 is not a training row; they are numbered 0 to 159"),
        ([-1], ValueError, "Row -1"),
        ([1, 1], ValueError, "Row 1 is given twice"),
        ([0.5], TypeError, "row numbers"),
        (np.arange(160) < 3, TypeError, "np.flatnonzero"),
        (np.arange(160), ValueError, "all training rows"),
        (np.arange(0, 160, 5), ValueError, "all 32 rows of part 0"),
    ]
    for rows, error, message in cases:
        with pytest.raises(error, match=message):
            model.forget(rows)
    bad: list[tuple[Any, Any, str]] = [
        (X[:3, :1], Y[:3], "features"),
        (np.full((2, 2), np.nan), Y[:2], "NaN"),
        (X[:3], np.ones((3, 2)), "one output"),
        (X[:3], Y[:2], "inconsistent numbers"),
    ]
    for rows, targets, message in bad:
        with pytest.raises(ValueError, match=message):
            model.partial_fit(rows, targets)
    with pytest.raises(ValueError, match="retrain"):
        model.partial_fit(X[:3], Y[:3], retrain="maybe")
    for call in (lambda m: m.partial_fit(X[:3], Y[:3]), lambda m: m.forget([0])):
        with pytest.raises(ValueError, match="not available for aggregation='grbcm'"):
            call(fixed(X, Y, "experts", aggregation="grbcm"))
    np.testing.assert_array_equal(model.predict(X_NEW), before)


def test_an_interrupted_update_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("both")
    before, state = model.predict(X_NEW), model.model_

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(updating, "_updated", interrupt)
    for call in (lambda: model.partial_fit(X[:3], Y[:3], retrain="never"), lambda: model.forget([0])):
        with pytest.raises(KeyboardInterrupt):
            call()
    assert model.model_ is state
    np.testing.assert_array_equal(model.predict(X_NEW), before)


def test_functions_drawn_before_an_update_stay() -> None:
    model = model_of("own")
    functions = model.draw_functions(2, random_state=0)
    before = functions(X_NEW)
    model.partial_fit(X[:20] + 0.01, Y[:20], retrain="never")
    np.testing.assert_array_equal(functions(X_NEW), before)


def test_more_neighbours_than_rows(tmp_path) -> None:
    """Neighbours follow the rows, and a file of the model can be read."""
    model = model_of("own", np.arange(100), n_neighbors=120)
    model.forget([0, 1]).save(tmp_path / "fewer.gpx")
    assert gpexperts.load(tmp_path / "fewer.gpx").predictor_.tuning.n_neighbors == 98
    model.partial_fit(X[100:], Y[100:], retrain="never").save(tmp_path / "more.gpx")
    again = gpexperts.load(tmp_path / "more.gpx")
    assert again.predictor_.tuning.n_neighbors == 120
    assert_same(again, model)

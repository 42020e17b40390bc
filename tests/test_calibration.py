"""Intervals that held-out rows answer for: unseen rows stay unseen, and the promised coverage is there."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import gpexperts
from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import AGGREGATORS
from gpexperts.calibration import HELD_OUT, Calibration, draw_held_out
from gpexperts.exceptions import RefitRequiredError, TooFewRowsError

KERNEL = 1.0 * RBF(0.8) + WhiteKernel(0.1)
SETTINGS = {"kernel": KERNEL, "optimizer": None, "n_experts": 3, "n_selected": 2, "random_state": 0}
CALIBRATED = ["scale", "conformal"]


def rows(n: int = 240, n_outputs: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(n, 2))
    y = 50.0 + 9.0 * np.sin(X) @ rng.normal(size=(2, max(n_outputs, 1))) + rng.standard_t(4, size=(n, 1))
    return X, y if n_outputs else y[:, 0]


def model(**settings: object) -> DistributedGPRegressor:
    return DistributedGPRegressor(**(SETTINGS | settings))


X, Y = rows()
NEW = np.random.default_rng(1).uniform(-4, 4, size=(25, 2))


# ------------------------------------------------------------------------------------- the formulas


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_without_calibration_the_interval_is_the_gaussian_one(level: float) -> None:
    fitted = model().fit(X, Y)
    mean, std = fitted.predict(NEW, return_std=True)
    lower, upper = fitted.predict_interval(NEW, level)
    np.testing.assert_allclose(lower, norm.ppf((1 - level) / 2, mean, std), rtol=1e-12)
    np.testing.assert_allclose(upper, norm.ppf((1 + level) / 2, mean, std), rtol=1e-12)


@pytest.mark.parametrize("aggregation", AGGREGATORS)
def test_widths_are_those_of_a_model_that_never_had_the_held_out_rows(aggregation: str) -> None:
    """The same model by hand: fitted on the kept rows and their labels, asked about the held-out rows."""
    given = {"aggregation": aggregation, "selection": "knn"}
    conformal = model(**given, calibrate="conformal").fit(X, Y)
    out = conformal.labels_ == HELD_OUT
    assert 0 < out.sum() == 60
    by_hand = model(**given, n_experts="auto", partition=conformal.labels_[~out]).fit(X[~out], Y[~out])
    mean, std = by_hand.predict(X[out], return_std=True)
    scores = np.abs(Y[out] - mean) / std

    mean, std = by_hand.predict(NEW, return_std=True)
    for level in (0.5, 0.9, 0.95):
        enough = [q for q in scores if (scores <= q).sum() >= math.ceil(61 * level)]
        lower, upper = conformal.predict_interval(NEW, level)
        np.testing.assert_allclose(lower, mean - min(enough) * std, rtol=1e-9)
        np.testing.assert_allclose(upper, mean + min(enough) * std, rtol=1e-9)

    scaled = model(**given, calibrate="scale").fit(X, Y)
    np.testing.assert_allclose(scaled.predict(NEW), mean, rtol=1e-9)
    widened = std * np.sqrt(np.mean(scores**2))
    np.testing.assert_allclose(scaled.predict(NEW, return_std=True)[1], widened, rtol=1e-9)
    np.testing.assert_allclose(scaled.explain(NEW).std, widened, rtol=1e-9)
    np.testing.assert_allclose(scaled.predict_interval(NEW)[1], norm.ppf(0.975, mean, widened), rtol=1e-9)
    for either in (scaled, conformal):
        latent = by_hand.predict(NEW, return_std=True, latent=True)[1]
        np.testing.assert_allclose(either.predict(NEW, return_std=True, latent=True)[1], latent, rtol=1e-9)


@given(n=st.integers(1, 400), thousandths=st.integers(1, 999))
def test_the_rank_is_the_smallest_that_keeps_the_promise(n: int, thousandths: int) -> None:
    calibration = Calibration(np.arange(1.0, n + 1)[:, None])
    possible = 1000 * n >= thousandths * (n + 1)
    if not possible:
        with pytest.raises(TooFewRowsError):
            calibration.quantile(thousandths / 1000)
        return
    rank = int(calibration.quantile(thousandths / 1000)[0])
    assert 1000 * rank >= thousandths * (n + 1) > 1000 * (rank - 1)


@pytest.mark.parametrize(("n", "held_out"), [(20, 5), (240, 60), (700, 100), (5_000, 500), (10**6, 2000)])
def test_a_tenth_is_held_out_within_reason(n: int, held_out: int) -> None:
    assert draw_held_out(n, np.random.RandomState(0)).sum() == held_out


@pytest.mark.parametrize("calibrate", CALIBRATED)
def test_held_out_targets_change_nothing_but_widths(calibrate: str) -> None:
    """Also with everything learned: units, kernel, parts, whom to ask."""
    learned = {"kernel": "rbf", "optimizer": "lbfgs", "n_selected": "auto"}
    before = model(**learned, calibrate=calibrate).fit(X, Y)
    wild = Y + 100.0 * (before.labels_ == HELD_OUT)
    after = model(**learned, calibrate=calibrate).fit(X, wild)
    np.testing.assert_array_equal(before.labels_, after.labels_)
    for of_before, of_after in zip(
        before.predict(NEW, return_std=True, latent=True),
        after.predict(NEW, return_std=True, latent=True),
        strict=True,
    ):
        np.testing.assert_array_equal(of_before, of_after)
    assert np.all(
        np.diff(after.predict_interval(NEW), axis=0) > np.diff(before.predict_interval(NEW), axis=0)
    )


def test_several_outputs_are_calibrated_one_by_one() -> None:
    X, Y = rows(n_outputs=3)
    for calibrate in CALIBRATED:
        together = model(calibrate=calibrate).fit(X, Y)
        lower, upper = together.predict_interval(NEW, 0.9)
        assert lower.shape == upper.shape == (25, 3)
        for k in range(3):
            alone = model(calibrate=calibrate).fit(X, Y[:, k]).predict_interval(NEW, 0.9)
            np.testing.assert_allclose([lower[:, k], upper[:, k]], alone, rtol=1e-9)


@pytest.mark.parametrize("calibrate", CALIBRATED)
def test_intervals_follow_the_units_of_the_target(calibrate: str) -> None:
    plain = model(calibrate=calibrate).fit(X, Y).predict_interval(NEW)
    changed = model(calibrate=calibrate).fit(X, -3.0 * Y + 7.0).predict_interval(NEW)
    np.testing.assert_allclose(changed[0], -3.0 * plain[1] + 7.0, rtol=1e-9)
    np.testing.assert_allclose(changed[1], -3.0 * plain[0] + 7.0, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::gpexperts.exceptions.ConstantTargetWarning")
@pytest.mark.parametrize("calibrate", CALIBRATED)
def test_a_constant_target_is_inside(calibrate: str) -> None:
    lower, upper = model(calibrate=calibrate).fit(X, np.full(len(X), 4.0)).predict_interval(NEW)
    assert np.all((lower <= 4.0) & (upper >= 4.0) & (upper - lower < 1e-9))


# ------------------------------------------------------------------------------- the promised coverage


def smooth(X: np.ndarray) -> np.ndarray:
    return np.sin(2 * X[:, 0]) + X[:, 1]


WRONG: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "heavy tails": lambda rng, X: smooth(X) + 0.3 * rng.standard_t(2, size=len(X)),
    "noise that grows": lambda rng, X: smooth(X) + np.exp(2 * X[:, 0] - 1) * rng.normal(size=len(X)),
    "jumps where the kernel is smooth": lambda rng, X: (
        np.sign(np.sin(9 * X[:, 0])) * np.sign(X[:, 1]) + 0.05 * rng.normal(size=len(X))
    ),
}
DRAWS = 200
LEVELS = (0.5, 0.8, 0.9)


def covered(
    draw: Callable[..., np.ndarray], calibrate: str | None, aggregation: str = "npae"
) -> dict[float, int]:
    """In how many independent draws the interval of one new row holds its target, by level."""
    hits = dict.fromkeys(LEVELS, 0)
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, size=(81, 2))
        y = draw(rng, X)
        fitted = DistributedGPRegressor(
            kernel=1.0 * RBF(0.7) + WhiteKernel(0.01), optimizer=None, partition=np.arange(80) % 3,
            selection="all", aggregation=aggregation, training="full", calibrate=calibrate,
            random_state=seed, n_jobs=1,
        ).fit(X[:80], y[:80])  # fmt: skip
        for level in LEVELS:
            lower, upper = fitted.predict_interval(X[80:], level)
            hits[level] += int(lower[0] <= y[80] <= upper[0])
    return hits


def honest(hits: dict[float, int], chance: Callable[[float], float]) -> dict[float, bool]:
    """Whether chance alone explains the hits; a right one is called wrong twice in 10,000 times."""
    return {
        level: bool(binom.ppf(1e-4, DRAWS, chance(level)) <= n <= binom.ppf(1 - 1e-4, DRAWS, chance(level)))
        for level, n in hits.items()
    }


@pytest.mark.parametrize(
    ("wrong", "aggregation"), [*((name, "npae") for name in WRONG), ("noise that grows", "poe")]
)
def test_conformal_coverage_holds_on_data_the_model_is_wrong_about(wrong: str, aggregation: str) -> None:
    """20 rows are held out, so that the chance is exactly ⌈21 · level⌉ / 21: no less, and no more."""
    hits = covered(WRONG[wrong], "conformal", aggregation)
    assert all(honest(hits, lambda level: math.ceil(21 * level) / 21).values()), hits


def test_the_gaussian_intervals_of_such_a_model_are_not_honest() -> None:
    """So that the test above could fail."""
    hits = covered(WRONG["noise that grows"], None, "poe")
    assert not any(honest(hits, lambda level: level).values()), hits


def test_a_scale_mends_a_variance_that_is_wrong_everywhere_alike() -> None:
    """Noise of ten times the deviation that the kernel expects."""

    def noise(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
        return rng.normal(size=len(X))

    assert all(honest(covered(noise, "scale"), lambda level: level).values())
    assert not any(honest(covered(noise, None), lambda level: level).values())


# ------------------------------------------------------------------------------ settings and their errors


def test_other_settings_are_calibrated_by_the_same_rows() -> None:
    """Comparisons share one fit: the widths are those of a fresh fit."""
    shared = model(calibrate="conformal").fit(X, Y)
    for settings in ({"aggregation": "poe"}, {"n_selected": 1}, {"n_selected": 1.0}, {"selection": "ggm"}):
        fresh = model(calibrate="conformal", **settings).fit(X, Y)
        np.testing.assert_array_equal(
            shared.set_params(**settings).predict_interval(NEW), fresh.predict_interval(NEW)
        )
        shared.set_params(aggregation="npae", n_selected=2, selection="auto")


@pytest.mark.parametrize("before", [None, *CALIBRATED])
@pytest.mark.parametrize("after", [None, *CALIBRATED])
def test_a_changed_calibration_needs_a_refit_and_says_so(before: str | None, after: str | None) -> None:
    fitted = model(calibrate=before).fit(X, Y).set_params(calibrate=after)
    if before == after:
        fitted.predict_interval(NEW)
        return
    for ask in (fitted.predict, fitted.predict_interval, fitted.explain):
        with pytest.raises(RefitRequiredError, match=f"calibrate={after!r}.*fitted with {before!r}"):
            ask(NEW)
    refitted = fitted.fit(X, Y).predict_interval(NEW)
    np.testing.assert_array_equal(refitted, model(calibrate=after).fit(X, Y).predict_interval(NEW))
    assert (fitted.labels_ == HELD_OUT).any() == (after is not None)


@pytest.mark.parametrize("calibrate", CALIBRATED)
def test_files_pickles_and_clones_keep_the_calibration(calibrate: str, tmp_path) -> None:
    fitted = model(calibrate=calibrate).fit(X, Y)
    fitted.save(tmp_path / "model.gpx")
    expected = fitted.predict_interval(NEW)
    for again in (gpexperts.load(tmp_path / "model.gpx"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(again.predict_interval(NEW), expected)
        again.set_params(aggregation="rbcm")
        np.testing.assert_array_equal(
            again.predict_interval(NEW),
            clone(fitted).set_params(aggregation="rbcm").fit(X, Y).predict_interval(NEW),
        )


@pytest.mark.parametrize("calibrate", ["Scale", "", 1, True, ["scale"], np.array(["scale"])])
def test_an_unknown_calibration_is_named(calibrate: object) -> None:
    with pytest.raises(ValueError, match="calibrate must be None, 'scale' or 'conformal', got"):
        model(calibrate=calibrate).fit(X, Y)


@pytest.mark.parametrize("calibrate", [None, *CALIBRATED])
def test_a_level_must_be_a_probability(calibrate: str | None) -> None:
    fitted = model(calibrate=calibrate).fit(X, Y)
    for level in (0, 1, 95, -0.1, np.nan):
        with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
            fitted.predict_interval(NEW, level)
    with pytest.raises(TypeError, match="level must be a number"):
        fitted.predict_interval(NEW, "0.9")


def test_a_level_that_the_held_out_rows_cannot_serve_is_an_error_with_a_way_out() -> None:
    fitted = model(calibrate="conformal").fit(X, Y)
    with pytest.raises(TooFewRowsError, match=r"level=0.99 needs at least 99 rows.*has 60.*at most 0\.9836"):
        fitted.predict_interval(NEW, 0.99)
    fitted.predict_interval(NEW, 0.9836)


def test_too_few_rows_to_hold_some_out_are_an_error() -> None:
    with pytest.raises(ValueError, match="at least 20 of them, got 19"):
        model(calibrate="scale").fit(X[:19], Y[:19])


def test_given_labels_are_of_all_rows_and_no_part_is_lost() -> None:
    labels = np.arange(240) % 3
    fitted = model(calibrate="scale", n_experts="auto", partition=labels).fit(X, Y)
    kept = fitted.labels_ != HELD_OUT
    np.testing.assert_array_equal(fitted.labels_[kept], labels[kept])
    with pytest.raises(ValueError, match=r"one label per row, shape \(240,\)"):
        model(calibrate="scale", n_experts="auto", partition=labels[:200]).fit(X, Y)
    labels[np.flatnonzero(~kept)[0]] = 7
    with pytest.raises(ValueError, match=r"All rows of part 7 were drawn to be held out.*only 1"):
        model(calibrate="scale", n_experts="auto", partition=labels).fit(X, Y)


@pytest.mark.parametrize("settings", [{}, {"share_inputs": False}])
def test_dask_collections_are_refused(settings: dict[str, object]) -> None:
    da = pytest.importorskip("dask.array")
    collection = da.from_array(X, chunks=(100, 2)), da.from_array(Y, chunks=100)
    with pytest.raises(ValueError, match="calibrate='scale' cannot be had for dask collections"):
        model(calibrate="scale", **settings).fit(*collection)

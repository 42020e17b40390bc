"""Calibration: held-out rows are not learned from, and intervals have the nominal coverage.

`TestContract` runs for every member of `METHODS`.
"""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm, t
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import AGGREGATORS
from gpexperts.calibration import HELD_OUT, HOLDING, METHODS, Calibration, draw_held_out, kept_labels
from gpexperts.engines import ThreadEngine
from gpexperts.exceptions import BoundWarning, FewRowsWarning, RefitRequiredError, TooFewRowsError
from gpexperts.prepare import held_out
from gpexperts.tuning import Setups, scores_of

KERNEL = 80.0 * RBF(1.4) + WhiteKernel(8.0)
SETTINGS = {
    "kernel": KERNEL, "optimizer": None, "n_experts": 3, "n_selected": 2, "n_neighbors": 0,
    "n_jobs": 1, "random_state": 0,
}  # fmt: skip
CALIBRATED = HOLDING


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
def test_without_calibration_widths_are_quantiles_of_held_out_residuals(level: float) -> None:
    fitted = model().fit(X, Y)
    _, std = fitted.predict(NEW, return_std=True)
    lower, upper = fitted.predict_interval(NEW, level)
    width = fitted.interval_width(level, std)
    np.testing.assert_allclose(upper - lower, 2 * width * std, rtol=1e-12)
    assert np.ptp(width) == 0  # too few rows for groups
    predictor = fitted.predictor_
    held = held_out(fitted.model_, predictor.settings, predictor.selector)
    scores = scores_of(held, Setups((2,), (0,)), predictor.settings.aggregator, ThreadEngine(1))
    below = np.mean(scores.scores[:, 0] <= width[0])
    assert below == pytest.approx(level, abs=1.5 / len(scores.scores))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_with_few_rows_and_given_hyperparameters_the_interval_is_the_gaussian_one(level: float) -> None:
    fitted = model().fit(X[:45], Y[:45])  # too few to hold any out
    mean, std = fitted.predict(NEW, return_std=True)
    lower, upper = fitted.predict_interval(NEW, level)
    np.testing.assert_allclose(lower, norm.ppf((1 - level) / 2, mean, std), rtol=1e-12)
    np.testing.assert_allclose(upper, norm.ppf((1 + level) / 2, mean, std), rtol=1e-12)


@pytest.mark.parametrize("aggregation", AGGREGATORS)
def test_widths_are_those_of_a_model_that_never_had_the_held_out_rows(aggregation: str) -> None:
    """By hand: a model of the kept rows and their labels predicts the held-out rows."""
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
    scaled_std = std * np.sqrt(np.mean(scores**2))
    np.testing.assert_allclose(scaled.predict(NEW, return_std=True)[1], scaled_std, rtol=1e-9)
    np.testing.assert_allclose(scaled.explain(NEW).std, scaled_std, rtol=1e-9)
    np.testing.assert_allclose(scaled.predict_interval(NEW)[1], norm.ppf(0.975, mean, scaled_std), rtol=1e-9)
    for either in (scaled, conformal):
        latent = by_hand.predict(NEW, return_std=True, latent=True)[1]
        np.testing.assert_allclose(either.predict(NEW, return_std=True, latent=True)[1], latent, rtol=1e-9)


@given(n=st.integers(1, 400), thousandths=st.integers(1, 999))
def test_the_rank_is_the_smallest_with_nominal_coverage(n: int, thousandths: int) -> None:
    calibration = Calibration(np.arange(1.0, n + 1)[:, None], np.ones((n, 1)))
    possible = 1000 * n >= thousandths * (n + 1)
    if not possible:
        with pytest.raises(TooFewRowsError):
            calibration.quantile(thousandths / 1000)
        return
    rank = int(calibration.quantile(thousandths / 1000)[0])
    assert 1000 * rank >= thousandths * (n + 1) > 1000 * (rank - 1)


@pytest.mark.parametrize(("n", "held_out"), [(20, 5), (240, 60), (700, 100), (5_000, 500), (10**6, 2000)])
def test_a_tenth_of_the_rows_is_held_out_within_limits(n: int, held_out: int) -> None:
    drawn = draw_held_out(n, np.random.RandomState(0))
    assert len(drawn) == held_out
    assert (np.diff(drawn) > 0).all()
    assert 0 <= drawn[0] <= drawn[-1] < n


@pytest.mark.parametrize("calibrate", CALIBRATED)
def test_held_out_targets_change_nothing_but_widths(calibrate: str) -> None:
    """Also where everything is learned: units, kernel, parts, selector, K."""
    learned = {"kernel": "rbf", "optimizer": "lbfgs", "n_selected": "auto"}
    before = model(**learned, calibrate=calibrate).fit(X[:120], Y[:120])
    wild = Y[:120] + 100.0 * (before.labels_ == HELD_OUT)
    after = model(**learned, calibrate=calibrate).fit(X[:120], wild)
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


# --------------------------------------------------------------------------------------- the contract


class TestContract:
    """What holds for every method."""

    @pytest.fixture(params=METHODS, ids=str)
    def calibrate(self, request: pytest.FixtureRequest) -> str | None:
        return request.param

    def test_intervals_are_nested(self, calibrate: str | None) -> None:
        fitted = model(calibrate=calibrate).fit(X, Y)
        lower, upper = np.moveaxis([fitted.predict_interval(NEW, level) for level in (0.3, 0.6, 0.9)], 1, 0)
        assert (np.diff(lower, axis=0) <= 0).all()
        assert (np.diff(upper, axis=0) >= 0).all()
        assert (lower < upper).all()

    def test_the_mean_is_inside_and_not_changed(self, calibrate: str | None) -> None:
        fitted = model(calibrate=calibrate, selection="knn").fit(X, Y)
        kept = fitted.labels_ != HELD_OUT
        plain = model(selection="knn", n_experts="auto", partition=fitted.labels_[kept]).fit(X[kept], Y[kept])
        np.testing.assert_allclose(fitted.predict(NEW), plain.predict(NEW), rtol=1e-9)
        lower, upper = fitted.predict_interval(NEW, 0.1)
        assert ((lower <= plain.predict(NEW)) & (plain.predict(NEW) <= upper)).all()

    def test_half_the_width_is_a_multiple_of_std(self, calibrate: str | None) -> None:
        fitted = model(calibrate=calibrate).fit(X, Y)
        lower, upper = fitted.predict_interval(NEW, 0.8)
        _, std = fitted.predict(NEW, return_std=True)
        np.testing.assert_allclose((upper - lower) / 2, fitted.interval_width(0.8, std) * std, rtol=1e-9)

    def test_the_unit_of_the_target_does_not_matter(self, calibrate: str | None) -> None:
        plain = model(calibrate=calibrate).fit(X, Y).predict_interval(NEW)
        kernel = 9.0 * 80.0 * RBF(1.4) + WhiteKernel(9.0 * 8.0)
        changed = model(calibrate=calibrate, kernel=kernel).fit(X, -3.0 * Y + 7.0).predict_interval(NEW)
        np.testing.assert_allclose(changed[0], -3.0 * plain[1] + 7.0, rtol=1e-7)
        np.testing.assert_allclose(changed[1], -3.0 * plain[0] + 7.0, rtol=1e-7)

    def test_several_outputs_are_calibrated_one_by_one(self, calibrate: str | None) -> None:
        X, Y = rows(n_outputs=3)
        lower, upper = model(calibrate=calibrate).fit(X, Y).predict_interval(NEW, 0.9)
        assert lower.shape == upper.shape == (25, 3)
        for k in range(3):
            single = model(calibrate=calibrate).fit(X, Y[:, k]).predict_interval(NEW, 0.9)
            np.testing.assert_allclose([lower[:, k], upper[:, k]], single, rtol=1e-9)

    @pytest.mark.filterwarnings("ignore::gpexperts.exceptions.ConstantTargetWarning")
    def test_a_constant_target_is_inside(self, calibrate: str | None) -> None:
        lower, upper = model(calibrate=calibrate).fit(X, np.full(len(X), 4.0)).predict_interval(NEW)
        assert np.all((lower <= 4.0) & (upper >= 4.0) & (upper - lower < 1e-9))

    def test_a_level_must_be_a_probability(self, calibrate: str | None) -> None:
        fitted = model(calibrate=calibrate).fit(X, Y)
        for level in (0, 1, 95, -0.1, np.nan):
            with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
                fitted.predict_interval(NEW, level)
        with pytest.raises(TypeError, match="level must be a number"):
            fitted.predict_interval(NEW, "0.9")

    def test_pickles_keep_the_calibration(self, calibrate: str | None) -> None:
        fitted = model(calibrate=calibrate).fit(X, Y)
        expected = fitted.predict_interval(NEW)
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(again.predict_interval(NEW), expected)
        again.set_params(aggregation="rbcm")
        fresh = clone(fitted).set_params(aggregation="rbcm").fit(X, Y)
        np.testing.assert_array_equal(again.predict_interval(NEW), fresh.predict_interval(NEW))

    def test_no_queries(self, calibrate: str | None) -> None:
        lower, upper = model(calibrate=calibrate).fit(X, Y).predict_interval(NEW[:0])
        assert lower.shape == upper.shape == (0,)

    @pytest.mark.parametrize("after", METHODS, ids=str)
    def test_another_method_needs_a_refit(self, calibrate: str | None, after: str | None) -> None:
        fitted = model(calibrate=calibrate).fit(X, Y).set_params(calibrate=after)
        fresh = model(calibrate=after).fit(X, Y).predict_interval(NEW)
        if calibrate != after and {calibrate, after} & set(HOLDING):
            for method in (fitted.predict, fitted.predict_interval, fitted.explain):
                with pytest.raises(
                    RefitRequiredError, match=f"calibrate={after!r}.*fitted with {calibrate!r}"
                ):
                    method(NEW)
            fitted.fit(X, Y)
        np.testing.assert_array_equal(fitted.predict_interval(NEW), fresh)
        assert (fitted.labels_ == HELD_OUT).any() == (after in HOLDING)


# ------------------------------------------------------------------------------- the nominal coverage


def smooth(X: np.ndarray) -> np.ndarray:
    return np.sin(2 * X[:, 0]) + X[:, 1]


WRONG: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "heavy tails": lambda rng, X: smooth(X) + 0.3 * rng.standard_t(2, size=len(X)),
    "noise that grows": lambda rng, X: smooth(X) + np.exp(2 * X[:, 0] - 1) * rng.normal(size=len(X)),
    "jumps where the kernel is smooth": lambda rng, X: (
        np.sign(np.sin(9 * X[:, 0])) * np.sign(X[:, 1]) + 0.05 * rng.normal(size=len(X))
    ),
}
DRAWS, FEW_DRAWS = 150, 100
"""To agree with a probability, and to contradict one."""
LEVELS = (0.5, 0.8, 0.9)


def covered(
    draw: Callable[..., np.ndarray], calibrate: str | None, aggregation: str = "npae", draws: int = DRAWS
) -> dict[float, int]:
    """Number of independent draws in which the interval of one new row contains its target, by level."""
    hits = dict.fromkeys(LEVELS, 0)
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, size=(81, 2))
        y = draw(rng, X)
        fitted = DistributedGPRegressor(
            kernel=1.0 * RBF(0.7) + WhiteKernel(0.01), optimizer=None, partition=np.arange(80) % 3,
            selection="all", aggregation=aggregation, training="full", n_neighbors=0,
            calibrate=None if calibrate == "gaussian" else calibrate, random_state=seed, n_jobs=1,
        ).fit(X[:80], y[:80])  # fmt: skip
        gaussian = fitted.predict(X[80:], return_std=True) if calibrate == "gaussian" else None
        for level in LEVELS:
            interval = (
                fitted.predict_interval(X[80:], level)
                if gaussian is None
                else norm.interval(level, *gaussian)
            )
            lower, upper = interval
            hits[level] += int(lower[0] <= y[80] <= upper[0])
    return hits


def nominal(
    hits: dict[float, int], chance: Callable[[float], float], draws: int = DRAWS
) -> dict[float, bool]:
    """Whether the hits agree with a probability; the test errs twice in 10,000 times."""
    low, high = ({level: binom.ppf(p, draws, chance(level)) for level in hits} for p in (1e-4, 1 - 1e-4))
    return {level: bool(low[level] <= n <= high[level]) for level, n in hits.items()}


@pytest.mark.parametrize(
    ("wrong", "aggregation"),
    [
        ("noise that grows", "npae"),
        pytest.param("noise that grows", "poe", marks=pytest.mark.slow),
        *(pytest.param(name, "npae", marks=pytest.mark.slow) for name in WRONG if name != "noise that grows"),
    ],
)
def test_conformal_coverage_is_nominal_for_a_wrong_model(wrong: str, aggregation: str) -> None:
    """20 rows are held out, so that the probability is exactly ⌈21 · level⌉ / 21: no less, and no more."""
    hits = covered(WRONG[wrong], "conformal", aggregation)
    assert all(nominal(hits, lambda level: math.ceil(21 * level) / 21).values()), hits


def test_gaussian_coverage_of_a_wrong_model_is_not_nominal() -> None:
    """So that the test above could fail."""
    hits = covered(WRONG["noise that grows"], "gaussian", "poe", FEW_DRAWS)
    assert not any(nominal(hits, lambda level: level, FEW_DRAWS).values()), hits


def test_a_scale_corrects_a_variance_that_is_wrong_by_a_factor() -> None:
    """Noise of ten times the standard deviation of the kernel."""

    def noise(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
        return rng.normal(size=len(X))

    assert all(nominal(covered(noise, "scale"), lambda level: level).values())
    hits = covered(noise, "gaussian", draws=FEW_DRAWS)
    assert not any(nominal(hits, lambda level: level, FEW_DRAWS).values())


# ------------------------------------------------------------------------------ settings and their errors


def test_other_settings_are_calibrated_by_the_same_rows() -> None:
    """The widths are those of a new fit with these settings."""
    shared = model(calibrate="conformal").fit(X, Y)
    for settings in ({"aggregation": "poe"}, {"n_selected": 1}, {"n_selected": 1.0}, {"selection": "ggm"}):
        fresh = model(calibrate="conformal", **settings).fit(X, Y)
        np.testing.assert_array_equal(
            shared.set_params(**settings).predict_interval(NEW), fresh.predict_interval(NEW)
        )
        shared.set_params(aggregation="npae", n_selected=2, selection="auto")


@pytest.mark.parametrize("calibrate", ["Scale", "", 1, True, ["scale"], np.array(["scale"])])
def test_an_unknown_calibration_is_named(calibrate: object) -> None:
    with pytest.raises(ValueError, match="calibrate must be None, 'scale', 'conformal' or 'jackknife', got"):
        model(calibrate=calibrate).fit(X, Y)


def test_a_level_that_needs_more_held_out_rows_is_refused() -> None:
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


def test_kept_labels() -> None:
    held_out = np.array([1, 4])
    np.testing.assert_array_equal(kept_labels(np.array([0, 1, 1, 0, 0]), held_out), [0, 1, 0])
    with pytest.raises(ValueError, match="All rows of part 2 were drawn"):
        kept_labels(np.array([0, 2, 1, 0, 0]), held_out)


def test_scores_of_zero_leave_the_variance_as_it_is() -> None:
    scores = np.array([[0.0, 1.0], [0.0, 3.0]])
    np.testing.assert_array_equal(Calibration(scores, np.ones((2, 2))).variance_scale, [1.0, 5.0])


# ------------------------------------------------------------------- noise that changes, and few rows


def test_rows_with_similar_std_have_their_own_quantile() -> None:
    """The std is 3 times too large for small ones and right for large ones."""
    rng = np.random.default_rng(0)
    std = np.exp(rng.uniform(-2, 2, size=(20_000, 1)))
    scores = np.abs(rng.standard_normal(std.shape)) * np.where(std < 1, 1 / 3, 1.0)
    widths = Calibration(scores, std).widths(0.95)
    np.testing.assert_allclose(widths([0.14, 0.2, 5.0, 7.0]), [1.96 / 3, 1.96 / 3, 1.96, 1.96], rtol=0.05)
    np.testing.assert_allclose(widths.in_units(np.array([10.0]))(10 * std), widths(std), rtol=1e-12)
    np.testing.assert_array_equal(widths.times(np.array([2.0]))(std), 2 * widths(std))
    fine = widths(np.exp(np.linspace(-3, 3, 10_001)))
    assert np.abs(np.diff(fine)).max() < 0.01  # continuous
    quantile = Calibration(scores, std).quantile(0.95, widths)
    assert quantile[0] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(("n", "spread"), [(199, 1.0), (2000, 0.01)])
def test_few_rows_or_equal_stds_have_one_quantile(n: int, spread: float) -> None:
    rng = np.random.default_rng(0)
    scores, std = np.abs(rng.standard_normal((n, 1))), np.exp(spread * rng.standard_normal((n, 1)))
    widths = Calibration(scores, std).widths(0.9)(np.array([0.1, 1.0, 10.0]))
    np.testing.assert_allclose(widths, np.quantile(scores, 0.9, method="weibull"), rtol=1e-12)


def noisy(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows whose noise grows fiftyfold along the first input, and its standard deviation."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    sigma = 0.02 * np.exp(np.log(50) * (X[:, 0] + 3) / 6)
    return X, np.sin(1.5 * X[:, 0]) + 0.5 * np.cos(X[:, 1]) + sigma * rng.standard_normal(n), sigma


@pytest.mark.parametrize("calibrate", [None, "conformal"])
def test_intervals_hold_where_the_noise_is_large(calibrate: str | None) -> None:
    """`python scripts/noise_coverage.py` does this for 20 fits with all defaults, and four kinds of noise."""
    inside, chosen = [], {"n_experts": 1, "n_selected": "auto", "kernel": 1.0 * RBF(1.5) + WhiteKernel(0.1)}
    for seed in range(3):
        X, y, sigma = noisy(seed, 2600)
        fitted = model(**chosen, calibrate=calibrate).fit(X[:600], y[:600])
        lower, upper = fitted.predict_interval(X[600:])
        hit = (lower <= y[600:]) & (y[600:] <= upper)
        inside.append(hit[sigma[600:] > np.quantile(sigma[600:], 2 / 3)].mean())
    assert np.mean(inside) > 0.92


@pytest.mark.parametrize("n", [3, 4])
def test_three_or_four_rows_give_wide_intervals_and_a_warning(n: int) -> None:
    inside = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, size=(n + 50, 1))
        y = 7.0 * (np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(n + 50))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BoundWarning)
            with pytest.warns(FewRowsWarning, match=f"fitted to {n} rows, which determine neither the noise"):
                fitted = DistributedGPRegressor(kernel="rbf").fit(X[:n], y[:n])
        lower, upper = fitted.predict_interval(X[n:])
        assert (upper - lower >= 2 * t.ppf(0.975, n - 1) * y[:n].std(ddof=1)).all()
        inside.append(np.mean((lower <= y[n:]) & (y[n:] <= upper)))
    assert np.mean(inside) > 0.92

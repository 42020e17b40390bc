"""What happens to rows before everything else: targets are transformed, and a trend is fitted.

    rows ─► z = T(y) ─► trend: values by cross-fitting ─► inputs (X, trend), targets z − trend

What "auto" leaves open is chosen by the log density of rows given their neighbours (`training.compare`), a
trend also by the error, before the model is trained: the model itself is trained once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpexperts.choices import Choice, margins
from gpexperts.columns import ColumnEncoder
from gpexperts.engines import Engine, ThreadEngine
from gpexperts.exceptions import TrendError
from gpexperts.outliers import Outliers, gross_share, guess_outliers
from gpexperts.progress import reporters
from gpexperts.rows.base import SAMPLE_ROWS, RowSource
from gpexperts.settings import Settings
from gpexperts.target import NAMES as TRANSFORMS
from gpexperts.target import TargetTransform, fitted_transform
from gpexperts.training.compare import Scored, quick_score
from gpexperts.trend import ROLES, CrossFitted, cross_fit
from gpexperts.trend.regressors import NAMES
from gpexperts.validation import is_auto

__all__ = ["Prepared", "prepare_rows"]

WORTHWHILE = 0.005
"""Nats per row that a trend or a transformed target must gain, beside half its standard error."""
CLEARLY = 0.05
"""Nats per row that Student-t noise must gain, beside one standard error of the gain."""
SMALLER = 0.95
"""…and its mean absolute error relative to that with Gaussian noise, at most."""
GROSS_ERROR = 6.0
"""Standardised residuals are clipped to this for that comparison: wrong targets cannot be predicted."""
FEWEST_ROWS_OF_NOISE = 100
"""Of fewer rows, "auto" does not look for outliers."""
FEWEST_ROWS = 500
"""Of fewer rows, "auto" tries no trend."""
HOPELESS = 1.2
"""A trend whose error is so many times that of predictions from neighbours is given up after one fold."""
QUICK_KERNEL = "matern32"
"""The kernel of comparisons, where the setting names none."""

_GIVEN = "the hyperparameters are given, and they are those of the target itself"


@dataclass(frozen=True)
class Prepared:
    """Rows whose inputs and targets are those of the experts."""

    rows: RowSource
    target: TargetTransform | None = None
    outliers: Outliers | None = None
    """Where the noise is Student-t."""
    trend: CrossFitted | None = None
    choices: dict[str, Choice] = field(default_factory=dict)


def prepare_rows(
    rows: RowSource, settings: Settings, random_state: np.random.RandomState, encoder: ColumnEncoder
) -> Prepared:
    """Transform the targets and fit the trend that the settings name, or choose them.

    Parameters
    ----------
    rows : RowSource
        In the user's units, without those that calibrate intervals.
    settings : Settings
    random_state : RandomState
    encoder : ColumnEncoder
        That has made the inputs.
    """
    seed = int(random_state.randint(2**31 - 1))
    rows, target, choices = _with_target(rows, settings, seed, encoder)
    rows, outliers, more = _with_noise(rows, settings, seed, encoder)
    prepared = _with_trend(rows, settings, seed, random_state, encoder)
    choices = {**choices, **more, **prepared.choices}
    return replace(prepared, target=target, outliers=outliers, choices=choices)


def _with_noise(
    rows: RowSource, settings: Settings, seed: int, encoder: ColumnEncoder
) -> tuple[RowSource, Outliers | None, dict[str, Choice]]:
    """Guess outliers if the noise is Student-t, or if "auto" finds that it is."""
    setting = settings["noise"]
    if setting == "gaussian":
        return rows, None, {}
    if is_auto(setting):
        reason = _no_choice_of_noise(rows, settings, seed, encoder)
        if reason:
            return rows, None, {"noise": Choice("gaussian", reason)}
    reporters().start("looking for outliers")
    outliers = guess_outliers(rows, np.random.RandomState(seed), encoder.scale_index)
    marked = rows.mapped(outliers)
    if not is_auto(setting):
        return marked, outliers, {}
    kernel, layout = _quick_kernel(settings), encoder.layout(rows.n_features)
    scores = {
        name: quick_score(
            source, kernel, seed, _engine(settings), layout, clipped=GROSS_ERROR, by_weight=False
        )
        for name, source in (("gaussian", rows), ("student", marked))
    }
    gain, error = scores["student"].gain_over(scores["gaussian"])
    # Outliers spoil the predictions of other rows. Where errors grow without them, they are no outliers.
    absolute = {name: float(np.mean(np.sqrt(score.squared_error))) for name, score in scores.items()}
    smaller = absolute["student"] < SMALLER * absolute["gaussian"]
    best = "student" if smaller and gain > CLEARLY + error else "gaussian"
    choice = Choice(best, _reason(best, scores), _evidence(scores, {}))
    reporters().message(1, f"noise: {choice}")
    chosen = (marked, outliers) if best == "student" else (rows, None)
    return *chosen, {"noise": choice}


def _no_choice_of_noise(rows: RowSource, settings: Settings, seed: int, encoder: ColumnEncoder) -> str:
    """Why "auto" is Gaussian noise, without a comparison; empty where one is made."""
    if settings.kernel_is_object or settings["optimizer"] is None:
        return _GIVEN
    if rows.n < FEWEST_ROWS_OF_NOISE:
        return f"{rows.n} rows; of fewer than {FEWEST_ROWS_OF_NOISE}, outliers are not looked for"
    share = gross_share(rows, np.random.RandomState(seed), encoder.scale_index)
    if share <= 1.0:
        return f"gross outliers are {share / (1.0 + share):.2g} of the squared differences from neighbours"
    return ""


def _with_target(
    rows: RowSource, settings: Settings, seed: int, encoder: ColumnEncoder
) -> tuple[RowSource, TargetTransform | None, dict[str, Choice]]:
    """Transform the targets, by the density of rows given their neighbours where "auto" is set."""
    setting = settings["target_transform"]
    if setting is None:
        return rows, None, {}
    reporters().start("transforming the target")
    y = rows.sample(SAMPLE_ROWS, np.random.RandomState(seed)).y
    low = float(rows.summary()[1].low.min())
    if not is_auto(setting):
        target = fitted_transform(setting, y, low)
        return rows.mapped(target), target, {}
    candidates: dict[str, TargetTransform] = {}
    if bool((y.std(axis=0) > 0).all()):
        candidates = {n: fitted_transform(n, y, low) for n in TRANSFORMS if n != "log" or low > 0}
    kernel, layout = _quick_kernel(settings), encoder.layout(rows.n_features)
    scores = {"none": quick_score(rows, kernel, seed, _engine(settings), layout)}
    for name, candidate in candidates.items():
        scored = quick_score(rows.mapped(candidate), kernel, seed, _engine(settings), layout)
        y_scored = candidate.inverse(scored.y)
        slope = candidate.log_slope(y_scored).sum(axis=1)
        scores[name] = scored._replace(log_density=scored.log_density + slope, y=y_scored)
    best = _best(scores)
    found = candidates.get(best)
    choice = Choice(None if found is None else best, _reason(best, scores), _evidence(scores, {}))
    reporters().message(1, f"target: {choice}")
    return (rows if found is None else rows.mapped(found)), found, {"target_transform": choice}


def _with_trend(
    rows: RowSource,
    settings: Settings,
    seed: int,
    random_state: np.random.RandomState,
    encoder: ColumnEncoder,
) -> Prepared:
    """Fit the trend."""
    setting = settings["trend"]
    if setting is None:
        return Prepared(rows)
    if not is_auto(setting):
        reporters().start("fitting the trend")
        trend = cross_fit(setting, rows, random_state)
        assert trend is not None
        candidates = _candidates([trend], settings)
        if len(candidates) == 1:
            (trend,) = candidates.values()
            return Prepared(rows.mapped(trend), trend=trend)
        return _chosen(rows, candidates, {}, settings, seed, encoder)
    why_not = _no_choice_of_trend(rows, settings)
    if why_not:
        return Prepared(rows, choices={"trend": Choice(None, why_not)})
    reporters().start("choosing the trend")
    layout = encoder.layout(rows.n_features)
    without = quick_score(rows, _quick_kernel(settings), seed, _engine(settings), layout)
    fitted: list[CrossFitted] = []
    for name in NAMES:
        try:
            found = cross_fit(name, rows, random_state, worst=HOPELESS * without.relative_error)
        except TrendError as error:
            reporters().message(1, f"trend: {error}")
            continue
        if found is not None:
            fitted.append(found)
    return _chosen(rows, _candidates(fitted, settings), {"none": without}, settings, seed, encoder)


def _no_choice_of_trend(rows: RowSource, settings: Settings) -> str:
    """Why "auto" is no trend, without a comparison; empty where one is made."""
    if settings.kernel_is_object or settings["optimizer"] is None:
        return _GIVEN
    if rows.n < FEWEST_ROWS:
        return f"{rows.n} rows; of fewer than {FEWEST_ROWS}, none is tried"
    return ""


def _candidates(fitted: list[CrossFitted], settings: Settings) -> dict[str, CrossFitted]:
    """Every trend in every role that is left open, by name."""
    role = settings["trend_role"]
    roles = ROLES if is_auto(role) else (role,)
    if settings.kernel_is_object:
        roles = ("mean",)  # its length scales are those of the user's inputs
    found = {}
    for trend in fitted:
        # A GP with an input that is a linear function of the others is hardly another GP.
        linear = is_auto(settings["trend"]) and trend.trend.name == "linear"
        for each in ("mean",) if linear and is_auto(role) else roles:
            found[f"{trend.trend.name} as {_AS[each]}"] = trend.with_role(each)
    return found


_AS = {"mean": "mean", "input": "input", "both": "mean and input"}


def _chosen(
    rows: RowSource,
    candidates: dict[str, CrossFitted],
    scores: dict[str, Scored],
    settings: Settings,
    seed: int,
    encoder: ColumnEncoder,
) -> Prepared:
    """Choose by density and error of rows given neighbours; `scores` has that of no trend, if allowed."""
    kernel = _quick_kernel(settings)
    prepared = {name: rows.mapped(trend) for name, trend in candidates.items()}
    for name, mapped in prepared.items():
        if _cannot_win(name, candidates, scores):
            continue
        layout = encoder.layout(mapped.n_features)  # with the inputs of the trend
        scores[name] = quick_score(mapped, kernel, seed, _engine(settings), layout)
        reporters().message(2, f"trend, {name}: NLPD {scores[name].nlpd:.4f}")
    best = _best(scores, by_error=True)
    mapped, trend = prepared.get(best, rows), candidates.get(best)
    reason = _reason(best, scores, by_error=True)
    choice = Choice(None if trend is None else best, reason, _evidence(scores, candidates))
    reporters().message(1, f"trend: {choice}")
    return Prepared(mapped, trend=trend, choices={"trend": choice})


def _cannot_win(name: str, candidates: dict[str, CrossFitted], scores: dict[str, Scored]) -> bool:
    """Whether a trend is mean and input here, and gains over no trend neither as mean nor as input."""
    trend = candidates[name].trend
    alone = [
        scores[other]
        for other, each in candidates.items()
        if other in scores and each.trend.name == trend.name and each.trend.role != "both"
    ]
    if trend.role != "both" or "none" not in scores or len(alone) < 2:
        return False
    return all(score.gain_over(scores["none"], by_error=True)[0] <= 0.0 for score in alone)


def _engine(settings: Settings) -> Engine:
    """Where comparisons run: here, as their blocks are small."""
    engine = settings.engine
    return engine if isinstance(engine, ThreadEngine) else ThreadEngine(settings["n_jobs"])


def _quick_kernel(settings: Settings) -> str:
    kernel = settings["kernel"]
    return kernel if isinstance(kernel, str) and not is_auto(kernel) else QUICK_KERNEL


def _best(scores: dict[str, Scored], *, by_error: bool = False) -> str:
    """The name with the largest gain over "none", if it is clearly better; see `Scored.gain_over`."""
    names = list(scores)
    first = scores[names[0]]
    gains = {name: score.gain_over(first, by_error=by_error) for name, score in scores.items()}
    best = max(names, key=lambda name: gains[name][0])
    if names[0] != "none" or best == "none":
        return best
    gain, error = gains[best]
    return best if gain > WORTHWHILE + 0.5 * error else "none"


def _reason(best: str, scores: dict[str, Scored], *, by_error: bool = False) -> str:
    """The density of the choice, and what it gains over the others by the measure that decided."""
    score = f"NLPD {scores[best].nlpd:.4g} of {len(scores[best].weight)} rows given their neighbours"
    first = next(iter(scores.values()))
    losses = {name: -other.gain_over(first, by_error=by_error)[0] for name, other in scores.items()}
    others = margins(best, losses)
    if not others:
        return f"{score}; all others have much larger errors"
    unclear = ", which is no clear gain" if min(losses.values()) < losses[best] else ""
    return f"{score}; {'density and error' if by_error else 'density'} {others}{unclear}"


def _evidence(scores: dict[str, Scored], candidates: dict[str, CrossFitted]) -> dict[str, Any]:
    return {
        "nlpd": {name: score.nlpd for name, score in scores.items()},
        "cross_fitted_error": {trend.trend.name: trend.error for trend in candidates.values()},
    }

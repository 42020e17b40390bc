"""What happens to rows before everything else: targets are transformed, and a trend is fitted.

    rows ─► z = T(y) ─► trend: values by cross-fitting ─► inputs (X, trend), targets z − trend

What "auto" leaves open is chosen by the log density of rows given their neighbours (`training.compare`),
before the model is trained: the model itself is trained once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpexperts.choices import Choice
from gpexperts.columns import ColumnEncoder
from gpexperts.exceptions import TrendError
from gpexperts.outliers import DEGREES, Outliers, guess_outliers
from gpexperts.progress import reporters
from gpexperts.rows.base import SAMPLE_ROWS, RowSource
from gpexperts.settings import Settings
from gpexperts.target import NAMES as TRANSFORMS
from gpexperts.target import TargetTransform, fitted_transform
from gpexperts.training.compare import Scored, quick_score
from gpexperts.trend import ROLES, CrossFitted, cross_fit
from gpexperts.validation import is_auto

__all__ = ["Prepared", "prepare_rows"]

WORTHWHILE = 0.005
"""Nats per row that a trend must gain, beside one standard error of the gain."""
QUICK_KERNEL = "matern32"
"""The kernel of comparisons, where the setting names none."""


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
    reporters().start("looking for outliers")
    outliers = guess_outliers(rows, np.random.RandomState(seed), encoder.scale_index)
    marked = rows.mapped(outliers)
    if not is_auto(setting):
        return marked, outliers, {}
    kernel, layout = _quick_kernel(settings), encoder.layout(rows.n_features)
    scores = {"gaussian": quick_score(rows, kernel, seed, settings.engine, layout)}
    student = quick_score(marked, kernel, seed, settings.engine, layout, DEGREES)
    scores["student"] = student._replace(weight=scores["gaussian"].weight)
    gain, error = scores["student"].gain_over(scores["gaussian"])
    best = "student" if gain > WORTHWHILE + error else "gaussian"
    choice = Choice(best, _reason(best, scores), _evidence(scores, {}))
    reporters().message(1, f"noise: {choice}")
    chosen = (marked, outliers) if best == "student" else (rows, None)
    return *chosen, {"noise": choice}


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
    scores = {"none": quick_score(rows, kernel, seed, settings.engine, layout)}
    for name, candidate in candidates.items():
        scored = quick_score(rows.mapped(candidate), kernel, seed, settings.engine, layout)
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
    reporters().start("fitting the trend")
    names = ("linear", "boosting") if is_auto(setting) else (setting,)
    fitted: list[CrossFitted] = []
    for name in names:
        try:
            fitted.append(cross_fit(name, rows, random_state))
        except TrendError as error:
            if not is_auto(setting):
                raise
            reporters().message(1, f"trend: {error}")
    candidates = _candidates(fitted, settings)
    if not is_auto(setting) and len(candidates) == 1:
        (trend,) = candidates.values()
        return Prepared(rows.mapped(trend), trend=trend)
    return _chosen(rows, candidates, settings, seed, encoder)


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
    settings: Settings,
    seed: int,
    encoder: ColumnEncoder,
) -> Prepared:
    """Choose by the density of rows given their neighbours; without a trend only if "auto" allows it."""
    kernel = _quick_kernel(settings)
    reporters().start("choosing the trend")
    prepared: dict[str, tuple[RowSource, CrossFitted | None]] = {}
    if is_auto(settings["trend"]):
        prepared["none"] = rows, None
    prepared |= {name: (rows.mapped(trend), trend) for name, trend in candidates.items()}
    scores: dict[str, Scored] = {}
    for name, (mapped, _) in prepared.items():
        layout = encoder.layout(mapped.n_features)  # with the inputs of the trend
        scores[name] = quick_score(mapped, kernel, seed, settings.engine, layout)
        reporters().message(2, f"trend, {name}: NLPD {scores[name].nlpd:.4f}")
    best = _best(scores)
    mapped, trend = prepared[best]
    choice = Choice(best if trend is not None else None, _reason(best, scores), _evidence(scores, candidates))
    reporters().message(1, f"trend: {choice}")
    return Prepared(mapped, trend=trend, choices={"trend": choice})


def _quick_kernel(settings: Settings) -> str:
    kernel = settings["kernel"]
    return kernel if isinstance(kernel, str) and not is_auto(kernel) else QUICK_KERNEL


def _best(scores: dict[str, Scored]) -> str:
    """The name with the largest density; "none" unless another one is clearly better."""
    best = min(scores, key=lambda name: scores[name].nlpd)
    if "none" not in scores or best == "none":
        return best
    gain, error = scores[best].gain_over(scores["none"])
    return best if gain > WORTHWHILE + error else "none"


def _reason(best: str, scores: dict[str, Scored]) -> str:
    others = ", ".join(f"{name} {score.nlpd:.4g}" for name, score in scores.items() if name != best)
    rows = len(scores[best].weight)
    return f"NLPD {scores[best].nlpd:.4g} of {rows} rows given their neighbours{others and f' ({others})'}"


def _evidence(scores: dict[str, Scored], candidates: dict[str, CrossFitted]) -> dict[str, Any]:
    return {
        "nlpd": {name: score.nlpd for name, score in scores.items()},
        "cross_fitted_error": {trend.trend.name: trend.error for trend in candidates.values()},
    }

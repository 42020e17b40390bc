"""What happens to rows before everything else: a trend is fitted, and becomes a mean or an input.

    rows ─► trend: values by cross-fitting ─► inputs (X, trend), targets y − trend

What "auto" leaves open is chosen by the log density of rows given their neighbours (`training.compare`),
before the model is trained: the model itself is trained once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpexperts.choices import Choice
from gpexperts.exceptions import TrendError
from gpexperts.progress import reporters
from gpexperts.rows.base import RowSource
from gpexperts.settings import Settings
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
    trend: CrossFitted | None = None
    choices: dict[str, Choice] = field(default_factory=dict)


def prepare_rows(rows: RowSource, settings: Settings, random_state: np.random.RandomState) -> Prepared:
    """Fit the trend that the settings name, or choose one.

    Parameters
    ----------
    rows : RowSource
        In the user's units, without those that calibrate intervals.
    settings : Settings
    random_state : RandomState
    """
    setting, seed = settings["trend"], int(random_state.randint(2**31 - 1))
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
        return Prepared(rows.mapped(trend), trend)
    return _chosen(rows, candidates, settings, seed)


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


def _chosen(rows: RowSource, candidates: dict[str, CrossFitted], settings: Settings, seed: int) -> Prepared:
    """Choose by the density of rows given their neighbours; without a trend only if "auto" allows it."""
    kernel = settings["kernel"]
    kernel = kernel if isinstance(kernel, str) and not is_auto(kernel) else QUICK_KERNEL
    reporters().start("choosing the trend")
    prepared: dict[str, tuple[RowSource, CrossFitted | None]] = {}
    if is_auto(settings["trend"]):
        prepared["none"] = rows, None
    prepared |= {name: (rows.mapped(trend), trend) for name, trend in candidates.items()}
    scores: dict[str, Scored] = {}
    for name, (mapped, _) in prepared.items():
        scores[name] = quick_score(mapped, kernel, seed, settings.engine)
        reporters().message(2, f"trend, {name}: NLPD {scores[name].nlpd:.4f}")
    best = min(scores, key=lambda name: scores[name].nlpd)
    if "none" in scores and best != "none":
        gain, error = scores[best].gain_over(scores["none"])
        best = best if gain > WORTHWHILE + error else "none"
    mapped, trend = prepared[best]
    choice = Choice(best if trend is not None else None, _reason(best, scores), _evidence(scores, candidates))
    reporters().message(1, f"trend: {choice}")
    return Prepared(mapped, trend, {"trend": choice})


def _reason(best: str, scores: dict[str, Scored]) -> str:
    others = ", ".join(f"{name} {score.nlpd:.4g}" for name, score in scores.items() if name != best)
    rows = len(scores[best].weight)
    return f"NLPD {scores[best].nlpd:.4g} of {rows} rows given their neighbours{others and f' ({others})'}"


def _evidence(scores: dict[str, Scored], candidates: dict[str, CrossFitted]) -> dict[str, Any]:
    return {
        "nlpd": {name: score.nlpd for name, score in scores.items()},
        "cross_fitted_error": {trend.trend.name: trend.error for trend in candidates.values()},
    }

"""What happens to rows before everything else: targets are transformed, and outliers are guessed.

    rows ─► z = T(y) ─► precision of each row, if the noise is Student-t

What "auto" leaves open is chosen by the log density of rows given their neighbours (`training.compare`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpexperts.choices import Choice
from gpexperts.columns import ColumnEncoder
from gpexperts.engines import Engine, ThreadEngine
from gpexperts.outliers import Outliers, gross_share, guess_outliers
from gpexperts.progress import reporters
from gpexperts.rows.base import SAMPLE_ROWS, RowSource
from gpexperts.settings import Settings
from gpexperts.target import NAMES as TRANSFORMS
from gpexperts.target import TargetTransform, fitted_transform
from gpexperts.training.compare import best_of, evidence_of, quick_score, reason_of
from gpexperts.validation import is_auto

__all__ = ["GIVEN", "Prepared", "prepare_rows", "quick_engine", "quick_kernel"]

CLEARLY = 0.05
"""Nats per row that Student-t noise must gain, beside one standard error of the gain."""
GROSS_ERROR = 6.0
"""Standardised residuals are clipped to this for that comparison: wrong targets cannot be predicted."""
FEWEST_ROWS_OF_NOISE = 100
"""Of fewer rows, "auto" does not look for outliers."""
QUICK_KERNEL = "matern32"
"""The kernel of comparisons, where the setting names none."""

GIVEN = "the hyperparameters are given, and they are those of the target itself"
"""Why "auto" compares nothing there."""


@dataclass(frozen=True)
class Prepared:
    """Rows with the targets of the experts, if these have no trend."""

    rows: RowSource
    target: TargetTransform | None = None
    outliers: Outliers | None = None
    """Where the noise is Student-t."""
    choices: dict[str, Choice] = field(default_factory=dict)


def prepare_rows(
    rows: RowSource, settings: Settings, random_state: np.random.RandomState, encoder: ColumnEncoder
) -> Prepared:
    """Transform the targets and guess outliers as the settings say, or choose.

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
    return Prepared(rows, target, outliers, {**choices, **more})


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
    kernel, layout = quick_kernel(settings), encoder.layout(rows.n_features)
    scores = {
        name: quick_score(
            source, kernel, seed, quick_engine(settings), layout, clipped=GROSS_ERROR, by_weight=False
        )
        for name, source in (("gaussian", rows), ("student", marked))
    }
    gain, error = scores["student"].gain_over(scores["gaussian"])
    best = "student" if gain > CLEARLY + error else "gaussian"
    choice = Choice(best, reason_of(best, scores), evidence_of(scores))
    reporters().message(1, f"noise: {choice}")
    chosen = (marked, outliers) if best == "student" else (rows, None)
    return *chosen, {"noise": choice}


def _no_choice_of_noise(rows: RowSource, settings: Settings, seed: int, encoder: ColumnEncoder) -> str:
    """Why "auto" is Gaussian noise, without a comparison; empty where one is made."""
    if settings.kernel_is_object or settings["optimizer"] is None:
        return GIVEN
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
    kernel, layout = quick_kernel(settings), encoder.layout(rows.n_features)
    scores = {"none": quick_score(rows, kernel, seed, quick_engine(settings), layout)}
    for name, candidate in candidates.items():
        scored = quick_score(rows.mapped(candidate), kernel, seed, quick_engine(settings), layout)
        y_scored = candidate.inverse(scored.y)
        slope = candidate.log_slope(y_scored).sum(axis=1)
        scores[name] = scored._replace(log_density=scored.log_density + slope, y=y_scored)
    best = best_of(scores)
    found = candidates.get(best)
    choice = Choice(None if found is None else best, reason_of(best, scores), evidence_of(scores))
    reporters().message(1, f"target: {choice}")
    return (rows if found is None else rows.mapped(found)), found, {"target_transform": choice}


def quick_engine(settings: Settings) -> Engine:
    """Where comparisons run: here, as their blocks are small."""
    engine = settings.engine
    return engine if isinstance(engine, ThreadEngine) else ThreadEngine(settings["n_jobs"])


def quick_kernel(settings: Settings) -> str:
    """Name of the kernel of comparisons."""
    kernel = settings["kernel"]
    return kernel if isinstance(kernel, str) and not is_auto(kernel) else QUICK_KERNEL

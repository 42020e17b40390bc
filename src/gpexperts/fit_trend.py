"""The trend of prepared rows: fitted as the settings name it, or chosen.

    rows ─► trend: values by cross-fitting ─► inputs (X, trend), targets z − trend

"auto" compares with the model without a trend, which is trained already: by log density and error of rows
given their neighbours (`training.compare`). Short trainings, from its length scales, show what a trend gains
as mean, as input, and as both. The trend of a row comes from a regressor that has not seen the fold of the
row; so neighbours are of other folds too, or the model without a trend would have more rows to learn from.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from gpexperts.choices import Choice
from gpexperts.columns import ColumnEncoder
from gpexperts.engines import blas_threads
from gpexperts.exceptions import TrendError
from gpexperts.fit_kernel import ScaledRows
from gpexperts.partition.assign import EXACT_ROWS
from gpexperts.partition.balanced import BalancedPartitioner
from gpexperts.partition.base import sorted_parts
from gpexperts.preprocess import GIVEN, quick_engine, quick_kernel
from gpexperts.progress import reporters
from gpexperts.rows.base import RowSource
from gpexperts.settings import Settings
from gpexperts.training.compare import (
    Scored,
    best_of,
    evidence_of,
    quick_score,
    reason_of,
    score_of_trained,
)
from gpexperts.training.schedule import EXACT
from gpexperts.training.start import Start
from gpexperts.trend import (
    FOLDS,
    ROLES,
    CrossFitted,
    FoldedRows,
    cross_fit,
    cross_fit_sparse,
    draw_folds,
)
from gpexperts.trend.regressors import NAMES
from gpexperts.trend.sparse import InducingPoints
from gpexperts.validation import is_auto

__all__ = ["Trended", "fit_trend", "trains_first"]

SPARSE = "sparse"
INDUCING = 512
"""Inducing points of a sparse GP."""
FEWEST_ROWS, MOST_ROWS = 500, 1_000_000
"""Of fewer or more rows, "auto" tries no trend: a trend is fitted to at most 200,000 rows, and so many rows
are nearer to a query."""
HOPELESS, UNSURE = 1.1, 10.0
"""A trend is given up after one fold of n rows if its error is more than the first number + the second / √n
times that of predictions from neighbours."""
_AS = {"mean": "mean", "input": "input", "both": "mean and input"}


class Trended(NamedTuple):
    """Rows whose inputs and targets are those of the experts, and their trend."""

    rows: RowSource
    trend: CrossFitted | None
    choices: dict[str, Choice]
    start: Start | None = None
    """A kernel that is nearly trained for these rows, where one has been compared."""


def trains_first(settings: Settings) -> bool:
    """Whether a kernel is trained before the trend is fitted: none is allowed, or the trend needs it."""
    return settings["trend"] in (None, SPARSE) or is_auto(settings["trend"])


def fit_trend(
    rows: RowSource,
    without: ScaledRows | None,
    settings: Settings,
    random_state: np.random.RandomState,
    encoder: ColumnEncoder,
) -> Trended:
    """Fit the trend that the settings name, or choose one.

    Parameters
    ----------
    rows : RowSource
        With the targets of the experts, in their own units.
    without : ScaledRows or None
        The same rows with a kernel that was trained without a trend, where `trains_first`.
    settings : Settings
    random_state : RandomState
    encoder : ColumnEncoder
        That has made the inputs.
    """
    seed = int(random_state.randint(2**31 - 1))
    setting, levels = settings["trend"], encoder.layout(rows.n_features).many_levels
    if setting is None:
        return Trended(rows, None, {})
    if not is_auto(setting):
        reporters().start("fitting the trend")
        folded = draw_folds(rows, random_state)
        trend = _cross_fitted(setting, folded, without, settings, seed, levels)
        assert trend is not None
        candidates = _candidates([trend], settings)
        if len(candidates) == 1:
            trend = next(iter(candidates.values())).finished()
            start = _start(without, "noise") if rows.n > EXACT else None
            return Trended(rows.mapped(trend), trend, {}, start)
        return _Comparison(rows, settings, seed, encoder, without, folded.labels(rows.n)).chosen(
            candidates, {}
        )
    why_not = _no_choice(rows, settings)
    if why_not:
        return Trended(rows, None, {"trend": Choice(None, why_not)})
    reporters().start("choosing the trend")
    folded = draw_folds(rows, random_state)
    comparison = _Comparison(rows, settings, seed, encoder, without, folded.labels(rows.n))
    none = comparison.without_trend()
    hopeless = HOPELESS + UNSURE / np.sqrt(len(folded.fold) / FOLDS)
    fitted: list[CrossFitted] = []
    for name in _names(rows, without, settings):
        try:
            worst = hopeless * none.relative_error
            found = _cross_fitted(name, folded, without, settings, seed, levels, worst=worst)
        except TrendError as error:
            reporters().message(1, f"trend: {error}")
            continue
        if found is not None:
            fitted.append(found)
    return comparison.chosen(_candidates(fitted, settings), {"none": none})


def _names(rows: RowSource, without: ScaledRows | None, settings: Settings) -> list[str]:
    """The trends that "auto" tries: no sparse GP where one expert holds all rows."""
    trained = without is not None and without.trained is not None
    exact = rows.n <= EXACT_ROWS or settings["n_experts"] == 1
    sparse = rows.n_outputs == 1 and trained and not exact
    return [name for name in NAMES if name != SPARSE or sparse]


def _cross_fitted(
    setting: Any,
    folded: FoldedRows,
    scaled: ScaledRows | None,
    settings: Settings,
    seed: int,
    levels: np.ndarray,
    worst: float = np.inf,
) -> CrossFitted | None:
    """Fit a trend in folds; a sparse GP has the kernel of the model without a trend."""
    if not (isinstance(setting, str) and setting == SPARSE):
        return cross_fit(setting, folded, seed, levels=levels, worst=worst)
    assert scaled is not None
    assert scaled.trained is not None  # see `trains_first`, and the check of the settings
    covariance = scaled.trained.covariance
    X = scaled.sample.X
    labels = BalancedPartitioner().partition(
        X / covariance.metric(scaled.sampler.spread), min(INDUCING, len(X)), np.random.RandomState(seed)
    )
    Z = np.unique(sorted_parts(scaled.sample, labels).centroids, axis=0)
    with blas_threads(quick_engine(settings).n_workers):  # large products
        return cross_fit_sparse(InducingPoints(covariance, Z), scaled.units, folded, worst=worst)


def _no_choice(rows: RowSource, settings: Settings) -> str:
    """Why "auto" is no trend, without a comparison; empty where one is made."""
    if settings.kernel_is_object or settings["optimizer"] is None:
        return GIVEN
    if rows.n < FEWEST_ROWS:
        return f"{rows.n} rows; of fewer than {FEWEST_ROWS}, none is tried"
    if rows.n > MOST_ROWS:
        return f"{rows.n} rows; of more than {MOST_ROWS}, none is tried"
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
        # The variance of a sparse GP is only used where it is the mean.
        linear = is_auto(settings["trend"]) and trend.trend.name == "linear"
        only = is_auto(role) and (linear or trend.trend.name == SPARSE)
        for each in ("mean",) if only else roles:
            found[f"{trend.trend.name} as {_AS[each]}"] = trend.with_role(each)
    return found


class _Comparison(NamedTuple):
    """Scores of the same rows with and without trends."""

    rows: RowSource
    settings: Settings
    seed: int
    encoder: ColumnEncoder
    without: ScaledRows | None
    fold: np.ndarray
    """(n,) of each row."""

    def without_trend(self) -> Scored:
        """Score the kernel that is trained without a trend."""
        scaled = self.without
        if scaled is None or scaled.trained is None:
            return self._score(self.rows)
        return score_of_trained(
            self.rows,
            scaled.trained.covariance,
            scaled.units,
            scaled.outputs,
            self.seed,
            quick_engine(self.settings),
            self.encoder.layout(self.rows.n_features),
            self.fold,
        )

    def chosen(self, candidates: dict[str, CrossFitted], scores: dict[str, Scored]) -> Trended:
        """Choose by density and error; `scores` has that of no trend, if allowed."""
        mapped = {name: self.rows.mapped(trend) for name, trend in candidates.items()}
        for name, rows in mapped.items():
            if cannot_win(name, candidates, scores):
                continue
            keeps: Literal["lengths", "noise"] = (
                "noise" if candidates[name].trend.name == SPARSE else "lengths"
            )
            scores[name] = self._score(rows, keeps)
            reporters().message(2, f"trend, {name}: NLPD {scores[name].nlpd:.4f}")
        best = best_of(scores, by_error=True, same=f"{SPARSE} as mean")
        trend = candidates[best].finished() if best in candidates else None
        errors = {each.trend.name: each.error for each in candidates.values()}
        evidence: dict[str, Any] = {**evidence_of(scores), "cross_fitted_error": errors}
        choice = Choice(None if trend is None else best, reason_of(best, scores, by_error=True), evidence)
        reporters().message(1, f"trend: {choice}")
        if trend is None:
            return Trended(self.rows, None, {"trend": choice})
        return Trended(self.rows.mapped(trend), trend, {"trend": choice}, scores[best].start)

    @property
    def _kernel(self) -> str:
        """Name of the kernel that is compared: the one that is trained without a trend."""
        start = _start(self.without, "lengths")
        return quick_kernel(self.settings) if start is None else start.name

    def _score(self, rows: RowSource, keeps: Literal["lengths", "noise"] = "lengths") -> Scored:
        """Score rows after a short training, which starts with what the model without a trend `keeps`."""
        return quick_score(
            rows,
            self._kernel,
            self.seed,
            quick_engine(self.settings),
            self.encoder.layout(rows.n_features),  # with the inputs of the trend
            standardize=bool(self.settings["standardize"]),
            start=_start(self.without, keeps),
            fold=self.fold,
        )


def _start(scaled: ScaledRows | None, keeps: Literal["lengths", "noise"]) -> Start | None:
    """A start from the kernel that is trained without a trend, if it is a named one."""
    if scaled is None or scaled.trained is None or scaled.trained.choice is None:
        return None
    return Start(scaled.trained.choice.value, scaled.trained.covariance, scaled.units, keeps)


def cannot_win(name: str, candidates: dict[str, CrossFitted], scores: dict[str, Scored]) -> bool:
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

"""Cross-fitting: the trend at a training row comes from a regressor that has not seen the row.

Residuals of rows that a regressor was fitted to are too small, and experts trained on them would be too sure.
The rows are divided into five folds; the regressor of each fold is fitted to the others. For queries, one
more regressor is fitted to all rows; of many rows, boosting predicts the mean of the five instead, which
varies less. Rows with equal inputs are in the same fold: otherwise a trend that is
an input would tell them apart, and hide the noise that they show. The folds also choose the number of boosted
trees, so that all other rows grow them: together if the rows are few, else the first one by early stopping.

At most `MAX_ROWS` rows, drawn at random by row number, fit the trend, in this process. The other rows have
been seen by no regressor, and get the trend of queries. So arrays and collections give the same trend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gpexperts.exceptions import TrendError
from gpexperts.row_noise import weights
from gpexperts.rows.base import Rows, RowSource, Units
from gpexperts.trend.fitted import FittedTrend, checked_prediction
from gpexperts.trend.regressors import (
    Predictor,
    fitted_regressor,
    kept,
    leaves_trees_open,
    mean_of,
    new_regressor,
    resized,
    threads_for,
)
from gpexperts.trend.sparse import InducingPoints, SparseSums

__all__ = [
    "FOLDS",
    "MAX_ROWS",
    "CrossFitted",
    "FoldedRows",
    "cross_fit",
    "cross_fit_sparse",
    "draw_folds",
]

FOLDS = 5
MAX_ROWS = 200_000
"""Rows that the trend is fitted to, at most."""

FEWEST_TREES, MORE_TREES = 50, 2
"""The first fold shows how many trees the others try: twice as many as were best there, and at least 50."""


@dataclass(frozen=True)
class CrossFitted:
    """A trend, and its values for the training rows by regressors that have not seen them."""

    trend: FittedTrend
    """With any role: the same values serve all of them. Without regressors until it is `finished`."""
    number: np.ndarray
    """(k,) ascending numbers of the rows that the trend was fitted to."""
    values: np.ndarray
    """(k, p) the cross-fitted trend of these rows."""
    error: float
    """Mean squared error of the values, in units of the variance of the targets."""
    fit: Callable[[], tuple[Predictor, ...]] | None = None
    """Fits the regressors of queries to all rows; None once it has."""

    def with_role(self, role: str) -> CrossFitted:
        """Return the same trend in another role."""
        return replace(self, trend=replace(self.trend, role=role))

    def finished(self) -> CrossFitted:
        """Return it with the regressors of queries, which a trend that is not chosen does not need."""
        if self.fit is None:
            return self
        return replace(self, trend=replace(self.trend, predictors=self.fit()), fit=None)

    def at(self, number: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return the trend (n, p) of training rows: cross-fitted, or for rows outside the sample as it is."""
        place = np.minimum(np.searchsorted(self.number, number), len(self.number) - 1)
        inside = self.number[place] == number
        values = self.values[place]
        if not inside.all():
            values[~inside] = self.trend.mean(X[~inside])
        return values

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return inputs, targets and noise of the experts for training rows; see `RowSource.mapped`."""
        return *self.trend.rows(rows.X, rows.y, self.at(rows.number, rows.X)), rows.noise


class FoldedRows(NamedTuple):
    """The rows that a trend is fitted to, in folds."""

    rows: Rows
    fold: np.ndarray
    """(k,) the fold of each."""
    whole: bool
    """Whether these are all rows. Others need the regressors of queries."""

    def labels(self, n: int) -> np.ndarray:
        """The fold of each of n rows; −1 for rows that no regressor sees."""
        labels = np.full(n, -1)
        labels[self.rows.number] = self.fold
        return labels


def draw_folds(source: RowSource, random_state: np.random.RandomState) -> FoldedRows:
    """Draw at most `MAX_ROWS` rows, and divide them into folds; rows with equal inputs stay together."""
    rows = source.sample(MAX_ROWS, random_state)
    group = _groups_of_equals(rows.X)
    fold = random_state.permutation(np.arange(group.max() + 1) % FOLDS)[group]
    return FoldedRows(rows, fold, len(fold) == source.n)


def cross_fit(
    setting: Any,
    folded: FoldedRows,
    seed: int,
    *,
    levels: np.ndarray | None = None,
    worst: float = np.inf,
) -> CrossFitted | None:
    """Fit a trend to rows in the user's units of X.

    Parameters
    ----------
    setting : {"linear", "boosting"} or regressor
    folded : FoldedRows
    seed : int
        Of boosting.
    levels : ndarray of bool, shape (d,), optional
        Columns of categories with many levels; see `new_regressor`.
    worst : float
        None is returned if the error of the first fold, in units of its variance, is larger than this.

    Raises
    ------
    TrendError
        If the regressor fails in a fold, or predicts NaN.
    """
    name = setting if isinstance(setting, str) else type(setting).__name__
    rows, fold = folded.rows, folded.fold
    n, p = rows.y.shape
    regressor = new_regressor(setting, n, seed, levels)
    if n < 2 * FOLDS:
        raise TrendError(f"trend={name!r} needs at least {2 * FOLDS} rows, got {n}. Use trend=None.")
    w = weights(rows.noise) if rows.noise.shape[1] else None
    named = isinstance(setting, str) and setting == "boosting"
    folds = _Folds(rows.X, w, fold, regressor, name, leaves_trees_open(setting, n), stops_early=named)
    values, outputs = np.empty((n, p)), []
    for k in range(p):
        predicted = folds.predict(rows.y[:, k], worst)
        if predicted is None:
            return None
        values[:, k] = predicted.values
        outputs.append(predicted)

    def final(output: _OfFolds, y: np.ndarray) -> Predictor:
        mean = mean_of(output.fitted, rows.X) if output.fitted else None
        return kept(folds.fitted(output.final, y), rows.X) if mean is None else mean

    def fit() -> tuple[Predictor, ...]:
        return tuple(final(output, y) for output, y in zip(outputs, rows.y.T, strict=True))

    trend, error = FittedTrend("mean", name, ()), float(np.mean([output.error for output in outputs]))
    found = CrossFitted(trend, rows.number, values, error, fit)
    return found if folded.whole else found.finished()


def cross_fit_sparse(
    points: InducingPoints, units: Units, folded: FoldedRows, *, worst: float = np.inf
) -> CrossFitted | None:
    """Fit a sparse GP to rows in the user's units of X; the sums of the folds serve all of them.

    Parameters
    ----------
    points : InducingPoints
        In the units of `units`.
    units : Units
    folded : FoldedRows
    worst : float
        As for `cross_fit`.
    """
    rows, fold = folded.rows, folded.fold
    if rows.y.shape[1] > 1:
        raise TrendError(f"trend='sparse' needs one target, got {rows.y.shape[1]}. Use another trend.")
    sums, places = SparseSums(points, FOLDS), [np.flatnonzero(fold == f) for f in range(FOLDS)]
    for f, some in enumerate(places):
        X, y, noise = units.apply(*rows.take(some)[1:])
        sums.add(f, X, y[:, 0], noise)
    weight, y = weights(rows.noise), rows.y[:, 0]
    mean, var = np.empty(len(y)), np.empty(len(y))
    for f, some in enumerate(places):
        mean[some], var[some] = sums.posterior(units.x, units.y, without=f).moments(rows.X[some])
        if f == 0:
            error = float(np.average((y[some] - mean[some]) ** 2, weights=weight[some]))
            if error > worst * _variance(y[some], weight[some]):
                return None
    error = float(np.average((y - mean) ** 2, weights=weight)) / _variance(y, weight)
    fitted = replace(sums.posterior(units.x, units.y), average_var=float(np.average(var, weights=weight)))
    return CrossFitted(FittedTrend("mean", "sparse", (fitted,)), rows.number, mean[:, None], error)


def _groups_of_equals(X: np.ndarray) -> np.ndarray:
    """Number (n,) the distinct rows of X (n, d), in the order of their first appearance."""
    bits = np.ascontiguousarray(X + 0.0).view(np.uint64)  # −0 becomes 0
    factors = np.random.RandomState(0).randint(1, 2**62, X.shape[1], dtype=np.uint64) | np.uint64(1)
    _, first, group = np.unique((bits * factors).sum(axis=1), return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[group])


def _variance(y: np.ndarray, weight: np.ndarray) -> float:
    """Weighted variance of targets (n,); 1 if they are constant."""
    return float(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)) or 1.0


class _OfFolds(NamedTuple):
    """The cross-fitted trend of one output."""

    values: np.ndarray
    """(n,)"""
    error: float
    """Mean squared error, in units of the variance."""
    final: Any
    """The regressor to fit to all rows…"""
    fitted: list[Any]
    """…or those of the folds, whose mean is used instead."""


class _Folds(NamedTuple):
    """Rows in folds, and the regressor that is fitted without each of them."""

    X: np.ndarray
    weight: np.ndarray | None
    fold: np.ndarray
    regressor: Any
    name: str
    open_trees: bool
    """Whether all folds choose the number of trees."""
    stops_early: bool
    """Whether the regressor of the first fold stops growing early where the number is not open."""

    def predict(self, y: np.ndarray, worst: float) -> _OfFolds | None:
        """Predict each target (n,) by the regressor of its fold.

        Where the number of trees is open, it is the one with the smallest error of all folds together. Where
        the first fold stops early, the others and the last have as many trees, and no rows that stop them.
        """
        w = np.ones(len(y)) if self.weight is None else self.weight
        variance = _variance(y, w)
        stages: list[np.ndarray] = []
        fitted: list[Any] = []
        errors, weight, regressor = np.zeros(1), 0.0, self.regressor
        for f in range(FOLDS):
            out, where = self.fold == f, f"fold {f + 1} of {FOLDS}"
            one = self.fitted(regressor, y, ~out, where)
            stages.append(self._predictions(one, out, where))
            if self.stops_early and not self.open_trees:
                fitted.append(one)
            of_fold = ((stages[-1] - y[out]) ** 2 * w[out]).sum(axis=1)
            errors = of_fold if f == 0 else errors[: len(of_fold)] + of_fold
            weight += float(w[out].sum())
            if f == 0 and errors.min() > worst * _variance(y[out], w[out]) * weight:
                return None
            if f == 0 and self.open_trees:
                most = min(len(errors), max(FEWEST_TREES, MORE_TREES * (int(np.argmin(errors)) + 1)))
                regressor = resized(regressor, most)
            elif f == 0 and self.stops_early:
                regressor = resized(regressor, one.n_iter_, early_stopping=False)
        best, values = int(np.argmin(errors)), np.empty(len(y))
        for f, stage in enumerate(stages):
            values[self.fold == f] = stage[best]
        final = resized(regressor, best + 1) if self.open_trees else regressor
        return _OfFolds(values, float(errors[best]) / (variance * weight), final, fitted)

    def fitted(self, regressor: Any, y: np.ndarray, some: Any = slice(None), where: str = "all rows") -> Any:
        """Fit the regressor to some of the rows."""
        X, w = self.X[some], None if self.weight is None else self.weight[some]
        try:
            return fitted_regressor(regressor, X, y[some], w)
        except Exception as error:  # of any regressor of the user
            raise TrendError(
                f"The trend {self.name!r} could not be fitted to {where} ({len(X)} rows): "
                f"{type(error).__name__}: {error}. Use another regressor, or trend=None."
            ) from error

    def _predictions(self, regressor: Any, out: np.ndarray, where: str) -> np.ndarray:
        """Return predictions (T, n): after each number of trees where that is open, else T = 1."""
        X = self.X[out]
        try:
            with threads_for(len(X)):
                if self.open_trees:
                    return np.stack(list(regressor.staged_predict(X)))
                return checked_prediction(regressor, X, self.name)[None]
        except Exception as error:  # of any regressor of the user
            raise TrendError(f"The trend fails for {where}: {error}") from error

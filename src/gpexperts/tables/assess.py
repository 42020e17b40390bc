"""Score a model on rows that were left out of its training, beside two baselines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold

from gpexperts.exceptions import TableError
from gpexperts.metrics import Scores, Width, score
from gpexperts.tables.arrow import pa
from gpexperts.tables.baselines import baseline_inputs, baselines, predicted
from gpexperts.tables.inputs import counted_elsewhere
from gpexperts.tables.roles import outlying
from gpexperts.tables.training import TrainingTable, fit_table

__all__ = ["OURS", "Assessment", "Split", "assess", "last_in_time", "random_folds", "random_test"]

OURS = "gpexperts"
Split = tuple[np.ndarray, np.ndarray]
"""Numbers of the training rows and of the test rows."""


def random_test(n: int, share: float, seed: int) -> list[Split]:
    """Leave out a share of n rows at random."""
    n_test = _n_test(n, share)
    rows = np.random.default_rng(seed).permutation(n)
    return [(np.sort(rows[n_test:]), np.sort(rows[:n_test]))]


def random_folds(n: int, k: int, seed: int) -> list[Split]:
    """Leave out each of k random parts of n rows in turn."""
    if not 2 <= k <= n // 2:
        raise TableError(f"--cv must be from 2 to {n // 2} for {n:,} rows; got {k}.")
    return list(KFold(k, shuffle=True, random_state=seed).split(np.empty((n, 0))))


def last_in_time(values: np.ndarray, share: float) -> list[Split]:
    """Leave out the last rows in time; equal times stay together."""
    n_test = _n_test(len(values), share)
    known = np.where(np.isnan(values), -np.inf, values)
    start = np.sort(known)[-n_test]
    test = np.flatnonzero(known >= start)
    if len(test) > len(values) - 2:
        raise TableError("--time-split: nearly all rows have the same time, so that none come before it.")
    return [(np.flatnonzero(known < start), test)]


def _n_test(n: int, share: float) -> int:
    if not 0 < share < 1:
        raise TableError(f"--test is a share between 0 and 1, such as 0.2; got {share}.")
    n_test = round(n * share)
    if n_test < 2 or n - n_test < 2:
        raise TableError(
            f"--test {share} of {n} rows leaves {n_test} rows to test and {n - n_test} to train."
        )
    return n_test


class Assessment(NamedTuple):
    """Scores of each split by name: `OURS`, "linear model", "gradient boosting"."""

    scores: dict[str, list[Scores]]
    ordinary: dict[str, list[Scores]]
    """Those without rows whose target is an outlier; empty where no such row was left out."""
    n_outliers: int
    """Rows left out whose target is an outlier."""


def assess(make_model: Callable[[], Any], table: TrainingTable, splits: list[Split]) -> Assessment:
    """Fit the model and the baselines to the training rows of each split, and score the test rows.

    Everything that is learned from rows, the encoding included, is learned from training rows. The baselines
    predict a normal distribution whose standard deviation is that of their cross-validated errors. Gross
    outliers among the targets decide squared errors and log densities, so that rows are also scored without
    them.
    """
    ordinary = ~np.any([outlying(y) for y in table.y.reshape(len(table.y), -1).T], axis=0)
    n_outliers = sum(int((~ordinary[test]).sum()) for _, test in splits)
    found = Assessment({}, {}, n_outliers)
    for training, test in splits:
        y, y_train, known = table.y[test], table.y[training], ordinary[training]
        for each in _predictions(make_model, table, training, test):
            found.scores.setdefault(each.name, []).append(each.score(y, y_train))
            if n_outliers and ordinary[test].any():
                of_ordinary = each.score(y, y_train[known], ordinary[test])
                found.ordinary.setdefault(each.name, []).append(of_ordinary)
    return found


class _Predictions(NamedTuple):
    """What a model predicts for n test rows."""

    name: str
    mean: np.ndarray
    std: np.ndarray
    seconds: float
    width: Width | None = None
    """As for `score`."""
    terms: Mapping[str, np.ndarray] = MappingProxyType({})
    """Further arguments of `score`, by row."""

    def score(self, y: np.ndarray, y_train: np.ndarray, some: Any = slice(None)) -> Scores:
        """Score some of the rows, whose targets are y."""
        terms = {key: values[some] for key, values in self.terms.items()}
        mean, std = self.mean[some], self.std[some]
        return score(y[some], mean, std, y_train, self.seconds, width=self.width, **terms)


def _predictions(
    make_model: Callable[[], Any], table: TrainingTable, training: np.ndarray, test: np.ndarray
) -> Iterator[_Predictions]:
    """Fit each model to the training rows, and predict the test rows."""
    train, inputs = table.take(training), table.inputs.take(pa.array(test))
    model = fit_table(make_model(), train)
    began = time.perf_counter()
    with counted_elsewhere():
        mean, std = model.predict(inputs, return_std=True)
    seconds = time.perf_counter() - began
    terms = model.predictor_.score_terms(model.model_.encoder.encoded(inputs)[0], table.y[test])
    yield _Predictions(OURS, mean, std, seconds, model.interval_width, terms)
    encoder, n_outputs = model.model_.encoder, 1 if train.y.ndim == 1 else train.y.shape[1]
    X_train, X_test = (baseline_inputs(encoder, some) for some in (train.inputs, inputs))
    for name, baseline in baselines(encoder, n_outputs):
        began = time.perf_counter()
        mean, std = predicted(baseline, X_train, train.y, X_test, train.sample_weight)
        yield _Predictions(name, mean, std, time.perf_counter() - began)

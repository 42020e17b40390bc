"""Score a model on rows that were left out of its training, beside two baselines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpexperts.exceptions import TableError
from gpexperts.metrics import Scores, score
from gpexperts.tables.encoding import encode, encode_training, to_frame
from gpexperts.tables.training import TrainingTable, fit_table

__all__ = ["OURS", "Split", "assess", "last_in_time", "random_folds", "random_test"]

OURS = "gpexperts"
Split = tuple[np.ndarray, np.ndarray]
"""Numbers of the training rows and of the test rows."""
_FOLDS = 5
"""Folds that give the standard deviation of a baseline's error."""


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


def assess(
    make_model: Callable[[], Any], table: TrainingTable, splits: list[Split]
) -> dict[str, list[Scores]]:
    """Fit the model and the baselines to the training rows of each split, and score the test rows.

    Everything that is learned from rows, the encoding included, is learned from training rows.

    Returns
    -------
    dict
        Scores of each split by name: `OURS`, "linear model", "gradient boosting". The latter two predict a
        normal distribution whose standard deviation is that of their cross-validated errors.
    """
    scores: dict[str, list[Scores]] = {}
    for training, test in splits:
        train = table.take(training)
        y_train, y_test = train.y, table.y[test]
        inputs = table.inputs.take(test)
        model = fit_table(make_model(), train)
        columns = model.table_.columns
        X_test = encode(inputs, columns)
        began = time.perf_counter()
        mean, std = model.predict(to_frame(X_test, model.table_.feature_names), return_std=True)
        seconds = time.perf_counter() - began
        found = score(y_test, mean, std, y_train, seconds, width=model.interval_width)
        scores.setdefault(OURS, []).append(found)
        _, X_train = encode_training(train.inputs, table.understanding.inputs, y_train)
        for name, baseline in _baselines(y_train.ndim):
            began = time.perf_counter()
            mean, std = _fitted(baseline, X_train, train, X_test)
            scores.setdefault(name, []).append(score(y_test, mean, std, y_train, time.perf_counter() - began))
    return scores


def _baselines(n_dimensions: int) -> Iterator[tuple[str, Any]]:
    boosting: Any = HistGradientBoostingRegressor(random_state=0)
    yield "linear model", make_pipeline(StandardScaler(), LinearRegression())
    yield "gradient boosting", boosting if n_dimensions == 1 else MultiOutputRegressor(boosting)


def _fitted(
    baseline: Any, X: np.ndarray, train: TrainingTable, X_test: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    y = train.y
    folds = KFold(min(_FOLDS, len(y)), shuffle=True, random_state=0)
    weights = train.sample_weight
    name = "linearregression__sample_weight" if hasattr(baseline, "steps") else "sample_weight"
    params = None if weights is None else {name: weights}
    error = y - cross_val_predict(baseline, X, y, cv=folds, params=params)
    mean = baseline.fit(X, y, **(params or {})).predict(X_test)
    spread = np.sqrt(np.mean(error**2, axis=0))
    return mean, np.broadcast_to(np.maximum(spread, np.finfo(float).tiny), mean.shape)

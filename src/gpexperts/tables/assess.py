"""Score a model on rows that were left out of its training, beside two baselines."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from gpexperts.exceptions import TableError
from gpexperts.metrics import Scores, score
from gpexperts.tables.arrow import pa
from gpexperts.tables.baselines import baseline_inputs, baselines, predicted
from gpexperts.tables.inputs import counted_elsewhere
from gpexperts.tables.training import TrainingTable, fit_table

__all__ = ["OURS", "Split", "assess", "last_in_time", "random_folds", "random_test"]

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
        train, inputs = table.take(training), table.inputs.take(pa.array(test))
        y_train, y_test = train.y, table.y[test]
        model = fit_table(make_model(), train)
        began = time.perf_counter()
        with counted_elsewhere():
            mean, std = model.predict(inputs, return_std=True)
        seconds = time.perf_counter() - began
        more = model.predictor_.score_terms(model.model_.encoder.encoded(inputs)[0], y_test)
        found = score(y_test, mean, std, y_train, seconds, width=model.interval_width, **more)
        scores.setdefault(OURS, []).append(found)
        encoder, n_outputs = model.model_.encoder, 1 if y_train.ndim == 1 else y_train.shape[1]
        X_train, X_test = (baseline_inputs(encoder, some) for some in (train.inputs, inputs))
        for name, baseline in baselines(encoder, n_outputs):
            began = time.perf_counter()
            mean, std = predicted(baseline, X_train, y_train, X_test, train.sample_weight)
            scores.setdefault(name, []).append(score(y_test, mean, std, y_train, time.perf_counter() - began))
    return scores

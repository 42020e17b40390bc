"""Scores on rows left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpexperts import DistributedGPRegressor
from gpexperts.exceptions import TableError
from gpexperts.metrics import score
from gpexperts.tables.assess import OURS, assess, last_in_time, random_folds, random_test
from gpexperts.tables.reading import open_table
from gpexperts.tables.training import TrainingTable, read_training_table
from gpexperts.tables.understand import Plan

# A length scale at its bound is reported, which is no failure of the scores.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")


def test_splits_are_what_they_claim() -> None:
    ((training, test),) = random_test(50, 0.2, 0)
    assert len(test) == 10
    assert sorted([*training, *test]) == list(range(50))
    folds = random_folds(50, 5, 0)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(50))
    times = np.array([3.0, np.nan, 1.0, 2.0, 2.0, 5.0, 4.0, 0.0, 1.0, 3.0])
    ((training, test),) = last_in_time(times, 0.3)
    assert sorted(test) == [0, 5, 6, 9]  # equal times stay together
    assert np.nanmax(times[training]) < times[test].min()


@pytest.mark.parametrize("share", [0.0, 1.0, 20.0, -0.2, 0.01])
def test_shares_that_leave_no_rows_are_refused(share: float) -> None:
    with pytest.raises(TableError, match="--test"):
        random_test(30, share, 0)
    with pytest.raises(TableError, match="the same time"):
        last_in_time(np.zeros(30), 0.2)


def _table(path: Path) -> TrainingTable:
    rng = np.random.default_rng(0)
    x, z = rng.uniform(0, 6, 200), rng.integers(0, 3, 200)
    y = np.sin(x) + z + 0.1 * rng.normal(size=200)
    lines = [f"{a},{'abc'[b]},{c}" for a, b, c in zip(x, z, y, strict=True)]
    path.write_text("\n".join(["x,z,y", *lines]) + "\n")
    return read_training_table(open_table(str(path)), Plan(["y"]))


def test_scores_are_those_of_models_that_have_not_seen_the_test_rows(tmp_path: Path) -> None:
    table = _table(tmp_path / "t.csv")
    splits = random_test(200, 0.25, 1)
    settings = {"kernel": "rbf", "optimizer": None, "n_experts": 2, "n_jobs": 1, "random_state": 0}
    table.y[splits[0][1][7]] = 1000.0
    scores, without, n_outliers = assess(lambda: DistributedGPRegressor(**settings), table, splits)
    ((training, test),) = splits
    X = table.inputs.to_pandas()
    model = DistributedGPRegressor(**settings).fit(X.iloc[training], table.y[training])
    mean, std = model.predict(X.iloc[test], return_std=True)
    expected = score(table.y[test], mean, std, table.y[training], 0.0, width=model.interval_width)
    assert scores[OURS][0].rmse == pytest.approx(expected.rmse)
    assert scores[OURS][0].coverage == expected.coverage
    A = np.column_stack([np.ones(200), X["x"], *(X["z"] == letter for letter in "abc")])
    slope = np.linalg.lstsq(A[training], table.y[training], rcond=None)[0]
    error = table.y[test] - A[test] @ slope
    assert scores["linear model"][0].rmse == pytest.approx(np.sqrt(np.mean(error**2)))
    assert n_outliers == 1
    squares, some = (table.y[test] - mean) ** 2, table.y[test] < 1000.0
    assert without[OURS][0].n == 49
    assert without[OURS][0].rmse == pytest.approx(np.sqrt(np.mean(squares[some])))
    assert without["linear model"][0].rmse == pytest.approx(np.sqrt(np.mean(error[some] ** 2)))
    assert without["gradient boosting"][0].rmse < without["linear model"][0].rmse

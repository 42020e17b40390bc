"""A fit that was cut short goes on where it stood."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gpexperts import DistributedGPRegressor
from gpexperts.experts.training import TraceRow
from tests.problems import random_problem


class CutShort(Exception):
    pass


class Interrupted(DistributedGPRegressor):
    """Fails at its fifth step, as a lost scheduler would make it."""

    def _report_step(self, row: TraceRow) -> None:
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps == 5:
            raise CutShort


def settings(path: Path, **changed) -> dict:
    return {"n_experts": 3, "kernel": "rbf", "random_state": 0, "checkpoint": path} | changed


@pytest.mark.parametrize("training", ["auto", "full"])
@pytest.mark.filterwarnings("ignore:These hyperparameters ended at a bound")
def test_a_fit_called_again_costs_the_steps_that_were_left(tmp_path: Path, training: str) -> None:
    problem = random_problem(3, n=200, n_experts=3)
    path = tmp_path / "theta.json"
    whole = DistributedGPRegressor(**settings(tmp_path / "other.json", training=training))
    whole.fit(problem.X, problem.y)
    with pytest.raises(CutShort):
        Interrupted(**settings(path, training=training)).fit(problem.X, problem.y)
    before = path.read_text()
    done = sum(len(climb["steps"]) for climb in json.loads(before)["climbs"])
    assert done == 5

    steps: list[TraceRow] = []
    again = DistributedGPRegressor(**settings(path, training=training))
    again._report_step = steps.append  # type: ignore[method-assign]
    again.fit(problem.X, problem.y)
    del again._report_step
    climbs = json.loads(path.read_text())["climbs"]
    assert climbs[0]["steps"][:5] == json.loads(before)["climbs"][0]["steps"][:5]
    assert len(steps) == sum(len(climb["steps"]) for climb in climbs) - 5
    assert again.log_marginal_likelihood_value_ == pytest.approx(
        whole.log_marginal_likelihood_value_, rel=1e-3
    )

    finished = DistributedGPRegressor(**settings(path, training=training))
    finished._report_step = steps.append  # type: ignore[method-assign]
    steps.clear()
    finished.fit(problem.X, problem.y)
    assert steps == []
    np.testing.assert_array_equal(finished.predict(problem.X_new), again.predict(problem.X_new))


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    problem = random_problem(3, n=60)
    path = tmp_path / "theta.json"
    given = settings(path, kernel=problem.kernel, optimizer=None)
    DistributedGPRegressor(**given).fit(problem.X, problem.y)
    with pytest.raises(ValueError, match="belongs to a fit of other data or settings"):
        DistributedGPRegressor(**given).fit(problem.X, -problem.y)
    last = problem.y.copy()
    last[-1] += 1.0
    with pytest.raises(ValueError, match="belongs to a fit of other data or settings"):
        DistributedGPRegressor(**given).fit(problem.X, last)
    with pytest.raises(ValueError, match="needs an int as random_state, got None"):
        DistributedGPRegressor(**given | {"random_state": None}).fit(problem.X, problem.y)
    path.write_text("not a checkpoint")
    with pytest.raises(ValueError, match="is not a checkpoint of gpexperts"):
        DistributedGPRegressor(**given).fit(problem.X, problem.y)


def test_a_checkpoint_of_other_parts_is_refused_however_many_rows_they_have(tmp_path: Path) -> None:
    """NumPy writes a thousand labels and more as a few, and dots."""
    X = np.linspace(0, 1, 1200)[:, None]
    labels = np.arange(1200) * 4 // 1200
    given = settings(tmp_path / "theta.json", optimizer=None, n_experts="auto")
    DistributedGPRegressor(**given | {"partition": labels}).fit(X, X[:, 0])
    labels[500], labels[700] = 2, 1
    with pytest.raises(ValueError, match="belongs to a fit of other data or settings"):
        DistributedGPRegressor(**given | {"partition": labels}).fit(X, X[:, 0])

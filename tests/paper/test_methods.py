from __future__ import annotations

import numpy as np
import pytest

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import NPAE
from gpexperts.metrics import msll, smse
from gpexperts.paper.experiment import limited
from gpexperts.paper.methods import aggregated, compare, evaluated, exact, problem, selected_by

CONFIG = {
    "n": 200, "n_experts": 4,
    "methods": [
        aggregated("gpoe"), aggregated("grbcm"), aggregated("npae"), selected_by("ggm", 2),
        selected_by("dnn", 0.5, max_iter=3), exact(),
    ],
}  # fmt: skip


def test_row_has_the_scores_of_the_model() -> None:
    rows = {row["method"]: row for row in compare(CONFIG, seed=0)}
    data = problem(CONFIG, 0)
    model = DistributedGPRegressor(
        n_experts=4,
        partition="kmeans",
        kernel="rbf",
        training="full",
        selection="all",
        n_selected=1.0,
        n_neighbors=0,
        aggregation=NPAE(disagreement=None),
        random_state=0,
    ).fit(data.X_train, data.y_train)
    mean, std = model.predict(data.X_test, return_std=True)
    assert rows["NPAE"]["smse"] == pytest.approx(smse(data.y_test, mean), rel=1e-9)
    assert rows["NPAE"]["msll"] == pytest.approx(msll(data.y_test, mean, std, data.y_train), rel=1e-9)
    assert [row["n_selected"] for row in rows.values()] == [4, 4, 4, 2, 2, 1]


def test_methods_share_their_hyperparameters() -> None:
    kernels = [str(model.kernel_) for _, model in evaluated(CONFIG, problem(CONFIG, 0), 0)]
    assert len(set(kernels)) == 1


def test_scores_depend_on_the_seed() -> None:
    first, second, other = (compare(CONFIG, seed) for seed in (0, 0, 1))
    assert [r["smse"] for r in first] == [r["smse"] for r in second]
    assert [r["smse"] for r in first] != [r["smse"] for r in other]


def test_limit_reduces_rows_experts_and_selected_experts() -> None:
    config = {
        "n": 3000,
        "n_experts": 10,
        "methods": [selected_by("knn", 8), selected_by("knn", 0.5), aggregated("npae")],
    }
    small = limited(config, (100, 7))
    assert (small["n"], small["n_experts"]) == (100, 5)
    assert [m.get("n_selected") for m in small["methods"]] == [5, 0.5, None]
    assert np.shape(problem(small, 0).X_test) == (7, 1)
    assert limited(config, None) == config

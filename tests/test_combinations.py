"""The table of combinations in docs/joint.md: every cell is what happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process.kernels import DotProduct, Matern, WhiteKernel

from gpexperts import inputs, pipeline
from gpexperts.partition import assign, shards
from tests.clusters import even_arrays, in_process_client
from tests.joint.models import KERNEL, data, fixed

PAGE = Path(__file__).parents[1] / "docs" / "joint.md"
X, Y, X_NEW = data(120)

MODELS: dict[str, list[dict[str, Any]]] = {
    "NPAE of selected experts": [{"setup": "experts"}],
    "own expert alone": [{"setup": "own"}],
    "own expert and NPAE": [{"setup": "both"}],
    "one expert (exact GP)": [{"setup": "exact"}],
    "PoE, GPoE, BCM, RBCM": [
        {"setup": "experts", "aggregation": rule} for rule in ("poe", "gpoe", "bcm", "rbcm")
    ],
    "GRBCM": [{"setup": "experts", "aggregation": "grbcm"}],
    "several outputs": [{"setup": "both", "y": np.column_stack([Y, Y**2])}],
    "kernel Matérn 1/2": [{"setup": "both", "kernel": Matern(0.5, nu=0.5) + WhiteKernel(0.04)}],
    "kernel without a fast form": [{"setup": "experts", "kernel": KERNEL + DotProduct()}],
    'calibrate="scale"': [{"setup": "own", "calibrate": "scale"}],
    'calibrate="conformal"': [{"setup": "own", "calibrate": "conformal"}],
    'calibrate="jackknife"': [{"setup": "own", "calibrate": "jackknife"}],
}
LEVELS = pd.DataFrame({"x0": X[:, 0], "x1": X[:, 1], "kind": pd.Categorical(np.resize(list("abc"), 120))})
MODELS |= {
    "sample_weight, noise_std": [
        {"setup": "both", "weight": np.resize([0.5, 1.0, 2.0], 120)},
        {"setup": "both", "noise_std": np.resize([0.1, 0.3], 120)},
    ],
    'noise="student"': [{"setup": "both", "noise": "student"}],
    'trend="linear" as mean': [{"setup": "both", "trend": "linear", "trend_role": "mean"}],
    'trend="sparse" as mean': [{"setup": "both", "trend": "sparse", "optimizer": "lbfgs"}],
    "trend of trees": [{"setup": "both", "trend": HistGradientBoostingRegressor(max_iter=5)}],
    "trend as input": [
        {
            "setup": "both",
            "trend": "linear",
            "trend_role": role,
            "kernel": "matern32",
            "standardize": True,
        }
        for role in ("input", "both")
    ],
    "target_transform": [
        {"setup": "both", "y": np.exp(Y), "target_transform": name} for name in ("log", "yeo-johnson")
    ],
    "categories, gaps or dates": [{"setup": "both", "X": LEVELS, "kernel": "matern32", "standardize": True}],
}
CLUSTER = "rows on a Dask cluster"

CALLS: dict[str, list[Callable[[Any, Any], Any]]] = {
    "covariance": [lambda m, q: m.predict(q, return_cov=True)[1], lambda m, q: m.predict_sum(q).std],
    "samples": [
        lambda m, q: m.sample_y(q, 2, random_state=0),
        lambda m, q: m.draw_functions(2, random_state=0)(q),
    ],
    "gradient": [lambda m, q: m.predict_gradient(q)],
    "gradient's std": [lambda m, q: m.predict_gradient(q, return_std=True)[1]],
    "leave-one-out": [lambda m, q: m.loo().std],
    "updates": [
        lambda m, q: m.partial_fit(q, m.predict(q), retrain="never").predict(q),
        lambda m, q: m.partial_fit(q, m.predict(q), retrain="now").predict(q),
        lambda m, q: m.forget([1]).predict(q),
    ],
}


def table() -> dict[str, dict[str, str]]:
    section = PAGE.read_text().split("## What works together\n")[1].split("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    (_, *columns), _, *rows = lines
    return {row[0]: dict(zip(columns, row[1:], strict=True)) for row in rows}


def check(model: Any, cells: dict[str, str], queries: Any = X_NEW) -> None:
    assert set(cells) == set(CALLS)
    for what, cell in cells.items():
        for call in CALLS[what]:
            if cell == "yes":
                assert np.isfinite(call(model, queries)).all()
            else:
                assert cell == "refused"
                with pytest.raises(
                    ValueError, match=r"(?s)(not available|cannot be drawn|needs|no derivative)"
                ):
                    call(model, queries)


def test_the_table_is_complete() -> None:
    assert set(table()) == {*MODELS, CLUSTER}


@pytest.mark.parametrize("row", MODELS)
def test_every_cell_is_what_happens(row: str) -> None:
    for given in MODELS[row]:
        settings = {name: value for name, value in given.items() if name not in ("X", "y")}
        rows = given.get("X", X)
        model = fixed(rows, given.get("y", Y), **settings)
        check(model, table()[row], X_NEW if rows is X else rows[:9])


def test_rows_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also: the joint predictions are those of threads."""
    for module in (pipeline, inputs, assign):
        monkeypatch.setattr(module, "SAMPLE_ROWS", 50)
    monkeypatch.setattr(shards, "SHARD_ROWS", 40)
    local = fixed(X, Y, "both")
    with in_process_client() as client:
        model = fixed(*even_arrays(X, Y), "both", engine=client)
        assert not isinstance(model.model_.experts, type(local.model_.experts))
        check(model, table()[CLUSTER])
        for what in ("gradient", "leave-one-out", "updates"):
            with pytest.raises(ValueError, match="to_local"):
                CALLS[what][0](model, X_NEW)
        for one, other in zip(
            local.predict(X_NEW, return_cov=True), model.predict(X_NEW, return_cov=True), strict=True
        ):
            np.testing.assert_allclose(other, one, atol=1e-9)
        assert model.predict_sum(X_NEW).std == pytest.approx(local.predict_sum(X_NEW).std, rel=1e-8)
        np.testing.assert_allclose(
            model.sample_y(X_NEW, 2, random_state=0), local.sample_y(X_NEW, 2, random_state=0), atol=1e-8
        )
        with pytest.raises(ValueError, match="jackknife"):
            fixed(*even_arrays(X, Y), "own", engine=client, calibrate="jackknife")
        check(model.to_local(), table()["own expert and NPAE"])

"""Section on computational costs: growth of the measured time, and the counts of the paper and ours.

Times are CPU seconds of the process, the smallest of three.
The exponent is the slope of log time over log size from the middle of a sweep to its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from gpexperts.paper.experiment import Config, Experiment, Row, TableSpec
from gpexperts.paper.figures import MARKERS, new_figure
from gpexperts.paper.settings import ALL, paper_model, paper_selection
from gpexperts.regressor import DistributedGPRegressor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

D = 8
SWEEPS: tuple[Config, ...] = (
    {"sweep": "M", "grows": "M", "values": [8, 16, 32, 64, 128], "rows": 6400, "K": 4, "queries": 500,
     "stages": ["selection ggm", "selection knn", "selection dnn"]},
    {"sweep": "M, all selected", "grows": "M", "values": [4, 8, 16, 32, 64], "m": 100, "queries": 300},
    {"sweep": "K", "grows": "K", "values": [2, 4, 8, 16, 32], "M": 32, "m": 200, "queries": 2000},
    {"sweep": "n_t", "grows": "queries", "values": [250, 500, 1000, 2000, 4000], "M": 16, "K": 8, "m": 200},
    {"sweep": "m", "grows": "m", "values": [50, 100, 200, 400, 800], "M": 8, "K": 4, "queries": 1000},
)  # fmt: skip
"""`grows` is varied; m is the number of rows of an expert. Defaults: M·m rows, all M experts selected."""
PAPER = {
    ("M", "selection ggm"): {"exponent": 3.0},
    ("M", "selection knn"): {"exponent": 1.0},
    ("M", "selection dnn"): {"exponent": 1.0},
    ("M, all selected", "prediction"): {"exponent": 3.0},
    ("K", "prediction"): {"exponent": 3.0},
    ("n_t", "prediction"): {"exponent": 1.0},
    ("m", "prediction"): {"exponent": 0.0},
}
"""The paper counts O(M³) for GLasso, O(KMD), O(N·U·M), and O(n_t K³) for the aggregation."""
EXPECTED = {("M, all selected", "prediction"): 2.0, ("K", "prediction"): 2.0, ("m", "prediction"): 2.0}
"""Our count, if different: R(x*) takes K² m² operations per query, more than K³ for K < m²."""


def run(config: Config, seed: int) -> list[Row]:
    """CPU seconds of each stage at each size of a sweep, and the exponent of its growth."""
    rows: list[Row] = []
    stages = config.get("stages", ["prediction"])
    for value in config["values"]:
        size = config | {config["grows"]: value}
        model, X_test = _model(size.get("rows") or size["M"] * size["m"], size["M"], size["queries"], seed)
        for stage in stages:
            seconds = _measure(model, X_test, stage, size.get("K") or size["M"])
            rows.append({"sweep": config["sweep"], "stage": stage, "value": value, "cpu_seconds": seconds})
    for stage in stages:
        mine = [row for row in rows if row["stage"] == stage]
        half = mine[len(mine) // 2 :]
        x, y = (np.log([row[key] for row in half]) for key in ("value", "cpu_seconds"))
        exponent = float(np.polyfit(x, y, 1)[0])
        key = (config["sweep"], stage)
        for row in mine:
            row |= {"exponent": exponent, "expected": EXPECTED.get(key, PAPER[key]["exponent"])}
    return rows


def _model(n: int, M: int, n_queries: int, seed: int) -> tuple[DistributedGPRegressor, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n + n_queries, D))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(len(X))
    kernel = ConstantKernel(1.0) * RBF(np.full(D, 2.0)) + WhiteKernel(0.01)
    model = paper_model(M, seed, partition="balanced").set_params(kernel=kernel, optimizer=None)
    return model.fit(X[:n], y[:n]), X[n:]


def _measure(model: DistributedGPRegressor, X: np.ndarray, stage: str, K: int) -> float:
    what, _, name = stage.partition(" ")
    if what == "selection":
        return _least(
            lambda: model.set_params(selection=paper_selection(name), n_selected=K).select(X),
            before=lambda: model.set_params(selection="all", n_selected=ALL).select(X[:1]),
        )
    model.set_params(selection="all", n_selected=ALL).predict(X[:1], return_std=True)
    model.set_params(selection=paper_selection("knn"), n_selected=K).select(X[:1])
    return _least(lambda: model.predict(X, return_std=True))


def _least(
    action: Callable[[], object], before: Callable[[], object] | None = None, repeats: int = 3
) -> float:
    """CPU seconds of an action, the smallest of some; `before` is called before each and not counted."""
    seconds = []
    for _ in range(repeats):
        if before is not None:
            before()
        began = time.process_time()
        action()
        seconds.append(max(time.process_time() - began, 1e-6))
    return min(seconds)


def draw(rows: list[Row]) -> Figure:
    """One panel per sweep, both axes logarithmic; dashed: the growth according to the paper."""
    sweeps = list(dict.fromkeys(row["sweep"] for row in rows))
    figure, axes = new_figure(3, -(-len(sweeps) // 3), width=3.6, height=3.0)
    for ax in axes.flat[len(sweeps) :]:
        ax.axis("off")
    for sweep, ax in zip(sweeps, axes.flat, strict=False):
        mine = [row for row in rows if row["sweep"] == sweep and row["seed"] == rows[0]["seed"]]
        for i, stage in enumerate(dict.fromkeys(row["stage"] for row in mine)):
            line = [row for row in mine if row["stage"] == stage]
            papers = PAPER[sweep, stage]["exponent"]
            values, seconds = (np.array([row[key] for row in line]) for key in ("value", "cpu_seconds"))
            label = f"{stage}: {line[0]['exponent']:.1f} (paper {papers:g})"
            ax.loglog(values, seconds, color=f"C{i}", marker=MARKERS[i], ms=4, label=label)
            # The growth according to the paper, from the middle on.
            later = values[len(values) // 2 :]
            ax.loglog(later, seconds[-len(later)] * (later / later[0]) ** papers, f"C{i}--", lw=0.9)
        ax.set_xlabel(sweep)
        ax.set_xticks(values, map(str, values))
        ax.minorticks_off()
        ax.margins(y=0.25)
        ax.legend(loc="upper left", fontsize=7, frameon=False)
        ax.grid(alpha=0.25)
    for row_of_axes in axes:
        row_of_axes[0].set_ylabel("CPU s")
    return figure


EXPERIMENT = Experiment(
    name="cost",
    paper="Section on computational costs",
    about="growth of selection and prediction time in M, K, n_t and the experts' size m",
    configs=SWEEPS,
    run=run,
    table=TableSpec(keys=("sweep", "stage"), scores=("exponent", "expected"), paper=PAPER),
    draw=draw,
    seeds=1,
)

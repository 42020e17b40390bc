"""Asymptotic properties: distance to the full GP and to the noise-free function as n grows.

The size of the experts is fixed and their number grows. In theory, PoE and BCM are then inconsistent.
The queries lie inside the training inputs; their targets are the noise-free function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpexperts.paper.datasets import Split, analytic_function, analytic_problem
from gpexperts.paper.experiment import Config, Experiment, Row, TableSpec
from gpexperts.paper.experiments.concrete_baselines import RULES
from gpexperts.paper.figures import lines
from gpexperts.paper.methods import aggregated, evaluated, exact, selected_by

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXPERT_SIZE = 125
METHODS = [
    exact(),
    *(aggregated(name) for name in RULES),
    *(selected_by(name, 0.5) for name in ("ggm", "knn", "dnn")),
    *(aggregated(name) | {"method": f"{label} + KNN", "selection": "knn", "n_selected": 0.5}
      for name, label in (("poe", "PoE"), ("bcm", "BCM"), ("rbcm", "RBCM"))),
]  # fmt: skip
RANDOM = [
    method | {"method": f"{method['method']}, random parts"} for method in (exact(), *map(aggregated, RULES))
]


def run(config: Config, seed: int) -> list[Row]:
    """Distance of every method to the full GP, which comes first, and to the noise-free function."""
    data = analytic_problem(config["n"], seed=seed)
    x = np.linspace(0.0, 1.0, config["queries"])
    inside = Split(data.X_train, data.y_train, x[:, None], analytic_function(x))
    spread = data.y_train.std()
    n_experts = max(2, config["n"] // config["expert_size"])
    rows: list[Row] = []
    for row, model in evaluated(config | {"n_experts": n_experts}, inside, seed):
        mean, std = model.predict(inside.X_test, return_std=True, latent=True)
        if row["method"].startswith("full GP"):
            full, full_std = mean, std
        rows.append(
            {key: row[key] for key in ("n", "n_experts", "n_selected", "method", "fit_cpu", "predict_cpu")}
            | {
                "to_full_gp": float(np.sqrt(np.mean((mean - full) ** 2)) / spread),
                "to_truth": float(np.sqrt(np.mean((mean - inside.y_test) ** 2)) / spread),
                "std_ratio": float(np.exp(np.mean(np.log(std / full_std)))),
            }
        )
    return rows


def draw(rows: list[Row]) -> Figure:
    """Left to right: distance of the means to the full GP's and to the truth, and the stds' ratio."""
    scores = ("to_full_gp", "to_truth", "std_ratio")
    mine = [row for row in rows if not row["method"].startswith("full GP")]
    parts = [row | {"parts": "random" if "random" in row["method"] else "k-means"} for row in mine]
    short = [row | {"method": row["method"].removesuffix(", random parts")} for row in parts]
    return lines(short, "n", scores, panels="parts", log=scores, logx=True)


EXPERIMENT = Experiment(
    name="consistency",
    paper="Section on asymptotic properties",
    about=f"synthetic function, n = 250 to 16,000, experts of {EXPERT_SIZE} rows: root mean square distance "
    "to the full GP's mean and to the noise-free function (in standard deviations of y)",
    configs=(
        *(
            {"n": n, "expert_size": EXPERT_SIZE, "queries": 500, "methods": METHODS}
            for n in (250, 500, 1000, 2000, 4000, 8000, 16000)
        ),
        *(
            {"n": n, "expert_size": EXPERT_SIZE, "queries": 500, "partition": "random", "methods": RANDOM}
            for n in (250, 500, 1000, 2000, 4000)
        ),
    ),
    run=run,
    table=TableSpec(keys=("method", "n"), scores=("to_full_gp", "to_truth", "std_ratio")),
    draw=draw,
    seeds=3,
)  # fmt: skip

"""Not in the paper: all fixed sets of K experts, to see the limits of GGM.

Every set of K experts is used for all queries. The test errors of the best, the median and the worst set are
compared with GGM, which selects one of these sets, and KNN, which selects a set for each query.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from gpexperts.metrics import msll, smse
from gpexperts.paper.experiment import Config, Experiment, Row, TableSpec
from gpexperts.paper.figures import dots
from gpexperts.paper.methods import aggregated, evaluated, problem, selected_by
from gpexperts.selection import Selector

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FixedSelector(Selector):
    """Select the same experts for every query."""

    def __init__(self, experts: tuple[int, ...] = ()) -> None:
        self.experts = experts

    def select(self, X: np.ndarray, n_selected: int) -> np.ndarray:
        return np.tile(np.asarray(self.experts[:n_selected]), (len(X), 1))


def run(config: Config, seed: int) -> list[Row]:
    """Scores of GGM, KNN and NPAE, then of the best, the median and the worst fixed set."""
    data = problem(config, seed)
    rows: list[Row] = []
    for row, experts in evaluated(config, data, seed):
        rows.append({key: row[key] for key in ("data", "n_experts", "n_selected", "method", "smse", "msll")})
        model = experts
    K = rows[0]["n_selected"]
    found = []
    for chosen in combinations(range(model.n_experts_), K):
        model.set_params(selection=FixedSelector(chosen), n_selected=K)
        mean, std = model.predict(data.X_test, return_std=True)
        found.append((smse(data.y_test, mean), msll(data.y_test, mean, std, data.y_train)))
    found.sort()
    places = {"best set": 0, "median set": len(found) // 2, "worst set": len(found) - 1}
    shared = {key: rows[0][key] for key in ("data", "n_experts", "n_selected")}
    return rows + [
        shared | {"method": f"{name} of {len(found)}", "smse": found[i][0], "msll": found[i][1]}
        for name, i in places.items()
    ]


def draw(rows: list[Row]) -> Figure:
    """One dot per method."""
    short = [row | {"method": row["method"].split(" of ")[0]} for row in rows]
    return dots(short, "method", ("smse", "msll"), panels="data", log=("smse",), width=3.6)


EXPERIMENT = Experiment(
    name="fixed-sets",
    paper="Not in the paper",
    about="the best, median and worst of all fixed sets of K experts beside GGM, KNN and NPAE",
    configs=tuple(
        {
            "data": data,
            "n_experts": M,
            "methods": [selected_by("ggm", K), selected_by("knn", K), aggregated("npae")],
        }
        for data, M, K in (("concrete", 10, 6), ("airfoil", 5, 3))
    ),
    run=run,
    table=TableSpec(keys=("data", "method"), scores=("smse", "msll")),
    draw=draw,
    seeds=3,
)

"""Not in the paper: protein with the targets RMSD and log(1 + RMSD), to find the target of the paper.

Both are trained on blocks (training="auto") and use five experts per query.
"""

from __future__ import annotations

from gpexperts.paper.experiment import Experiment, TableSpec
from gpexperts.paper.experiments.real_world import PAPER
from gpexperts.paper.figures import dots
from gpexperts.paper.methods import compare, selected_by
from gpexperts.paper.tables import with_paper

TABLE = TableSpec(
    keys=("data", "method"),
    scores=("smse", "msll", "coverage", "fit_cpu"),
    paper={("protein-log1p", "KNN"): PAPER["protein-log1p", "KNN", 0.5]},
)

EXPERIMENT = Experiment(
    name="protein-target",
    paper="Not in the paper",
    about="protein, M = 70, KNN with K = 5, training on blocks: the targets RMSD and log(1 + RMSD)",
    configs=tuple(
        {"data": data, "n_experts": 70, "training": "auto", "methods": [selected_by("knn", 5)]}
        for data in ("protein", "protein-log1p")
    ),
    run=compare,
    table=TABLE,
    draw=lambda rows: dots(with_paper(rows, TABLE), "data", ("smse", "msll")),
    seeds=1,
)

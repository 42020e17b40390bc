"""Not in the paper: the number of experts on pol, to explain the difference to the paper."""

from __future__ import annotations

from gpexperts.paper.experiment import Experiment, TableSpec
from gpexperts.paper.figures import lines
from gpexperts.paper.methods import aggregated, compare, selected_by

METHODS = [selected_by("knn", K) for K in (1, 2, 3, 5, 7, 10)] + [
    aggregated("rbcm") | {"selection": "knn", "n_selected": K} for K in (1, 2, 3, 5, 7, 10)
]

EXPERIMENT = Experiment(
    name="pol-k",
    paper="Not in the paper",
    about="pol, M = 10: KNN for K = 1…10, combined by NPAE and by RBCM",
    configs=({"data": "pol", "n_experts": 10, "methods": METHODS},),
    run=compare,
    table=TableSpec(keys=("method", "n_selected"), scores=("smse", "msll", "coverage", "predict_cpu")),
    draw=lambda rows: lines(rows, "n_selected", ("smse", "msll")),
    seeds=1,
)

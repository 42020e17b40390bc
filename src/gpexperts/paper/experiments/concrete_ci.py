"""Table "Expert Selection in CI-Based Baselines": GPoE, RBCM and GRBCM with and without KNN."""

from __future__ import annotations

from gpexperts.paper.experiment import Experiment, TableSpec
from gpexperts.paper.figures import dots
from gpexperts.paper.methods import aggregated, compare
from gpexperts.paper.tables import with_paper

PAPER = {
    ("GPoE", "all"): {"smse": 0.138, "msll": -0.876, "predict_seconds": 0.03},
    ("GPoE", "knn"): {"smse": 0.115, "msll": -0.916, "predict_seconds": 0.03},
    ("RBCM", "all"): {"smse": 0.0993, "msll": 0.396, "predict_seconds": 0.03},
    ("RBCM", "knn"): {"smse": 0.091, "msll": 0.156, "predict_seconds": 0.03},
    ("GRBCM", "all"): {"smse": 0.1093, "msll": -1.103, "predict_seconds": 0.06},
    ("GRBCM", "knn"): {"smse": 0.089, "msll": -1.21, "predict_seconds": 0.06},
}
METHODS = [
    aggregated(name) | chosen
    for name in ("gpoe", "rbcm", "grbcm")
    for chosen in ({}, {"selection": "knn", "n_selected": 6})
]

TABLE = TableSpec(
    keys=("method", "selection"),
    scores=("smse", "msll", "coverage", "predict_seconds", "predict_cpu"),
    paper=PAPER,
)

EXPERIMENT = Experiment(
    name="concrete-ci",
    paper='Table "Expert Selection in CI-Based Baselines"',
    about="concrete, M = 10, K = 6: GPoE, RBCM and GRBCM with and without KNN",
    configs=({"data": "concrete", "n_experts": 10, "methods": METHODS},),
    run=compare,
    table=TABLE,
    draw=lambda rows: dots(
        with_paper(rows, TABLE), "method", ("smse", "msll", "predict_seconds"), by="selection"
    ),
)

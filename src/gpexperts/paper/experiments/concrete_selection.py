"""Figure "Expert selection prediction qualities": GGM, KNN and DNN against NPAE as K grows."""

from __future__ import annotations

from gpexperts.paper.experiment import Experiment, TableSpec
from gpexperts.paper.figures import lines
from gpexperts.paper.methods import aggregated, compare, selected_by

METHODS = [selected_by(name, K) for name in ("ggm", "knn", "dnn") for K in range(1, 11)] + [
    aggregated("npae")
]

EXPERIMENT = Experiment(
    name="concrete-selection",
    paper='Figure "Expert Selection prediction qualities"',
    about="concrete, M = 10: GGM, KNN and DNN for K = 1…10 against NPAE",
    configs=({"data": "concrete", "n_experts": 10, "methods": METHODS},),
    run=compare,
    table=TableSpec(keys=("method", "n_selected")),
    draw=lambda rows: lines(rows, "n_selected", ("smse", "msll"), baselines=("NPAE",)),
)

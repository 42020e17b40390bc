"""Figure "Prediction quality and running time": the synthetic function with more rows and more experts."""

from __future__ import annotations

from gpexperts.paper.experiment import Experiment, TableSpec
from gpexperts.paper.figures import lines
from gpexperts.paper.methods import aggregated, compare, selected_by

METHODS = [
    *(selected_by(name, K, f"{name.upper()}-{K}") for name in ("ggm", "knn", "dnn") for K in (3, 5)),
    aggregated("npae"),
]

EXPERIMENT = Experiment(
    name="synthetic-quality",
    paper='Figure "Prediction quality and running time"',
    about="synthetic function, n = 3000 and 5000, M = 10, 15, 20, K = 3 and 5",
    configs=tuple({"n": n, "n_experts": M, "methods": METHODS} for n in (3000, 5000) for M in (10, 15, 20)),
    run=compare,
    table=TableSpec(
        keys=("n", "n_experts", "method"),
        scores=("smse", "msll", "coverage", "select_cpu", "predict_cpu"),
    ),
    draw=lambda rows: lines(rows, "n_experts", ("smse", "msll", "predict_cpu"), panels="n"),
)

"""Figure "Prediction quality … as a function of experts": the synthetic function, K = 1…10."""

from __future__ import annotations

from gpexperts.paper.experiment import Experiment, TableSpec
from gpexperts.paper.experiments.concrete_selection import METHODS
from gpexperts.paper.figures import lines
from gpexperts.paper.methods import compare

EXPERIMENT = Experiment(
    name="synthetic-k",
    paper='Figure "Prediction quality of available baselines as a function of experts"',
    about="synthetic function, n = 3000, M = 10: GGM, KNN and DNN for K = 1…10 against NPAE",
    configs=({"n": 3000, "n_experts": 10, "methods": METHODS},),
    run=compare,
    table=TableSpec(
        keys=("method", "n_selected"), scores=("smse", "msll", "coverage", "select_cpu", "predict_cpu")
    ),
    draw=lambda rows: lines(rows, "n_selected", ("smse", "msll", "predict_cpu"), baselines=("NPAE",)),
)

"""Figure "Activation Functions": softmax and sigmoid output of the selecting network."""

from __future__ import annotations

from gpexperts.paper.experiment import Experiment, TableSpec
from gpexperts.paper.figures import lines
from gpexperts.paper.methods import compare, selected_by

METHODS = [
    selected_by("dnn", K, f"{output}, K = {K}", output=output, batch_size=batch_size)
    for output in ("softmax", "sigmoid")
    for K in (4, 6)
    for batch_size in (16, 25, 50, 100)
]

EXPERIMENT = Experiment(
    name="concrete-activation",
    paper='Figure "Activation Functions"',
    about="concrete, M = 10, K = 4 and 6: softmax and sigmoid output, four batch sizes",
    configs=({"data": "concrete", "n_experts": 10, "methods": METHODS},),
    run=compare,
    table=TableSpec(keys=("output", "n_selected", "batch_size"), scores=("smse", "msll", "select_cpu")),
    draw=lambda rows: lines(rows, "batch_size", ("smse", "msll")),
)

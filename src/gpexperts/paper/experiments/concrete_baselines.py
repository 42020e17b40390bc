"""Example 1, figure "Ablation experiment 1": every rule against the full GP as M grows."""

from __future__ import annotations

from gpexperts.paper.experiment import Experiment, TableSpec
from gpexperts.paper.figures import lines
from gpexperts.paper.methods import aggregated, compare, exact

RULES = ("poe", "gpoe", "bcm", "rbcm", "grbcm", "npae")
METHODS = [aggregated(name) for name in RULES] + [exact()]

EXPERIMENT = Experiment(
    name="concrete-baselines",
    paper='Example 1, figure "Ablation experiment 1"',
    about="concrete, M = 5, 7, 10: every rule against the full GP",
    configs=(
        *({"data": "concrete", "n_experts": M, "methods": METHODS} for M in (5, 7, 10)),
        {"data": "concrete", "n_experts": 1, "methods": [{"method": "full GP, own θ"}]},
    ),
    run=compare,
    table=TableSpec(keys=("n_experts", "method")),
    draw=lambda rows: lines(rows, "n_experts", ("smse", "msll"), baselines=("full GP, own θ",)),
)

"""Claim of Section II-B: disjoint (k-means) parts against random ones, for every rule."""

from __future__ import annotations

from gpexperts.paper.experiment import Experiment, TableSpec
from gpexperts.paper.experiments.concrete_baselines import RULES
from gpexperts.paper.figures import dots
from gpexperts.paper.methods import aggregated, compare, selected_by

METHODS = [*(aggregated(name) for name in RULES), selected_by("knn", 0.5)]

EXPERIMENT = Experiment(
    name="partition",
    paper="Section II-B: disjoint against random partitioning",
    about="random and k-means parts for every rule on concrete and pumadyn32nm, M = 10",
    configs=tuple(
        {"data": data, "n_experts": 10, "partition": partition, "methods": METHODS}
        for data in ("concrete", "pumadyn32nm")
        for partition in ("kmeans", "random")
    ),
    run=compare,
    table=TableSpec(keys=("data", "method", "partition")),
    draw=lambda rows: dots(rows, "method", ("smse", "msll"), by="partition", panels="data", width=4.2),
)

"""The experiments, one file per table or figure; `EXPERIMENTS` has them in the order of the paper."""

from gpexperts.paper.experiment import Experiment
from gpexperts.paper.experiments import (
    concrete_activation,
    concrete_baselines,
    concrete_ci,
    concrete_graph,
    concrete_selection,
    consistency,
    cost,
    fixed_sets,
    partition,
    pol_k,
    protein_target,
    pumadyn,
    real_world,
    sarcos_recall,
    selection_scheme,
    synthetic_intervals,
    synthetic_k,
    synthetic_quality,
)

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        concrete_baselines,
        concrete_graph,
        selection_scheme,
        concrete_selection,
        concrete_activation,
        concrete_ci,
        synthetic_intervals,
        synthetic_k,
        synthetic_quality,
        pumadyn,
        real_world,
        partition,
        consistency,
        cost,
        fixed_sets,
        pol_k,
        protein_target,
        sarcos_recall,
    )
}

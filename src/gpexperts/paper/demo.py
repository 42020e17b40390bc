"""The demo: the experiment "synthetic-intervals" with one seed.

A function of one input with noise, ten experts. NPAE aggregates all ten; GGM selects the same five for all
queries; KNN and DNN select five for each query. The full GP has the same hyperparameters.
"""

from __future__ import annotations

from pathlib import Path

from gpexperts.files import appearing
from gpexperts.paper.experiment import Row
from gpexperts.paper.experiments import synthetic_intervals

__all__ = ["compare", "draw"]


def compare(n: int = 3000, seed: int = 0) -> list[Row]:
    """Run the experiment on n training rows.

    Returns
    -------
    list of dict
        One row of scores per method (`method`, `smse`, `msll`, `coverage99`, `fit_seconds`,
        `predict_seconds`, …), then the rows of the curves, which `draw` uses.
    """
    (config,) = synthetic_intervals.EXPERIMENT.configs
    rows = synthetic_intervals.run(config | {"n": n, "drawn_seed": seed}, seed)
    return [{"seed": seed} | row for row in rows]


def draw(rows: list[Row], path: Path) -> None:
    """Write the figure of the experiment to `path`."""
    figure = synthetic_intervals.draw(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with appearing(path) as part:
        figure.savefig(part, dpi=110, format=path.suffix[1:] or "png")

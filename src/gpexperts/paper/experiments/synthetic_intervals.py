"""Figure "99 % Confidence Interval": NPAE, GGM, KNN and DNN over the full GP, in four panels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from gpexperts.metrics import coverage
from gpexperts.paper.datasets import analytic_problem
from gpexperts.paper.experiment import Config, Experiment, Row, TableSpec
from gpexperts.paper.figures import COLOURS, new_figure
from gpexperts.paper.methods import aggregated, evaluated, exact, problem, selected_by

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVEL = 0.99


def run(config: Config, seed: int) -> list[Row]:
    """Scores of each method; for one seed also its curve: mean and std of an observation on a grid."""
    data = problem(config, seed)
    grid = np.linspace(*config["grid"])[:, None]
    scores: list[Row] = []
    curves: list[Row] = []
    for row, model in evaluated(config, data, seed):
        share = coverage(data.y_test, *model.predict(data.X_test, return_std=True), LEVEL)
        scores.append(row | {"coverage99": share})
        if seed == config["drawn_seed"]:
            curve = np.round([grid[:, 0], *model.predict(grid, return_std=True)], 5).T
            curves += [{"method": row["method"], "x": x, "mean": m, "std": s} for x, m, s in curve.tolist()]
    return scores + curves


def draw(rows: list[Row]) -> Figure:
    """The four panels of the first seed."""
    rows = [row for row in rows if row["seed"] == rows[0]["seed"]]
    scores = {row["method"]: row for row in rows if "smse" in row}
    curves = {
        name: np.array([(r["x"], r["mean"], r["std"]) for r in rows if "x" in r and r["method"] == name]).T
        for name in scores
    }
    data = analytic_problem(next(iter(scores.values()))["n"], seed=rows[0]["seed"])
    width = ndtri(0.5 + 0.5 * LEVEL)
    figure, axes = new_figure(2, 2, width=5.4, height=3.5)
    x, full, full_std = curves["full GP"]
    for name, ax in zip((n for n in scores if n != "full GP"), axes.flat, strict=True):
        _, mean, std = curves[name]
        colour = COLOURS[name]
        ax.plot(data.X_test[:, 0], data.y_test, ".", color="0.6", ms=3, label="test rows")
        ax.fill_between(
            x, mean - width * std, mean + width * std, color="C0", alpha=0.25, lw=0, label="99 % interval"
        )
        ax.plot(x, mean, color="C0", lw=1.8, label="mean")
        ax.plot(x, full, color="C3", lw=1, ls="--", label="full GP, mean")
        ax.plot(x, full - width * full_std, color="C3", lw=0.8, ls=":", label="full GP, 99 % interval")
        ax.plot(x, full + width * full_std, color="C3", lw=0.8, ls=":")
        for edge in (0.0, 1.0):
            ax.axvline(edge, color="0.8", lw=0.8, zorder=0)
        ax.set_title(
            f"{name}: SMSE {scores[name]['smse']:.4f}, MSLL {scores[name]['msll']:.3f}",
            fontsize=10,
            color=colour,
        )
        ax.margins(x=0)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=9, frameon=False)
    return figure


EXPERIMENT = Experiment(
    name="synthetic-intervals",
    paper='Figure "99 % Confidence Interval"',
    about="n = 3000, M = 10, K = 5: NPAE, GGM, KNN and DNN with the full GP at the same θ",
    configs=(
        {
            "n": 3000, "n_experts": 10, "grid": [-0.2, 1.2, 281], "drawn_seed": 0,
            "methods": [
                aggregated("npae"), *(selected_by(name, 5) for name in ("ggm", "knn", "dnn")), exact()
            ],
        },
    ),
    run=run,
    table=TableSpec(keys=("method",), scores=("smse", "msll", "coverage99")),
    draw=draw,
)  # fmt: skip

"""Figure of Example 2: five experts, ten queries, and the experts that all, GGM, KNN and DNN select."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpexperts.paper.experiment import Config, Experiment, Row, TableSpec
from gpexperts.paper.figures import COLOURS, new_figure
from gpexperts.paper.methods import aggregated, evaluated, problem, selected_by

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(config: Config, seed: int) -> list[Row]:
    """One row per method and query: its input and its experts."""
    everything = problem(config, seed)
    order = np.argsort(everything.X_test[:, 0])
    spaced = np.linspace(0, len(order) - 1, min(config["queries"], len(order))).astype(int)
    queries = everything.X_test[order[spaced]]
    rows: list[Row] = []
    for row, experts in evaluated(config, everything, seed):
        # Experts are numbered from left to right.
        rank = np.argsort(np.argsort(experts.centroids_[:, 0])) + 1
        chosen = [sorted(rank[e].tolist()) for e in experts.select(queries)]
        n_sets = len({tuple(a) for a in chosen})
        scores = {key: row[key] for key in ("method", "n_experts", "smse", "msll")}
        rows += [
            scores | {"query": q + 1, "x": float(x), "experts": " ".join(map(str, a)), "sets": n_sets}
            for q, (x, a) in enumerate(zip(queries[:, 0], chosen, strict=True))
        ]
    return rows


def draw(rows: list[Row]) -> Figure:
    """Experts above, queries below, a line for each selected expert."""
    rows = [row for row in rows if row["seed"] == rows[0]["seed"]]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    figure, axes = new_figure(2, -(-len(methods) // 2), width=5.2, height=2.6)
    for letter, method, ax in zip("abcd", methods, axes.flat, strict=False):
        mine = [row for row in rows if row["method"] == method]
        M, n = mine[0]["n_experts"], len(mine)
        x_expert, x_query = np.linspace(0.1, 0.9, M), np.linspace(0, 1, n)
        used = set()
        for q, row in enumerate(mine):
            for i in map(int, row["experts"].split()):
                used.add(i)
                ax.plot(
                    [x_query[q], x_expert[i - 1]], [0, 1], color=COLOURS.get(method, "0.4"), lw=0.9, zorder=1
                )
            ax.scatter([x_query[q]], [0], s=170, color="#cfe3f5", edgecolor="0.3", zorder=2)
            ax.text(x_query[q], 0, str(row["query"]), ha="center", va="center", fontsize=7, zorder=3)
        for i in range(M):
            colour = "#7fc97f" if i + 1 in used else "0.9"
            ax.scatter([x_expert[i]], [1], s=420, marker="s", color=colour, edgecolor="0.3", zorder=2)
            ax.text(x_expert[i], 1, f"$E_{i + 1}$", ha="center", va="center", fontsize=9, zorder=3)
        ax.set_title(f"({letter}) {'all experts' if method == 'NPAE' else method}", fontsize=10)
        ax.margins(0.08, 0.18)
        ax.axis("off")
    return figure


EXPERIMENT = Experiment(
    name="selection-scheme",
    paper="Example 2 and its figure",
    about="5 experts, 10 queries, K = 3: the experts that all, GGM, KNN and DNN select",
    configs=(
        {
            "n": 1000, "n_experts": 5, "queries": 10,
            "methods": [aggregated("npae"), *(selected_by(name, 3) for name in ("ggm", "knn", "dnn"))],
        },
    ),
    run=run,
    table=TableSpec(keys=("method",), scores=("sets", "smse", "msll")),
    draw=draw,
    seeds=1,
)  # fmt: skip

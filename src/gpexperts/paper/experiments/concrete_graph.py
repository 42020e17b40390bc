"""Figure "Expert Selection using GGM": the graph of ten experts, and the six most important of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpexperts.paper.experiment import Config, Experiment, Row, TableSpec
from gpexperts.paper.figures import new_figure
from gpexperts.paper.methods import fitted, problem
from gpexperts.selection import ExpertsView, GGMSelector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def run(config: Config, seed: int) -> list[Row]:
    """The experts with their importance, and the edges between them."""
    rows = problem(config, seed)
    model = fitted(config, rows, seed)
    expert_mean = model.explain(rows.X_test).expert_mean
    selector = GGMSelector(inputs=rows.X_test).fit(
        ExpertsView(
            X=rows.X_train,
            labels=model.labels_,
            centroids=model.centroids_,
            length_scale=np.ones(rows.X_train.shape[1]),
            means_at=lambda _: expert_mean,
            transform=lambda X: X,
            random_state=np.random.RandomState(seed),
        )
    )
    M = model.n_experts_
    K = max(1, int(config["ratio"] * M + 0.5))
    chosen = selector.select(rows.X_test[:1], K)[0].tolist()
    experts: list[Row] = [
        {
            "kind": "expert", "expert": i + 1, "rows": int((model.labels_ == i).sum()),
            "importance": float(selector.importance_[i]), "selected": int(i in chosen),
        }
        for i in range(M)
    ]  # fmt: skip
    edges: list[Row] = [
        {"kind": "edge", "from": i + 1, "to": j + 1, "weight": float(selector.precision_[i, j])}
        for i in range(M)
        for j in range(i)
        if selector.precision_[i, j] != 0
    ]
    return experts + edges


def draw(rows: list[Row]) -> Figure:
    """(a) the graph, edges as wide as |Ω_ij|; (b) the same with the selected experts in green."""
    rows = [row for row in rows if row["seed"] == rows[0]["seed"]]
    figure, axes = new_figure(2, width=4.5, height=4.4)
    _graph(axes[0][0], rows, selected=False)
    _graph(axes[0][1], rows, selected=True)
    return figure


def _graph(ax: Axes, rows: list[Row], selected: bool) -> None:
    experts = [row for row in rows if row["kind"] == "expert"]
    edges = [row for row in rows if row["kind"] == "edge"]
    angle = {e["expert"]: 2 * np.pi * k / len(experts) for k, e in enumerate(experts)}
    place = {i: (np.sin(a), np.cos(a)) for i, a in angle.items()}
    chosen = {e["expert"] for e in experts if e["selected"]}
    widest = max((abs(e["weight"]) for e in edges), default=1.0)
    for e in edges:
        ends = place[e["from"]], place[e["to"]]
        inside = not selected or {e["from"], e["to"]} <= chosen
        ax.plot(
            *zip(*ends, strict=True), color="0.35" if inside else "0.85",
            lw=0.4 + 4 * abs(e["weight"]) / widest, zorder=1,
        )  # fmt: skip
    for i, (x, y) in place.items():
        green = selected and i in chosen
        ax.scatter([x], [y], s=650, color="#7fc97f" if green else "#f2d9d9", edgecolor="0.3", zorder=2)
        ax.text(x, y, f"$E_{{{i}}}$", ha="center", va="center", zorder=3)
    ax.set_title(
        f"(b) the {len(chosen)} most important (green)" if selected else "(a) the experts' graph", fontsize=10
    )
    ax.set_aspect("equal")
    ax.margins(0.15)
    ax.axis("off")


EXPERIMENT = Experiment(
    name="concrete-graph",
    paper='Figure "Expert Selection using GGM"',
    about="the graph of 10 experts on concrete and the 60 % most important ones",
    configs=({"data": "concrete", "n_experts": 10, "ratio": 0.6},),
    run=run,
    table=TableSpec(keys=("expert",), scores=("rows", "importance", "selected")),
    draw=draw,
    seeds=1,
)

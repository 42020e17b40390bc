"""Table Pumadyn and its figure of prediction times: M = 10, 15, 20, 50 % and 70 % of the experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpexperts.paper.experiment import Experiment, Row, TableSpec
from gpexperts.paper.figures import COLOURS, new_figure
from gpexperts.paper.methods import aggregated, compare, selected_by
from gpexperts.paper.tables import summarise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = [
    aggregated("gpoe"), aggregated("grbcm"), aggregated("npae"),
    *(selected_by(name, ratio) for name in ("ggm", "knn", "dnn") for ratio in (0.5, 0.7)),
]  # fmt: skip
PAPER_ROWS: dict[tuple[str, float | None], tuple[tuple[float, float], ...]] = {
    ("GPoE", None): ((0.0487, -1.5092), (0.0489, -1.5087), (0.0501, -1.4815)),
    ("GRBCM", None): ((0.049, -1.5129), (0.0490, -1.5083), (0.0486, -1.5133)),
    ("NPAE", None): ((0.0462, -1.5397), (0.0473, -1.5271), (0.0470, -1.5285)),
    ("GGM", 0.5): ((0.0477, -1.5249), (0.0485, -1.5103), (0.0481, -1.5180)),
    ("GGM", 0.7): ((0.0471, -1.5307), (0.0481, -1.5165), (0.0478, -1.5208)),
    ("KNN", 0.5): ((0.0467, -1.5364), (0.0477, -1.5236), (0.0475, -1.5234)),
    ("KNN", 0.7): ((0.0462, -1.5402), (0.0474, -1.5266), (0.0470, -1.5285)),
    ("DNN", 0.5): ((0.0465, -1.5370), (0.0477, -1.5232), (0.0476, -1.5216)),
    ("DNN", 0.7): ((0.0460, -1.5418), (0.0475, -1.5253), (0.0470, -1.5285)),
}
PAPER: dict[tuple[Any, ...], dict[str, float]] = {
    (M, method, ratio): {"smse": smse, "msll": msll}
    for (method, ratio), by_M in PAPER_ROWS.items()
    for M, (smse, msll) in zip((10, 15, 20), by_M, strict=True)
}


def draw(rows: list[Row]) -> Figure:
    """Prediction times of the dependent methods, with 50 % and with 70 % of the experts."""
    names = ("NPAE", "GGM", "KNN", "DNN")
    figure, axes = new_figure(2, width=4.8)
    for ratio, ax in zip((0.5, 0.7), axes[0], strict=True):
        mine = [row for row in rows if row["method"] in names and row.get("ratio") in (None, ratio)]
        summary = summarise(
            [r for r in mine if r["aggregation"] == "npae"], ("n_experts", "method"), ("predict_cpu",)
        )
        numbers = sorted({M for M, _ in summary})
        for k, name in enumerate(names):
            ax.bar(
                [i + (k - 1.5) * 0.2 for i in range(len(numbers))],
                [summary[M, name]["predict_cpu"][0] for M in numbers],
                0.2, color=COLOURS[name], label=name,
            )  # fmt: skip
        ax.set_xticks(range(len(numbers)), [f"M = {M}" for M in numbers])
        ax.set_ylabel("prediction CPU s")
        ax.set_title(f"{100 * ratio:.0f} % of the experts", fontsize=10)
        ax.legend(fontsize=8, frameon=False)
    return figure


EXPERIMENT = Experiment(
    name="pumadyn",
    paper="Table Pumadyn and its figure of prediction times",
    about="pumadyn32nm, M = 10, 15, 20: GPoE, GRBCM, NPAE, and GGM, KNN, DNN at 50 % and 70 %",
    configs=tuple({"data": "pumadyn32nm", "n_experts": M, "methods": METHODS} for M in (10, 15, 20)),
    run=compare,
    table=TableSpec(
        keys=("n_experts", "method", "ratio"),
        scores=("smse", "msll", "coverage", "select_cpu", "predict_cpu"),
        paper=PAPER,
    ),
    draw=draw,
)

"""Tables of SMSE and MSLL on real data.

Two data sets have two variants. "sarcos-official" is the split of the paper, whose test rows are all training
rows; "sarcos" leaves them out of training. "protein" has the target RMSD; "protein-log1p" has log(1 + RMSD),
which agrees better with the paper. NPAE with all experts is also run where the paper could not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpexperts.paper.experiment import Config, Experiment, Row, TableSpec
from gpexperts.paper.figures import dots
from gpexperts.paper.methods import aggregated, compare, selected_by
from gpexperts.paper.tables import with_paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS: dict[str, tuple[int, float]] = {
    "airfoil": (5, 0.5),
    "parkinsons": (10, 0.5),
    "pol": (10, 0.5),
    "song_head": (8, 0.2),
    "sarcos": (72, 0.5),
    "protein-log1p": (70, 0.5),
    "sarcos-official": (72, 0.5),
    "protein": (70, 0.5),
    "song": (80, 0.2),
}
"""Data ↦ M and K/M. With a hundredth of its rows, song_head gets a tenth of song's experts."""

HUGE = ("song",)
"""Data sets on which NPAE with all experts is a separate run, because it takes longest."""

COLUMNS = ("airfoil", "parkinsons", "pol", "protein-log1p", "sarcos-official", "song")
SMSE: dict[str, tuple[float, ...]] = {
    "GPoE": (0.1305, 0.2703, 0.0727, 0.8654, 0.0461, 0.9221),
    "RBCM": (0.0881, 0.2339, 0.0237, 0.3569, 0.0039, 0.8127),
    "GRBCM": (0.0777, 0.2395, 0.0191, 0.3540, 0.0034, 0.7762),
    "NPAE": (0.0694, 0.2121, 0.0144),
    "GGM": (0.0765, 0.2317, 0.0182, 0.3326, 0.0025, 0.7379),
    "KNN": (0.0694, 0.2126, 0.0145, 0.2743, 0.0025, 0.7007),
    "DNN": (0.0694, 0.2127, 0.0141, 0.2744, 0.0025, 0.6994),
}
MSLL: dict[str, tuple[float, ...]] = {
    "GPoE": (-1.1875, -0.5862, -1.5171, -0.0759, -1.165, -0.0449),
    "RBCM": (-1.3187, -0.5433, -1.5901, -0.6164, -2.5347, -0.1266),
    "GRBCM": (-1.4706, -0.8123, -2.293, -0.6378, -2.7985, -0.1563),
    "NPAE": (-1.5207, -0.8583, -2.3537),
    "GGM": (-1.4928, -0.7937, -2.1658, -0.6173, -2.8017, -0.1613),
    "KNN": (-1.5209, -0.8563, -2.3851, -0.7348, -2.8005, -0.1913),
    "DNN": (-1.5208, -0.8569, -2.3823, -0.7349, -2.8023, -0.1926),
}
PAPER: dict[tuple[Any, ...], dict[str, float]] = {
    (data, method, SETTINGS[data][1] if method in ("GGM", "KNN", "DNN") else None): {
        "smse": smse,
        "msll": msll,
    }
    for method in SMSE
    for data, smse, msll in zip(COLUMNS, SMSE[method], MSLL[method], strict=False)
}
PAPER |= {
    ("parkinsons", "GGM", 0.7): {"smse": 0.2208, "msll": -0.8541},
    ("parkinsons", "KNN", 0.7): {"smse": 0.2122, "msll": -0.8575},
    ("parkinsons", "DNN", 0.7): {"smse": 0.2117, "msll": -0.8587},
}


def _methods(data: str, ratio: float) -> list[Config]:
    ratios = (ratio, 0.7) if data == "parkinsons" else (ratio,)
    chosen = [selected_by(name, r) for r in ratios for name in ("ggm", "knn", "dnn")]
    full = [] if data in HUGE else [aggregated("npae")]
    return [aggregated("gpoe"), aggregated("rbcm"), aggregated("grbcm"), *chosen, *full]


TABLE = TableSpec(
    keys=("data", "method", "ratio"),
    scores=("smse", "msll", "coverage", "select_cpu", "predict_cpu"),
    paper=PAPER,
)


def draw(rows: list[Row]) -> Figure:
    """One panel per set and score; "KNN-7" selects 70 % of the experts, "KNN" the usual ratio."""
    named = [
        row | {"method": f"{row['method']}-7"} if row.get("ratio") == 0.7 else row
        for row in with_paper(rows, TABLE)
    ]
    return dots(named, "method", ("smse", "msll"), panels="data", log=("smse",))


EXPERIMENT = Experiment(
    name="real-world",
    paper="Tables of SMSE and MSLL on real-world data sets",
    about="seven methods on airfoil, parkinsons, pol, protein and sarcos (two ways each) and song",
    configs=(
        *(
            {"data": data, "n_experts": M, "methods": _methods(data, ratio)}
            for data, (M, ratio) in SETTINGS.items()
        ),
        *({"data": data, "n_experts": SETTINGS[data][0], "methods": [aggregated("npae")]} for data in HUGE),
    ),
    run=compare,
    table=TABLE,
    draw=draw,
    seeds=1,
)

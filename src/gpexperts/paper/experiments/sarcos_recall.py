"""Not in the paper: sarcos with shorter length scales and less noise, to separate recall from prediction.

The official test rows are training rows. A model that overfits its training rows has smaller errors on them,
and larger errors on new rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn.base import clone

from gpexperts.paper.experiment import Config, Experiment, Row, TableSpec
from gpexperts.paper.experiments.real_world import SETTINGS
from gpexperts.paper.figures import lines
from gpexperts.paper.methods import fitted, problem, score_method, selected_by

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(config: Config, seed: int) -> list[Row]:
    """Scores and likelihood with the trained length scales times each factor, and noise times its square."""
    data = problem(config, seed)
    trained = fitted(config, data, seed)
    rows: list[Row] = []
    for factor in config["factors"]:
        kernel = clone(trained.kernel_)
        kernel.set_params(
            k1__k2__length_scale=factor * trained.kernel_.k1.k2.length_scale,
            k2__noise_level=factor**2 * trained.kernel_.k2.noise_level,
        )
        model = clone(trained).set_params(kernel=kernel, optimizer=None).fit(data.X_train, data.y_train)
        (method,) = config["methods"]
        rows.append(
            {"data": config["data"], "n_experts": model.n_experts_, "factor": factor}
            | score_method(method, model, data)[1]
            | {"log_likelihood": model.log_marginal_likelihood_value_}
        )
    return rows


def draw(rows: list[Row]) -> Figure:
    """Scores against the factor, a line per way of splitting."""
    return lines(rows, "factor", ("smse", "msll"), by="data", log=("smse",))


EXPERIMENT = Experiment(
    name="sarcos-recall",
    paper="Not in the paper",
    about="sarcos, M = 72, KNN with K = 5: the trained length scales times a factor, the noise times "
    "its square, on the official split and with the test rows left out of training",
    configs=tuple(
        {
            "data": data, "n_experts": SETTINGS[data][0], "methods": [selected_by("knn", 5)],
            "factors": [1.0, 0.85, 0.7, 0.5],
        }
        for data in ("sarcos-official", "sarcos")
    ),
    run=run,
    table=TableSpec(keys=("data", "factor"), scores=("smse", "msll", "coverage", "log_likelihood")),
    draw=draw,
    seeds=1,
)  # fmt: skip

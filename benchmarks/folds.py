"""Built-in sizes and candidates compared with alternatives, on training rows only.

    python benchmarks/folds.py                       # every set and every alternative
    python benchmarks/folds.py --data pol --choice default "parts of 250 rows"

A random tenth of the training part is held out. The defaults and each alternative, with one constant changed,
are fitted to the rest. A change of a default should be justified by this benchmark.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

import common

DATA = ("pumadyn32nm", "pol", "protein", "sarcos")


def _without_matern12() -> dict[str, Any]:
    from gpexperts.kernels import named

    named.AUTOMATIC_KERNELS = tuple(k for k in named.AUTOMATIC_KERNELS if k != "matern12")
    return {}


def _small_final_blocks() -> dict[str, Any]:
    from gpexperts.training import schedule

    schedule.FINAL_BLOCKS = 50, 200
    return {}


def _no_local_noise() -> dict[str, Any]:
    from gpexperts.tuning import corrections

    corrections.LOCAL_NOISES = (0.0,)
    return {}


def _likelihood_alone() -> dict[str, Any]:
    from gpexperts.training.schedule import Evidence

    Evidence.score = property(lambda evidence: evidence.log_likelihood)
    return {}


CHOICES: dict[str, Callable[[], dict[str, Any]]] = {
    "default": dict,
    "parts of 250 rows": lambda: {"expert_size": 250},
    "parts of 600 rows": lambda: {"expert_size": 600},
    "no Matérn 1/2": _without_matern12,
    "final blocks of 200 rows": _small_final_blocks,
    "no local noise": _no_local_noise,
    "kernel by likelihood alone": _likelihood_alone,
}
"""Name ↦ function that returns settings of the estimator, or changes a constant in this process."""


def one(data: str, choice: str) -> None:
    """Fit to nine tenths of the training part and score the other tenth; print a line of JSON."""
    from gpexperts import DistributedGPRegressor
    from gpexperts.metrics import coverage, msll, smse
    from gpexperts.paper.datasets import split

    X, y, _, _ = split(data)
    order = np.random.default_rng(1).permutation(len(X))
    held_out, rest = order[: len(X) // 10], order[len(X) // 10 :]
    model = DistributedGPRegressor(random_state=0, **CHOICES[choice]())
    _, _, fit_cpu = common.timed(lambda: model.fit(X[rest], y[rest]))
    (mean, std), _, predict_cpu = common.timed(lambda: model.predict(X[held_out], return_std=True))
    result = {
        "kernel": model.choices_["kernel"].value,
        "n_experts": model.n_experts_,
        "fit_cpu": round(fit_cpu, 2),
        "predict_cpu": round(predict_cpu, 2),
        "smse": round(smse(y[held_out], mean), 5),
        "msll": round(msll(y[held_out], mean, std, y[rest]), 4),
        "coverage": round(coverage(y[held_out], mean, std), 4),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    common.run_grid("folds", __doc__, one, {"data": DATA, "choice": list(CHOICES)})

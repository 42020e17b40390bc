"""Training on blocks and the joint training of the paper on all parts, with the same parts and queries.

    python benchmarks/training.py
    python benchmarks/training.py --data pol

The default is fitted first (with parts of 400 rows, also where it would be the exact GP). Its parts and
kernel are then trained on all rows. Both models predict the test rows with the same settings.
"""

from __future__ import annotations

import json

import common

DATA = ("parkinsons", "pumadyn32nm", "pol", "protein", "sarcos")


def one(data: str) -> None:
    """Train both ways; print a line of JSON for each."""
    from gpexperts import DistributedGPRegressor
    from gpexperts.metrics import coverage, msll, smse
    from gpexperts.paper.datasets import split

    X, y, X_test, y_test = split(data)
    automatic = DistributedGPRegressor(expert_size=400, random_state=0)
    _, seconds, cpu = common.timed(lambda: automatic.fit(X, y))
    full = DistributedGPRegressor(
        partition=automatic.labels_,
        kernel=automatic.choices_["kernel"].value,
        training="full",
        random_state=0,
    )
    results = {}
    for name, model in (("auto", automatic), ("full", full)):
        if name == "full":
            _, seconds, cpu = common.timed(lambda: full.fit(X, y))
        mean, std = model.predict(X_test, return_std=True)
        results[name] = {
            "training_seconds": round(model.trace_[-1].seconds, 2),
            "fit_seconds": round(seconds, 2),
            "fit_cpu": round(cpu, 2),
            "smse": round(smse(y_test, mean), 6),
            "msll": round(msll(y_test, mean, std, y), 4),
            "coverage": round(coverage(y_test, mean, std), 4),
        }
    print(json.dumps(results))


if __name__ == "__main__":
    common.run_grid("training", __doc__, one, {"data": DATA}, repeat=True)

"""Corrections of the variance of NPAE on every data set: MSLL and coverage.

    python benchmarks/corrections.py
    python benchmarks/corrections.py --data protein

One fit with the defaults per data set. The same number of experts is then aggregated with
- none: no correction;
- spread: the weighted variance of the experts' means about the aggregated mean is added;
- ν = 1, 4, 16: NPAE(disagreement=ν), the factor (ν + Q) / (ν + K − 1);
- local noise: NPAE(local_noise=1), the local ratio of leave-one-out residuals to their variance;
- auto: the corrections that maximise the held-out density (the default), which also drops weak experts.
If the default is the exact GP there is no disagreement, but local noise and scale still apply.
"""

from __future__ import annotations

import json

import numpy as np

import common

DATA = ("concrete", "airfoil", "parkinsons", "pumadyn32nm", "pol", "protein", "sarcos", "flights200k")


def one(data: str) -> None:
    """Fit once and score every correction; print a line of JSON."""
    from gpexperts import DistributedGPRegressor
    from gpexperts.aggregation import NPAE
    from gpexperts.metrics import coverage, msll

    X, y, X_test, y_test = common.load(data)
    model = DistributedGPRegressor(random_state=0).fit(X, y)
    choice = model.choices_.get("n_selected")
    auto = model.explain(X_test)
    model.set_params(n_selected=int(model.select(X_test[:1]).shape[1]))  # the same K for all
    none = model.set_params(aggregation=NPAE(disagreement=None)).explain(X_test)
    weight = np.abs(none.weight) / np.abs(none.weight).sum(axis=1, keepdims=True)
    spread = (weight * (none.expert_mean - none.mean[:, None]) ** 2).sum(axis=1)
    predictions = {
        "none": (none.mean, none.std),
        "spread": (none.mean, np.sqrt(none.std**2 + spread)),
    }
    aggregators = {f"ν = {nu:g}": NPAE(disagreement=nu) for nu in (1.0, 4.0, 16.0)}
    aggregators["local noise"] = NPAE(disagreement=None, local_noise=1.0)
    for form, aggregator in aggregators.items():
        corrected = model.set_params(aggregation=aggregator).explain(X_test)
        predictions[form] = corrected.mean, corrected.std
    predictions["auto"] = auto.mean, auto.std
    result = {
        form: {
            "msll": round(msll(y_test, mean, std, y), 4),
            "coverage": round(coverage(y_test, mean, std), 4),
        }
        for form, (mean, std) in predictions.items()
    }
    chosen = "" if choice is None else choice.reason
    print(json.dumps({"n_experts": model.n_experts_, "chosen": chosen, "forms": result}))


if __name__ == "__main__":
    common.run_grid("corrections", __doc__, one, {"data": DATA}, repeat=True)

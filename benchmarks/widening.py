"""What is made of experts who contradict each other: forms of widening, on every set.

    python benchmarks/widening.py
    python benchmarks/widening.py --data protein

One default fit per set; the same answers of the same experts are then given
- as the model says (no widening);
- with the observation's variance times (ν + Q) / (ν + K − 1), NPAE's `widen`, for some ν and for the one that
  held-out rows choose (auto, the default);
- the same, but never narrower than the model says (one-sided);
- with the weighted spread of the experts' means about the combined one added to the variance (spread).
Where the default is the exact GP there is nobody to contradict.
"""

from __future__ import annotations

import json

import numpy as np

import common

DATA = ("concrete", "airfoil", "parkinsons", "pumadyn32nm", "pol", "protein", "sarcos", "flights200k")


def one(data: str) -> None:
    """Fit once and score every form; print a line of JSON."""
    from gpexperts import DistributedGPRegressor
    from gpexperts.aggregation import NPAE
    from gpexperts.metrics import coverage, msll
    from peers import load

    X, y, X_test, y_test = load(data)
    model = DistributedGPRegressor(random_state=0).fit(X, y)
    chosen = model.choices_.get("n_selected", {}).get("widen")
    spoken = model.set_params(aggregation=NPAE(widen=None)).explain(X_test)
    weight = np.abs(spoken.weight) / np.abs(spoken.weight).sum(axis=1, keepdims=True)
    spread = (weight * (spoken.said - spoken.mean[:, None]) ** 2).sum(axis=1)
    stds = {"none": spoken.std, "spread": np.sqrt(spoken.std**2 + spread)}
    for nu in (1.0, 4.0, 16.0):
        stds[f"ν = {nu:g}"] = model.set_params(aggregation=NPAE(widen=nu)).explain(X_test).std
    stds["auto"] = model.set_params(aggregation=NPAE()).explain(X_test).std
    stds["one-sided"] = np.maximum(stds["auto"], stds["none"])
    result = {
        form: {
            "msll": round(msll(y_test, spoken.mean, std, y), 4),
            "coverage": round(coverage(y_test, spoken.mean, std), 4),
        }
        for form, std in stds.items()
    }
    print(json.dumps({"n_experts": model.n_experts_, "chosen": chosen, "forms": result}))


if __name__ == "__main__":
    common.run_grid("widening", __doc__, one, {"data": DATA}, repeat=True)

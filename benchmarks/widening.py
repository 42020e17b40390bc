"""What is made of experts who contradict each other or have erred: corrections of the variance, on every set.

    python benchmarks/widening.py
    python benchmarks/widening.py --data protein

One default fit per set; the same answers of the same experts are then given
- as the model says (no widening);
- with the weighted spread of the experts' means about the combined one added to the variance (spread);
- with the observation's variance times (ν + Q) / (ν + K − 1), NPAE's `widen`, for some ν;
- with it times what the experts' own rows tell, NPAE's `surprise`;
- with both and a scale, as held-out rows choose (auto, the default).
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
    rule = model.choices_.get("n_selected", {})
    chosen = {name: rule[name] for name in ("widen", "surprise", "scale") if name in rule}
    spoken = model.set_params(aggregation=NPAE(widen=None)).explain(X_test)
    weight = np.abs(spoken.weight) / np.abs(spoken.weight).sum(axis=1, keepdims=True)
    spread = (weight * (spoken.said - spoken.mean[:, None]) ** 2).sum(axis=1)
    stds = {"none": spoken.std, "spread": np.sqrt(spoken.std**2 + spread)}
    for nu in (1.0, 4.0, 16.0):
        stds[f"ν = {nu:g}"] = model.set_params(aggregation=NPAE(widen=nu)).explain(X_test).std
    surprised = NPAE(widen=None, surprise=1.0)
    stds["surprise"] = model.set_params(aggregation=surprised).explain(X_test).std
    stds["auto"] = model.set_params(aggregation=NPAE()).explain(X_test).std
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

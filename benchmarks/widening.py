"""What is made of experts who contradict each other or have erred: corrections of the variance, on every set.

    python benchmarks/widening.py
    python benchmarks/widening.py --data protein

One default fit per set; the answers of as many experts are then given
- as the model says (no widening);
- with the weighted spread of the experts' means about the combined one added to the variance (spread);
- with the observation's variance times (ν + Q) / (ν + K − 1), NPAE's `widen`, for some ν;
- with it times what the experts' own rows tell, NPAE's `surprise`;
- with both and a scale, as held-out rows choose, who also leave out weak experts (auto, the default).
Where the default is the exact GP there is nobody to contradict, but its own rows it can still have misjudged.
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
    auto = model.explain(X_test)
    model.set_params(n_selected=int(model.select(X_test[:1]).shape[1]))  # the others ask as many
    spoken = model.set_params(aggregation=NPAE(widen=None)).explain(X_test)
    weight = np.abs(spoken.weight) / np.abs(spoken.weight).sum(axis=1, keepdims=True)
    spread = (weight * (spoken.said - spoken.mean[:, None]) ** 2).sum(axis=1)
    answers = {
        "none": (spoken.mean, spoken.std),
        "spread": (spoken.mean, np.sqrt(spoken.std**2 + spread)),
    }
    rules = {f"ν = {nu:g}": NPAE(widen=nu) for nu in (1.0, 4.0, 16.0)}
    for form, corrected in {**rules, "surprise": NPAE(widen=None, surprise=1.0)}.items():
        said = model.set_params(aggregation=corrected).explain(X_test)
        answers[form] = said.mean, said.std
    answers["auto"] = auto.mean, auto.std
    result = {
        form: {
            "msll": round(msll(y_test, mean, std, y), 4),
            "coverage": round(coverage(y_test, mean, std), 4),
        }
        for form, (mean, std) in answers.items()
    }
    print(json.dumps({"n_experts": model.n_experts_, "chosen": chosen, "forms": result}))


if __name__ == "__main__":
    common.run_grid("widening", __doc__, one, {"data": DATA}, repeat=True)

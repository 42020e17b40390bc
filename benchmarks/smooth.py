"""A smooth function with little noise: how near the defaults come to the exact GP on all rows.

    python benchmarks/smooth.py                       # 36,000 rows, seeds 0 to 4, all missing runs
    python benchmarks/smooth.py --rows 3000 --seed 0  # a quick run, which also checks conjugate gradients

The function is the distance of the end point of a planar arm with 8 equal links from its foot, with joint
angles uniform in ±π/2 and noise of 1 % of its deviation. Each run fits the defaults, and predicts 4,000 test
rows with them, with the query's own expert alone and with the fixed experts alone. For seed 0, the exact GP
on all rows at the same θ is computed too, by conjugate gradients. They stop when the SMSE has settled to four
digits. Up to `CHECKED` rows they are compared with a Cholesky factor.

The target: the defaults' SMSE is at most 1.25 times that of the exact GP.
"""

from __future__ import annotations

import json

import common

ROWS = (36_000,)
SEEDS = tuple(range(5))
TEST_ROWS = 4000
CHECKED = 6000
EXACT_SEED = 0
SETUPS = {
    "defaults": {},
    **{f"own expert of {m} rows": {"n_neighbors": m, "n_selected": 0} for m in (128, 256, 512)},
    "fixed experts alone": {"n_neighbors": 0},
}


def one(rows: int, seed: int) -> None:
    """Fit once, predict with each setup, score; print a line of JSON."""
    from exact import ExactGP, Settled
    from functions import problem
    from gpexperts import DistributedGPRegressor
    from gpexperts.metrics import msll, smse

    data = problem("arm", rows, TEST_ROWS)
    model = DistributedGPRegressor(random_state=seed)
    _, fit_seconds, fit_cpu = common.timed(lambda: model.fit(data.X, data.y))
    setups = {}
    for name, parameters in SETUPS.items():
        model.set_params(**{"n_neighbors": "auto", "n_selected": "auto"} | parameters)
        tuning = model.predictor_.tuning
        (mean, std), seconds, _ = common.timed(lambda: model.predict(data.X_test, return_std=True))
        setups[name] = {
            "chosen": str(tuning),
            "predict_seconds": seconds,
            "smse_truth": smse(data.truth, mean),
            "smse": smse(data.y_test, mean),
            "msll": msll(data.y_test, mean, std, data.y),
        }
    result = {
        "kernel": model.choices_["kernel"].value,
        "n_experts": model.n_experts_,
        "fit_seconds": fit_seconds,
        "fit_cpu": fit_cpu,
        "setups": setups,
    }
    if seed == EXACT_SEED:
        exact = ExactGP(model, data.X, data.y)
        settled = Settled(lambda: smse(data.truth, exact.mean(data.X_test)), 5e-5)
        _, seconds, _ = common.timed(lambda: exact.solve(settled))
        mean = exact.mean(data.X_test)
        result["exact"] = {
            "smse_truth": smse(data.truth, mean),
            "smse": smse(data.y_test, mean),
            "iterations": exact.iterations,
            "residual": exact.residual,
            "seconds": seconds,
        }
        if rows <= CHECKED:
            result["exact"]["smse_truth_dense"] = smse(data.truth, exact.solve_dense().mean(data.X_test))
    print(json.dumps(result | {"peak_gb": common.peak_gigabytes()}))


if __name__ == "__main__":
    common.run_grid("smooth", __doc__, one, {"rows": ROWS, "seed": SEEDS})

"""Cost and accuracy of the selectors knn, nearest_rows, dnn and ggm, for one to all experts.

    python benchmarks/selection.py            # protein, all 5,730 queries
    python benchmarks/selection.py --parts default    # only the second of the two fits below
    python benchmarks/selection.py --queries 500

One fit with the 70 k-means parts of the paper. Every selector, and NPAE with all experts, then predicts the
same queries with the same hyperparameters. A second fit has the defaults, with the chosen K and with all.
Rows in results/selection.jsonl are not computed again.
"""

from __future__ import annotations

import argparse
import json

import common
from summaries import plain

NUMBERS = (1, 2, 3, 5, 8, 12, 20, 35)


def main() -> None:
    """Add one row for each selector and K."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, help="number of test rows; default: all")
    parser.add_argument("--parts", nargs="*", choices=("paper", "default"), default=("paper", "default"))
    args = parser.parse_args()

    from gpexperts import DistributedGPRegressor
    from gpexperts.metrics import coverage, msll, smse
    from gpexperts.paper.datasets import split

    X, y, X_test, y_test = split("protein")
    X_test, y_test = X_test[: args.queries], y_test[: args.queries]

    def evaluated(model: DistributedGPRegressor) -> dict[str, float]:
        first, learn_seconds, _ = common.timed(lambda: model.select(X_test[:1]))  # fits the selector
        _, select_seconds, _ = common.timed(lambda: model.select(X_test))
        (mean, std), seconds, cpu = common.timed(lambda: model.predict(X_test, return_std=True))
        return {
            "n_selected": first.shape[1],
            "queries": len(X_test),
            "learn_seconds": round(learn_seconds, 3),
            "select_seconds": round(select_seconds, 3),
            "predict_seconds": round(seconds, 3),
            "predict_cpu": round(cpu, 3),
            "smse": round(smse(y_test, mean), 5),
            "msll": round(msll(y_test, mean, std, y), 5),
            "coverage": round(coverage(y_test, mean, std), 4),
        }

    paper = {"n_experts": 70, "partition": "kmeans", "n_selected": 1, "selection": "knn", "n_neighbors": 0}
    methods = [("all", "auto")] + [(s, k) for s in ("knn", "nearest_rows", "dnn", "ggm") for k in NUMBERS]
    choices = {
        "paper": ("70 k-means parts", paper, methods),
        "default": ("the defaults' parts", {}, [("auto", "auto"), ("all", "auto")]),
    }
    done = {
        (r["parts"], plain(r["selection"]), K)
        for r in common.rows("selection")
        for K in (r["n_selected"], "auto")
        if r["queries"] == len(X_test)
    }
    for parts, settings, methods_of_fit in (choices[name] for name in args.parts):
        missing = [(s, k) for s, k in methods_of_fit if (parts, s, k) not in done]
        if not missing:
            continue
        model = DistributedGPRegressor(random_state=0, **settings)
        _, fit_seconds, _ = common.timed(lambda model=model: model.fit(X, y))
        print(f"{parts}, fitted in {fit_seconds:.1f} s: {model.kernel_}")
        model.predict(X_test[:2000], return_std=True)  # computes the factors of the experts
        for selection, K in missing:
            model.set_params(selection=selection, n_selected=K)
            row = {"data": "protein", "parts": parts, "selection": selection, **evaluated(model)}
            common.append("selection", {**row, **common.machine()})
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

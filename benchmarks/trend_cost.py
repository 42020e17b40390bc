"""The cost of trend="auto": CPU seconds of a fit with and without it, and of one fit of the trend.

    python benchmarks/trend_cost.py
    python benchmarks/trend_cost.py --rows 1000 --data rough

The bar: at most the fit without a trend plus seven fits of boosting to all rows.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import common
import functions

ROWS = (1000, 10_000, 40_000)
DATA = ("rough", "steps")
"""A continuous function, for which experts need no trend, and one with jumps, for which boosting helps."""


def one(data: str, rows: int) -> None:
    """Fit three times and print a line of JSON."""
    from gpexperts import DistributedGPRegressor, fit_trend
    from gpexperts.trend.regressors import fitted_regressor, new_regressor

    found = functions.problem("rough", rows, 10)
    X, y = found.X, found.y
    if data == "steps":
        y = y + 2.0 * y.std() * np.floor(3.0 * X).sum(axis=1)
    spent: dict[str, list[float]] = {"quick_score": [], "score_of_trained": [], "cross_fit": []}

    def measured(name: str) -> None:
        original = getattr(fit_trend, name)

        def wrapped(*arguments: Any, **settings: Any) -> Any:
            value, _, cpu = common.timed(lambda: original(*arguments, **settings))
            spent[name].append(round(cpu, 2))
            return value

        setattr(fit_trend, name, wrapped)

    regressor = new_regressor("boosting", rows, 0)
    _, _, of_trend = common.timed(lambda: fitted_regressor(regressor, X, y, None))
    _, _, without = common.timed(lambda: DistributedGPRegressor(trend=None, random_state=0).fit(X, y))
    for name in spent:
        measured(name)
    model = DistributedGPRegressor(random_state=0)
    _, _, auto = common.timed(lambda: model.fit(X, y))
    result = {
        "none": round(without, 2),
        "auto": round(auto, 2),
        "one trend": round(of_trend, 2),
        "fits": round((auto - without) / of_trend, 1),
        "choosing, in fits": round(sum(map(sum, spent.values())) / of_trend, 1),
        "chosen": model.choices_["trend"].value,
        **spent,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    common.run_grid("trend_cost", __doc__, one, {"data": DATA, "rows": ROWS})

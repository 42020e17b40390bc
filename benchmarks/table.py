"""Writes benchmarks/README.md and its pictures from the results: `python benchmarks/peers.py --table`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import common
import dask_engine
import joint_section
from bars_section import continuity, latency, sizes, smooth
from peers_section import peers
from pictures import draw_scale
from summaries import Row, by_rows, latest, markdown_table, median, per_query, plain, seconds, values

INTRODUCTION = """# Benchmarks

Each command runs one benchmark and adds rows to `results/`. This page and its pictures are written from them
by `python benchmarks/peers.py --table`. The other methods are installed by `pip install '.[bench]'`. Each row
is one fit in its own process. Times are wall-clock / CPU seconds of all cores; CPU seconds depend less on
other work on the machine. Lower is better, except for coverage, which should be 0.95.

| command | measures |
| --- | --- |
| `python benchmarks/peers.py` | gpexperts and other GP libraries, LightGBM, CatBoost |
| `python benchmarks/compare.py` | the defaults of two checkouts, in turn: accuracy, time and memory |
| `python benchmarks/scale.py` | growth of time and memory from 10⁴ to 3·10⁶ rows |
| `python benchmarks/smooth.py` | a smooth function of 36,000 rows: the defaults and the exact GP |
| `python benchmarks/continuity.py` | steps of mean and std along lines; draws docs/maps.png |
| `python benchmarks/sizes.py` | errors around the size where the exact GP stops |
| `python benchmarks/latency.py` | one row at a time in a loop, and batches |
| `python benchmarks/selection.py` | knn, nearest_rows, dnn and ggm, for one to all experts |
| `python benchmarks/training.py` | training on blocks and on all rows |
| `python benchmarks/corrections.py` | corrections of the variance: disagreement, local noise, scale |
| `python benchmarks/outliers.py` | wrong targets: errors and coverage with Student-t noise |
| `python benchmarks/real_tables.py` | data frames with categories, gaps and dates; and boosting |
| `python benchmarks/trend_cost.py` | time that the choice of a trend adds to a fit |
| `python benchmarks/federated.py` | a federation and central training; see docs/federated.md |
| `python benchmarks/joint_coverage.py` | coverage of sums, maxima and averages of groups |
| `python benchmarks/joint_scale.py` | drawn functions, leave-one-out and updates of many rows |
| `python benchmarks/folds.py` | built-in sizes and candidates, on folds of the training rows |
| `python benchmarks/precision.py` | single precision and low-rank blocks in the pair stage |
| `python benchmarks/efficiency.py` | speed of training and prediction relative to matrix products |
| `python benchmarks/dask_engine.py` | the Dask engine and threads |
| `python benchmarks/calibration.py` | coverage of the intervals; see docs/calibration.md |
| `python benchmarks/prediction_memory.py` | increase of peak memory by 1,000,000 queries |
| `python benchmarks/cli_throughput.py` | time that the command line adds to a prediction |
| `python benchmarks/service.py` | requests per second of the service, and their latency |
"""


def write() -> None:
    """Write the page."""
    sections = [INTRODUCTION]
    for title, name, section in SECTIONS:
        results = common.rows(name)
        if results:
            sections.append(f"\n## {title}\n\n{section(results)}\n\n{_measured(results)}\n")
    (common.HERE / "README.md").write_text("".join(sections), encoding="utf-8")


def scale(results: list[Row]) -> str:
    """Numbers; with several sizes growth exponents and a picture too."""
    head = ["data", "rows", "seeds", "experts", "chosen", "fit s", "first µs/query", "again µs/query"]
    head += ["1,000 queries µs/query", "1 query per 29 rows µs/query", "peak GB", "SMSE", "MSLL", "coverage"]
    cases: dict[tuple[str, int], list[Row]] = {}
    for r in sorted(results, key=lambda r: (r["data"], r["rows"], r["seed"])):
        if r["status"] == "done":
            cases.setdefault((r["data"], r["rows"]), []).append(r)
    done = [{**runs[0], **(median(runs) or {}), "runs": runs} for runs in cases.values()]
    rows = [
        [
            r["data"], f"{r['rows']:,}", str(len(r["runs"])), f"{r['n_experts']:,}", r["chosen"],
            seconds(r, "fit"), *(f"{1e6 * per_query(r, prediction):.0f}" for prediction in _PREDICTIONS),
            f"{r['peak_gb']:.2f}", _ranged(r, "smse", 4), _ranged(r, "msll", 3), f"{r['coverage']:.3f}",
        ]
        for r in done
    ]  # fmt: skip
    growth = []
    for data in values(done, "data"):
        here = [r for r in by_rows(done, data) if r["rows"] >= 100_000]
        if len(here) > 2:
            n = np.log([r["rows"] for r in here])
            fit, memory = (
                np.polyfit(n, np.log([r[k] for r in here]), 1)[0] for k in ("fit_seconds", "peak_gb")
            )
            largest, at_1e5 = here[-1], here[0]
            ratio = [per_query(largest, p) / per_query(at_1e5, p) for p in _PREDICTIONS]
            growth.append(
                f"- {data}, from 10⁵ rows on: fit time grows as n^{fit:.2f}, peak memory as n^{memory:.2f}. "
                f"Time per query at {largest['rows']:,} rows relative to 100,000 rows: first {ratio[0]:.2f}, "
                f"again {ratio[1]:.2f}, 1,000 queries {ratio[2]:.2f}, 1 query per 29 rows {ratio[3]:.2f}."
            )
    about = (
        "Medians over seeds, with the smallest and the largest in brackets. *First*: 100,000 queries, "
        "factors computed. *Again*: the same with kept factors. *1,000 queries*: few queries share "
        "experts. *1 query per 29 rows*: the same number of queries per expert at every size, factors "
        "computed.\n\n"
    )
    picture = ""
    if growth:  # else there are too few sizes
        draw_scale(done)
        picture = "![time and memory against rows](scale.png)\n\n"
    return picture + about + markdown_table(head, rows) + "\n\n" + "\n".join(growth)


def _ranged(row: Row, name: str, digits: int) -> str:
    """The median over the seeds, and the range if there are several."""
    found = [run[name] for run in row["runs"]]
    ends = f" ({min(found):.{digits}f} to {max(found):.{digits}f})" if len(found) > 1 else ""
    return f"{row[name]:.{digits}f}{ends}"


_PREDICTIONS = ("predict", "again", "few", "in_proportion")
"""The predictions of scale.py, in the order of the columns."""


def selection(results: list[Row]) -> str:
    """One row per selector and K."""
    parts, selections = values(results, "parts"), values(results, "selection")
    results = sorted(
        results,
        key=lambda r: (parts.index(r["parts"]), selections.index(r["selection"]), r["n_selected"]),
    )
    head = ["parts", "selection", "K", "learn s", "select s", "predict s", "SMSE", "MSLL", "coverage"]
    rows = [
        [
            r["parts"], plain(r["selection"]), str(r["n_selected"]), f"{r['learn_seconds']:.2f}",
            f"{r['select_seconds']:.3f}",
            seconds(r, "predict"), f"{r['smse']:.4f}", f"{r['msll']:.3f}", f"{r['coverage']:.3f}",
        ]
        for r in results
    ]  # fmt: skip
    about = (
        f"Protein, {results[0]['queries']:,} queries with standard deviations, one θ per kind of parts; "
        "*all* is NPAE with all experts, *auto* chooses K by held-out density.\n\n"
    )
    return about + markdown_table(head, rows)


def training(results: list[Row]) -> str:
    """Both trainings of each set."""
    head = ["data", "training", "training s", "whole fit s", "SMSE", "MSLL", "coverage"]
    rows = [
        [
            r["data"] if way == "auto" else "", way, f"{r[way]['training_seconds']:.1f}",
            seconds(r[way], "fit"), f"{r[way]['smse']:.5f}", f"{r[way]['msll']:.3f}",
            f"{r[way]['coverage']:.3f}",
        ]
        for r in latest(results, "data") for way in ("auto", "full")
    ]  # fmt: skip
    failed = [r for r in results if r["status"] != "done"]
    about = (
        "*full* uses the parts and the kernel of *auto*, so that its fit does not include their choice. The "
        "training seconds of *auto* are those of the chosen kernel.\n\n"
    )
    return about + markdown_table(head, rows) + "".join(f"\n\n{r['data']}: {r['status']}" for r in failed)


def corrections(results: list[Row]) -> str:
    """MSLL and coverage of each form."""
    done = latest(results, "data")
    forms = list(done[0]["forms"])
    head = ["data", "experts", "chosen", *map(plain, forms)]
    rows = [
        [
            r["data"], str(r["n_experts"]),
            _chosen(r["chosen"]),
            *(f"{r['forms'][f]['msll']:.3f}, {r['forms'][f]['coverage']:.3f}" for f in forms),
        ]
        for r in done
    ]  # fmt: skip
    return (
        "MSLL and coverage with the same experts: without correction, with the variance of the experts' "
        "means added (spread), with `NPAE(disagreement=ν)`, with `NPAE(local_noise=1)`, and with the "
        "corrections chosen by held-out density (auto, the default).\n\n" + markdown_table(head, rows)
    )


def _chosen(chosen: dict[str, Any] | str) -> str:
    if isinstance(chosen, dict):  # older results
        return ", ".join(f"{plain(name)} {value}" for name, value in chosen.items())
    return chosen


def folds(results: list[Row]) -> str:
    """The defaults and their alternatives."""
    head = ["data", "choice", "kernel", "experts", "SMSE", "MSLL", "coverage", "fit + predict, CPU s"]
    rows = [
        [
            r["data"], plain(r["choice"]), r["kernel"], str(r["n_experts"]), f"{r['smse']:.4f}",
            f"{r['msll']:.3f}", f"{r['coverage']:.3f}", f"{r['fit_cpu'] + r['predict_cpu']:.1f}",
        ]
        for r in results if r["status"] == "done"
    ]  # fmt: skip
    from folds import CHOICES, DATA

    return (
        f"A tenth of the training rows is held out; no test row is read. {len(rows)} of "
        f"{len(CHOICES) * len(DATA)} combinations were run. Protein has rows with equal inputs, most of "
        "them with equal targets. A few held-out rows whose targets differ have residuals of many standard "
        "deviations and determine its MSLL.\n\n" + markdown_table(head, rows)
    )


def precision(results: list[Row]) -> str:
    """Errors and times of single precision, and ranks."""
    head = [
        "data",
        "kernel",
        "error of mean",
        "error of std",
        "double, CPU s",
        "single, CPU s",
        "rank / rows",
    ]
    rows = [
        [
            r["data"], r["kernel"], f"{r['mean_error']:.1e}", f"{r['std_error']:.1e}",
            f"{r['double_cpu']:.2f}", f"{r['single_cpu']:.2f}", f"{r['rank_share']:.2f}",
        ]
        for r in latest(results, "data")
    ]  # fmt: skip
    return (
        "Largest change of a prediction in standard deviations of the signal, prediction time with the pair "
        "stage in double and single precision, and numerical rank (10⁻⁶) of the blocks of neighbours. Single "
        "precision saves little and its error exceeds 10⁻⁵ on some sets; the blocks do not have low rank. "
        "Neither is used.\n\n" + markdown_table(head, rows)
    )


def efficiency(results: list[Row]) -> str:
    """The newest run."""
    r = results[-1]
    return (
        f"Matrix products reach {r['peak_gflops']:.0f} GFLOP/s with one thread per core. Training on blocks "
        f"of 500 rows reaches {r['training_share']:.0f} % of that, the pair stage (500 rows, 500 queries a "
        f"pair) {r['pair_share']:.0f} %. Kernel values take {r['gram_of_training']:.0f} % of the time of "
        f"training and {r['kernel_of_pairs']:.0f} % of that of the pair stage. The rest of training is "
        "mostly triangular factors, which are slower than products at this size. LAPACK without the "
        f"interpreter lock is {r['cholesky_without_lock']:.2f} times as fast with the same threads."
    )


def dask(results: list[Row]) -> str:
    """The newest run of each kind."""
    return "See docs/dask.md and docs/scaling.md.\n\n" + dask_engine.table(results)


SECTIONS: tuple[tuple[str, str, Callable[[list[Row]], str]], ...] = (
    ("Comparison with other methods", "peers", peers),
    ("Growth with the number of rows", "scale", scale),
    ("A smooth function", "smooth", smooth),
    ("Continuity", "continuity", continuity),
    ("The size where the exact GP stops", "sizes", sizes),
    ("Latency", "latency", latency),
    ("Coverage of joint predictions", "joint_coverage", joint_section.coverage),
    ("Time of joint predictions", "joint_scale", joint_section.scale),
    ("Selection", "selection", selection),
    ("Training on blocks and on all rows", "training", training),
    ("Corrections of the variance", "corrections", corrections),
    ("Built-in choices", "folds", folds),
    ("Single precision and low rank", "precision", precision),
    ("Speed relative to matrix products", "efficiency", efficiency),
    ("The Dask engine", "dask", dask),
)


def _measured(results: list[Row]) -> str:
    dates, cores = sorted({r["date"] for r in results}), results[-1]["cores"]
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    loads = [r["load"] for r in results if "load" in r]
    busy = f"; load average {min(loads):g} to {max(loads):g}" if loads else ""
    return f"Measured {when} on {cores} cores of {' or '.join(values(results, 'cpu'))}{busy}."

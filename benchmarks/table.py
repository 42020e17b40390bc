"""Writes benchmarks/README.md and its pictures from the results: `python benchmarks/peers.py --table`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

import common
import dask_engine
from pictures import draw_peers, draw_scale
from summaries import OURS, Row, by_rows, latest, median, per_query, total, values

INTRODUCTION = """# Benchmarks

Each command runs one benchmark and adds its rows to `results/`; this page and its pictures are written from
them by `python benchmarks/peers.py --table`. The peers come with `pip install '.[bench]'`. Time, memory and
accuracy belong together: each row is one fit in a process of its own. Seconds are by the clock, with what all
the cores together spent behind a slash, which other work on the machine hardly changes. Lower is better
everywhere but in coverage, which should be 0.95.

| command | measures |
| --- | --- |
| `python benchmarks/peers.py` | ours beside scikit-learn, GPBoost, GPyTorch, MuyGPyS and gradient boosting |
| `python benchmarks/scale.py` | growth of time and memory from 10⁴ to 3·10⁶ rows |
| `python benchmarks/selection.py` | knn, rows, dnn and ggm from one expert to all of them |
| `python benchmarks/training.py` | training on blocks against training on every row |
| `python benchmarks/widening.py` | what is made of experts who contradict each other or have erred |
| `python benchmarks/folds.py` | built-in sizes and candidates, on folds of the training rows |
| `python benchmarks/precision.py` | single precision and low-rank blocks in the pair stage |
| `python benchmarks/efficiency.py` | share of the matrix-product peak in training and in prediction |
| `python benchmarks/dask_engine.py` | the Dask engine against threads |
| `python benchmarks/calibration.py` | how often intervals hold what they promise; see docs/calibration.md |
| `python benchmarks/prediction_memory.py` | rise of peak memory for 1,000,000 queries |
| `python benchmarks/cli_throughput.py` | what the command line adds to a prediction |
"""
NO_GP = "HistGradientBoosting"


def write() -> None:
    """Write the page."""
    sections = [INTRODUCTION]
    for title, name, section in SECTIONS:
        results = common.rows(name)
        if results:
            sections.append(f"\n## {title}\n\n{section(results)}\n\n{_measured(results)}\n")
    (common.HERE / "README.md").write_text("".join(sections), encoding="utf-8")


# ----------------------------------------------------------------------------------------------- peers


def peers(results: list[Row]) -> str:
    """A verdict for each data set, a picture, then all the numbers."""
    draw_peers(results)
    parts = [
        "All methods see the same split and the same standardisation; their settings stand in `methods.py`. "
        "Ours: median of the seeds that were run; peers: seed 0. A run that takes longer than its limit is "
        "*not done*, which is no win for anybody. The "
        "rival is the fastest GP peer whose SMSE is within 10 % of the best GP peer's. Rows were measured at "
        "different hours, in which a shared machine may be half or twice as fast: ratios of time below two "
        "say little, unless both were measured in one run.\n",
        "![error and time of each method](peers.png)\n",
        _verdicts(results),
    ]
    for data in values(results, "data"):
        here = [r for r in results if r["data"] == data]
        rows = [_peer(m, [r for r in here if r["method"] == m]) for m in values(here, "method")]
        head = ["method", "SMSE", "MSLL", "coverage", "fit s", "predict s", "peak GB", "to the exact GP"]
        parts.append(f"\n### {data}\n\n{_table(head, rows)}{_absent(here)}")
    parts.append(
        "\n*To the exact GP*: for up to 10,000 rows, how far a method is from the exact GP with the same "
        "hyperparameters: root mean square of the means' differences in the exact GP's standard deviations, "
        "and mean absolute difference of the logarithms of the variances. Ours are corrected by held-out "
        "rows: they differ from that GP's on purpose, also where the mean is its own."
    )
    return "\n".join(parts)


def _peer(method: str, runs: list[Row]) -> list[str]:
    middle = median(runs)
    if middle is None:
        return [method, runs[0]["status"], "", "", "", "", "", ""]
    done = sum(r["status"] == "done" for r in runs)
    exact = (
        f"{middle['mean_to_exact']:.3f}, {middle['variance_to_exact']:.3f}"
        if "mean_to_exact" in middle
        else ""
    )
    return [
        method + (f" ({done} seeds)" if done > 1 else ""),
        _error(middle["smse"]),
        f"{middle['msll']:.3f}",
        f"{middle['coverage']:.3f}",
        _seconds(middle, "fit"),
        _seconds(middle, "predict"),
        f"{middle['peak_gb']:.2f}",
        exact,
    ]


def _error(smse: float) -> str:
    if smse >= 0.001:
        return f"{smse:.4f}"
    return f"{smse:.0e}" if smse else "< 1e-05"  # results have five decimals


def _absent(here: list[Row]) -> str:
    from methods import METHODS

    absent = [name for name in METHODS if name not in values(here, "method")]
    return f"\n\nNot run: {', '.join(absent)}." if absent else ""


def _verdicts(results: list[Row]) -> str:
    rows = []
    for data in values(results, "data"):
        here = [r for r in results if r["data"] == data]
        medians = {m: median([r for r in here if r["method"] == m]) for m in values(here, "method")}
        ours = medians.get(OURS)
        rivals = {m: r for m, r in medians.items() if r is not None and not m.startswith(OURS) and m != NO_GP}
        if ours is None or not rivals:
            continue
        error, density = min(r["smse"] for r in rivals.values()), min(r["msll"] for r in rivals.values())
        near = {m: r for m, r in rivals.items() if r["smse"] <= 1.1 * error}
        took, fastest = min((total(r), m) for m, r in near.items())
        rows.append(
            [
                data,
                f"{_error(ours['smse'])} ({_error(error)})",
                f"{ours['msll']:.3f} ({ours['msll'] - density:+.3f})",
                f"{ours['coverage']:.3f}",
                f"{total(ours):.1f} s",
                f"{fastest}: {took:.1f} s, {took / total(ours):.1f} × ours",
            ]
        )
    head = ["data", "our SMSE (the best GP peer's)", "our MSLL (less the best GP peer's)", "coverage"]
    return _table([*head, "fit + predict", "the rival"], rows)


# ------------------------------------------------------------------------------------------- the others


def scale(results: list[Row]) -> str:
    """Numbers, growth exponents and a picture."""
    draw_scale(results)
    head = ["data", "rows", "experts", "K", "fit s", "first µs/query", "again µs/query"]
    head += ["1,000 alone, µs/query", "one for 29 rows, µs/query", "peak GB", "SMSE", "MSLL", "coverage"]
    done = sorted((r for r in results if r["status"] == "done"), key=lambda r: (r["data"], r["rows"]))
    rows = [
        [
            r["data"], f"{r['rows']:,}", f"{r['n_experts']:,}", str(r["n_selected"]), _seconds(r, "fit"),
            *(f"{1e6 * per_query(r, asked):.0f}" for asked in _ASKED),
            f"{r['peak_gb']:.2f}", f"{r['smse']:.4f}", f"{r['msll']:.3f}", f"{r['coverage']:.3f}",
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
            ratio = [per_query(largest, asked) / per_query(at_1e5, asked) for asked in _ASKED]
            growth.append(
                f"- {data}, from 10⁵ rows on: fit grows as n^{fit:.2f}, peak memory as n^{memory:.2f}; "
                f"a query at {largest['rows']:,} rows takes {ratio[0]:.2f} times as long as at "
                f"100,000 the first time, "
                f"{ratio[1]:.2f} times when asked again, {ratio[2]:.2f} times where few ask and hardly any "
                f"shares the work of another, {ratio[3]:.2f} times where as many share it at both sizes."
            )
    return "![time and memory against rows](scale.png)\n\n" + _table(head, rows) + "\n\n" + "\n".join(growth)


_ASKED = ("predict", "again", "few", "in_proportion")
"""How queries were asked, in the order of the columns."""


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
            r["parts"], r["selection"], str(r["n_selected"]), f"{r['learn_seconds']:.2f}",
            f"{r['select_seconds']:.3f}",
            _seconds(r, "predict"), f"{r['smse']:.4f}", f"{r['msll']:.3f}", f"{r['coverage']:.3f}",
        ]
        for r in results
    ]  # fmt: skip
    about = (
        f"Protein, {results[0]['queries']:,} queries with standard deviations, one θ for all who share the "
        "parts; *all* is NPAE with every expert, *auto* asks as many as held-out rows say.\n\n"
    )
    return about + _table(head, rows)


def training(results: list[Row]) -> str:
    """Both trainings of each set."""
    head = ["data", "training", "training s", "whole fit s", "SMSE", "MSLL", "coverage"]
    rows = [
        [
            r["data"] if way == "auto" else "", way, f"{r[way]['training_seconds']:.1f}",
            _seconds(r[way], "fit"), f"{r[way]['smse']:.5f}", f"{r[way]['msll']:.3f}",
            f"{r[way]['coverage']:.3f}",
        ]
        for r in latest(results, "data") for way in ("auto", "full")
    ]  # fmt: skip
    failed = [r for r in results if r["status"] != "done"]
    about = (
        "*full* is given the parts and the kernel that *auto* chose, so that its whole fit has neither to "
        "look for; *auto*'s training seconds are those of the kernel it kept.\n\n"
    )
    return about + _table(head, rows) + "".join(f"\n\n{r['data']}: {r['status']}" for r in failed)


def widening(results: list[Row]) -> str:
    """MSLL and coverage of each form."""
    done = latest(results, "data")
    forms = list(done[0]["forms"])
    head = ["data", "experts", "chosen", *forms]
    rows = [
        [
            r["data"], str(r["n_experts"]),
            ", ".join(f"{name} {value}" for name, value in r["chosen"].items()) or "nothing",
            *(f"{r['forms'][f]['msll']:.3f}, {r['forms'][f]['coverage']:.3f}" for f in forms),
        ]
        for r in done
    ]  # fmt: skip
    return (
        "MSLL and coverage of the same answers: as the model says (none), with the experts' spread added, "
        "with NPAE's `widen` for three ν, with its `surprise`, and as held-out rows choose (auto, the "
        "default).\n\n" + _table(head, rows)
    )


def folds(results: list[Row]) -> str:
    """The defaults and what else they might be."""
    head = ["data", "choice", "kernel", "experts", "SMSE", "MSLL", "coverage", "fit + predict, CPU s"]
    rows = [
        [
            r["data"], r["choice"], r["kernel"], str(r["n_experts"]), f"{r['smse']:.4f}", f"{r['msll']:.3f}",
            f"{r['coverage']:.3f}", f"{r['fit_cpu'] + r['predict_cpu']:.1f}",
        ]
        for r in results if r["status"] == "done"
    ]  # fmt: skip
    from folds import CHOICES, DATA

    return (
        f"A tenth of the training rows is held out; no test row is read. {len(rows)} of "
        f"{len(CHOICES) * len(DATA)} combinations were run. Protein has rows with equal inputs. Most "
        "of these twins agree, which the model learns; where a held-out row's target is quite another than "
        "its twin's, it errs by many of its standard deviations, and a few such rows decide the "
        "MSLL there.\n\n" + _table(head, rows)
    )


def precision(results: list[Row]) -> str:
    """Errors and gains of single precision, and ranks."""
    head = ["data", "kernel", "mean's error", "std's error", "double, CPU s", "single, CPU s", "rank / rows"]
    rows = [
        [
            r["data"], r["kernel"], f"{r['mean_error']:.1e}", f"{r['std_error']:.1e}",
            f"{r['double_cpu']:.2f}", f"{r['single_cpu']:.2f}", f"{r['rank_share']:.2f}",
        ]
        for r in latest(results, "data")
    ]  # fmt: skip
    return (
        "Largest change of a prediction in units of the signal's standard deviation, time of predicting with "
        "the pair stage in either precision, and numerical rank (10⁻⁶) of the blocks between neighbours. "
        "Single precision gains little and does not keep 10⁻⁵ on every set, and the blocks are not of low "
        "rank: "
        "neither is used.\n\n" + _table(head, rows)
    )


def efficiency(results: list[Row]) -> str:
    """What the last run reached."""
    r = results[-1]
    return (
        f"Matrix products reach {r['peak_gflops']:.0f} GFLOP/s with one thread per core. Training on blocks "
        f"of 500 rows reaches {r['training_share']:.0f} % of that, the pair stage (500 rows, 500 queries a "
        f"pair) {r['pair_share']:.0f} %. Kernel values, which are no matrix products, take "
        f"{r['gram_of_training']:.0f} % of training's time and {r['kernel_of_pairs']:.0f} % of the pair "
        "stage's; the rest of training goes into triangular factors, which run at a fraction of a product's "
        f"speed at this size. LAPACK without Python's lock is {r['cholesky_without_lock']:.2f} times as fast "
        "in as many threads."
    )


def dask(results: list[Row]) -> str:
    """The newest run of each kind."""
    return "See docs/dask.md and docs/scaling.md.\n\n" + dask_engine.table(results)


SECTIONS: tuple[tuple[str, str, Callable[[list[Row]], str]], ...] = (
    ("Ours beside the peers", "peers", peers),
    ("Growth with the rows", "scale", scale),
    ("Selection", "selection", selection),
    ("Training on blocks, or on every row", "training", training),
    ("Experts who contradict each other or have erred", "widening", widening),
    ("Built-in choices", "folds", folds),
    ("Single precision and low rank", "precision", precision),
    ("Share of the peak", "efficiency", efficiency),
    ("The Dask engine", "dask", dask),
)


# ---------------------------------------------------------------------------------------------- helpers


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _seconds(row: Row, stage: str) -> str:
    clock, cpu = row[f"{stage}_seconds"], row[f"{stage}_cpu"]
    return f"{clock:.1f} / {cpu:.1f}" if clock >= 1 else f"{clock:.2f} / {cpu:.2f}"


def _measured(results: list[Row]) -> str:
    dates, cores = sorted({r["date"] for r in results}), results[-1]["cores"]
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    loads = [r["load"] for r in results if "load" in r]
    busy = f"; load average at the end of a run {min(loads):g} to {max(loads):g}" if loads else ""
    return f"Measured {when} on {cores} cores of {' or '.join(values(results, 'cpu'))}{busy}."

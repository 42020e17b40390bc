"""Sections of benchmarks/README.md about the query's own expert: smooth, continuity, sizes, latency."""

from __future__ import annotations

import statistics

from summaries import Row, markdown_table, values


def _done(results: list[Row]) -> list[Row]:
    return [r for r in results if r["status"] == "done"]


def _failed(results: list[Row], *names: str) -> str:
    """A line for each case that was not done."""
    lines = [
        f"\n\n{', '.join(f'{n} {r[n]}' for n in names)}: {r['status']}"
        for r in results
        if r["status"] != "done"
    ]
    return "".join(lines)


def _number(row: Row, key: str) -> str:
    return f"{row[key]:.4f}" if key in row else ""


def smooth(results: list[Row]) -> str:
    """Medians over seeds for each setup, and the exact GP, for each number of rows."""
    head = ["rows", "setup", "seeds", "chosen", "SMSE to the truth", "relative to exact"]
    head += ["SMSE to noisy targets", "relative to exact", "predict s"]
    done, lines, notes = _done(results), [], []
    for rows in sorted(set(values(done, "rows"))):
        here = [r for r in done if r["rows"] == rows]
        exact = next((r["exact"] for r in here if "exact" in r), None)
        for name in here[0]["setups"]:
            runs = [r["setups"][name] for r in here]
            truth, noisy, seconds = (
                statistics.median(run[key] for run in runs)
                for key in ("smse_truth", "smse", "predict_seconds")
            )
            ratios = ["", ""]
            if exact is not None:
                ratios = [f"{truth / exact['smse_truth']:.3f}", f"{noisy / exact['smse']:.3f}"]
            chosen = ", ".join(dict.fromkeys(run["chosen"] for run in runs))
            errors = [f"{truth:.6f}", ratios[0], f"{noisy:.6f}", ratios[1]]
            lines.append([f"{rows:,}", name, str(len(runs)), chosen, *errors, f"{seconds:.1f}"])
        if exact is not None:
            cells = ["exact GP at the same θ", "1", "", f"{exact['smse_truth']:.6f}", "1"]
            lines.append([f"{rows:,}", *cells, f"{exact['smse']:.6f}", "1", ""])
            notes.append(_solution(rows, exact))
    about = (
        "The arm of `functions.py`, 4,000 test rows; medians over seeds. The exact GP has all rows and the θ "
        "of seed 0. Target: *relative to exact* at most 1.25 for the defaults.\n\n"
    )
    return about + markdown_table(head, lines) + "\n\n" + "\n".join(notes) + _failed(results, "rows", "seed")


def _solution(rows: int, exact: Row) -> str:
    check = ""
    if "smse_truth_dense" in exact:
        check = f" A Cholesky factor gives an SMSE of {exact['smse_truth_dense']:.6f}."
    return (
        f"- {rows:,} rows: {exact['iterations']} iterations of conjugate gradients, relative residual "
        f"{exact['residual']:.0e}, {exact['seconds']:.0f} s.{check}"
    )


def continuity(results: list[Row]) -> str:
    """Largest steps of each setup."""
    head = ["data", "rows", "setup", "chosen", "mean step beyond exact / latent std", "median line"]
    head += ["Δ log latent std", "Δ log std"]
    done, lines, notes = _done(results), [], []
    for r in done:
        for name, s in r["setups"].items():
            numbers = ("mean_step", "median_line", "latent_log_step", "std_log_step")
            lines.append([r["data"], f"{r['rows']:,}", name, s["chosen"], *(_number(s, k) for k in numbers)])
        notes.append(
            f"- {r['data']}, {r['rows']:,} rows: latent std of the own expert relative to that without "
            f"taper: median {r['std_ratio_median']:.3f}, mean {r['std_ratio_mean']:.3f}, largest "
            f"{r['std_ratio_max']:.3f}."
        )
    about = (
        "Largest steps between neighbouring points of straight lines, 2,000 points each. *Before*: the fixed "
        "experts alone. *After*: the defaults. Target: a mean step of at most 0.05, and a std at most 5 % "
        "larger than without taper. Maps: docs/maps.png.\n\n"
    )
    return about + markdown_table(head, lines) + "\n\n" + "\n".join(notes) + _failed(results, "data", "rows")


def sizes(results: list[Row]) -> str:
    """Medians over seeds for each function and size."""
    head = ["function", "rows", "seeds", "chosen", "RMSE", "exact, same θ", "ratio", "exact, own θ", "ratio"]
    head += ["fit s", "fit of the exact GP s"]
    done, lines = _done(results), []
    for function, rows in dict.fromkeys((r["function"], r["rows"]) for r in done):
        here = [r for r in done if (r["function"], r["rows"]) == (function, rows)]
        middle = {
            k: statistics.median(r[k] for r in here) for k, v in here[0].items() if isinstance(v, float)
        }
        same, own = (
            statistics.median(r["rmse"] / r[key] for r in here) for key in ("rmse_exact", "rmse_one_expert")
        )
        chosen = ", ".join(dict.fromkeys(r["chosen"] for r in here))
        lines.append(
            [
                function, f"{rows:,}", str(len(here)), chosen, f"{middle['rmse']:.5f}",
                f"{middle['rmse_exact']:.5f}", f"{same:.3f}",
                f"{middle['rmse_one_expert']:.5f}", f"{own:.3f}",
                f"{middle['fit_seconds']:.1f}", f"{middle['fit_seconds_one_expert']:.1f}",
            ]
        )  # fmt: skip
    about = (
        "RMSE to the true function at 2,000 inputs, medians over seeds. *Exact, same θ*: all rows at the "
        "hyperparameters of the defaults. *Exact, own θ*: gpexperts with `n_experts=1`. Target: both ratios "
        "at most 1.03.\n\n"
    )
    return about + markdown_table(head, lines) + _failed(results, "function", "rows", "seed")


def latency(results: list[Row]) -> str:
    """Newest run of each model and size."""
    head = ["model", "rows", "chosen", "single row, median ms", "95th percentile ms"]
    head += ["batch", "first µs/query", "again µs/query"]
    newest = {(r["model"], r["rows"]): r for r in _done(results)}
    lines = [
        [
            r["model"], f"{r['rows']:,}", r["chosen"], f"{r['median_ms']:.2f}", f"{r['p95_ms']:.2f}",
            f"{r['batch']:,}", f"{r['first_us']:.0f}", f"{r['batch_us']:.0f}",
        ]
        for r in newest.values()
    ]  # fmt: skip
    flights = {rows: r["batch_us"] for (model, rows), r in newest.items() if model == "flights3m"}
    growth = ""
    if {100_000, 2_900_000} <= flights.keys():
        ratio = flights[2_900_000] / flights[100_000]
        growth = (
            f"\n\nTime per query at 2,900,000 rows relative to 100,000 rows: {ratio:.2f}; target: at most 2."
        )
    about = (
        "`predict(x, return_std=True)` for one row at a time in a loop, and in batches. *scikit-learn* is "
        "its exact GP on 2,000 rows of pol. Target: a median of at most 2 ms.\n\n"
    )
    return about + markdown_table(head, lines) + growth + _failed(results, "model", "rows")

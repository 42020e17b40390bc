"""Writes benchmarks/README.md from the results: `python benchmarks/peers.py --table`."""

from __future__ import annotations

import statistics
from typing import Any

import common

INTRODUCTION = """# Benchmarks

Each command runs one benchmark and adds its rows to `results/`; this page is written from them by
`python benchmarks/peers.py --table`. The peers come with `pip install '.[bench]'`. Wall time, peak memory and
accuracy belong together: each row is one fit in a process of its own, with a limit of 15 minutes. All methods
see the same split and the same standardisation; their settings stand in `methods.py`. Ours: median of seeds 0
to 4; peers: seed 0. Lower is better everywhere but in coverage, which should be 0.95.

| command | measures |
| --- | --- |
| `python benchmarks/peers.py` | ours beside scikit-learn, GPBoost, GPyTorch, MuyGPyS and gradient boosting |
| `python benchmarks/efficiency.py` | share of the matrix-product peak in training and in prediction |
| `python benchmarks/prediction_memory.py` | rise of peak memory for 1,000,000 queries |
| `python benchmarks/cli_throughput.py` | what the command line adds to a prediction |
"""
SCORES = ("smse", "msll", "coverage", "fit_seconds", "predict_seconds", "peak_gb")


def write() -> None:
    """Write the page."""
    results = common.rows("peers")
    pages = [INTRODUCTION]
    for data in dict.fromkeys(r["data"] for r in results):
        here = [r for r in results if r["data"] == data]
        lines = [
            f"\n## {data}\n",
            "| method | SMSE | MSLL | coverage | fit s | predict s | peak GB |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        lines += [
            _line(m, [r for r in here if r["method"] == m]) for m in dict.fromkeys(r["method"] for r in here)
        ]
        pages.append("\n".join(lines) + "\n")
    dates = sorted({r["date"] for r in results})
    if results:
        last = results[-1]
        pages.append(f"\nMeasured {dates[0]} to {dates[-1]} on {last['cores']} cores of {last['cpu']}.\n")
    (common.HERE / "README.md").write_text("".join(pages), encoding="utf-8")


def _line(method: str, runs: list[dict[str, Any]]) -> str:
    done = [r for r in runs if r["status"] == "done"]
    if not done:
        return f"| {method} | {runs[0]['status']} | | | | | |"
    median = {score: statistics.median(r[score] for r in done) for score in SCORES}
    seeds = f" ({len(done)} seeds)" if len(done) > 1 else ""
    return (
        f"| {method}{seeds} | {median['smse']:.4f} | {median['msll']:.3f} | {median['coverage']:.3f} "
        f"| {median['fit_seconds']:.1f} | {median['predict_seconds']:.2f} | {median['peak_gb']:.2f} |"
    )

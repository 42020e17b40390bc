"""The section of benchmarks/README.md that compares gpexperts with other methods."""

from __future__ import annotations

from pictures import draw_peers
from summaries import OURS, Row, markdown_table, median, seconds, total, values

NO_GP = ("HistGradientBoosting", "LightGBM", "CatBoost")


def peers(results: list[Row]) -> str:
    """A summary for each data set, a picture, then all numbers."""
    draw_peers(results)
    parts = [
        "All methods have the same split and standardisation; their settings are in `methods.py`. gpexperts: "
        "median over seeds; other methods: seed 0. Runs that exceed the time limit are *not done*. The first "
        "table compares gpexperts with the other GP methods; *fastest* is the fastest of them whose SMSE is "
        "within 10 % of the smallest. The runs were made at different times on a shared machine, so that "
        "ratios of times below two are not significant.\n",
        "![error and time of each method](peers.png)\n",
        _verdicts(results),
    ]
    for data in values(results, "data"):
        here = [r for r in results if r["data"] == data]
        rows = [_peer(m, [r for r in here if r["method"] == m]) for m in values(here, "method")]
        head = [
            "method",
            "SMSE",
            "MSLL",
            "coverage",
            "fit s",
            "predict s",
            "peak GB",
            "distance to the exact GP",
        ]
        parts.append(f"\n### {data}\n\n{markdown_table(head, rows)}{_absent(here)}")
    parts.append(
        "\n*Distance to the exact GP* with the same hyperparameters, for up to 10,000 rows: root mean square "
        "difference of the means in standard deviations of the exact GP, and mean absolute difference of the "
        "log variances. gpexperts corrects its variances by held-out density, so that they differ from those "
        "of the exact GP also where the means agree."
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
        seconds(middle, "fit"),
        seconds(middle, "predict"),
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
        rivals = {
            m: r for m, r in medians.items() if r is not None and not m.startswith(OURS) and m not in NO_GP
        }
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
                f"{fastest}: {took:.1f} s, ratio {took / total(ours):.1f}",
            ]
        )
    head = ["data", "SMSE (best other)", "MSLL (difference to best other)", "coverage", "fit + predict"]
    return markdown_table([*head, "fastest"], rows)

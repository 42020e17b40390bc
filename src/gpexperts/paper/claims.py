"""The claims of the paper, and the numbers that decide whether they hold.

A claim names its experiments. Its function `judge` computes a verdict from their rows by a fixed rule, and
returns it with the numbers.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gpexperts.paper.experiment import Row
from gpexperts.paper.tables import mean_of

__all__ = ["CLAIMS", "Claim"]

Results = Mapping[str, list[Row]]
"""Experiment ↦ its rows."""
Judgement = tuple[str, str]
"""Verdict and numbers."""

INDEPENDENT = ("PoE", "GPoE", "BCM", "RBCM", "GRBCM")


class Claim(NamedTuple):
    """A claim of the paper, its experiments, and the function that judges it."""

    text: str
    rests_on: tuple[str, ...]
    judge: Callable[[Results], Judgement]


def _verdict(held: list[bool]) -> str:
    return "held" if all(held) else "held in part" if any(held) else "did not hold"


def _paired(rows: list[Row], score: str, a: Row, b: Row, shared: tuple[str, ...]) -> tuple[float, float]:
    """Mean of a − b over pairs that agree in the `shared` columns, and its standard error."""

    def scores(where: Row) -> dict[tuple[Any, ...], float]:
        mine = [row for row in rows if all(row.get(k) == v for k, v in where.items())]
        return {tuple(row.get(key) for key in shared): row[score] for row in mine}

    left, right = scores(a), scores(b)
    differences = [left[key] - right[key] for key in left if key in right]
    error = statistics.stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else 0.0
    return statistics.fmean(differences), error


def _npae_beats_independent(results: Results) -> Judgement:
    rows, held, parts = results["concrete-baselines"], [], []
    for method in INDEPENDENT:
        (smse, smse_error), (msll, msll_error) = (
            _paired(rows, score, {"method": "NPAE"}, {"method": method}, ("seed", "n_experts"))
            for score in ("smse", "msll")
        )
        held.append(smse < -2 * smse_error and msll < -2 * msll_error)
        parts.append(f"{method} {smse:+.4f} ± {smse_error:.4f} / {msll:+.3f} ± {msll_error:.3f}")
    return _verdict(held), (
        "concrete, SMSE / MSLL of NPAE minus that of the other rule, paired, ± standard error: "
        f"{', '.join(parts)}; smaller in both by more than two standard errors for {sum(held)} of 5"
    )


def _npae_beats_independent_elsewhere(results: Results) -> Judgement:
    rows, held, parts = results["real-world"], [], []
    for data in dict.fromkeys(row["data"] for row in rows if row["method"] == "NPAE"):
        npae = mean_of(rows, "msll", data=data, method="NPAE")
        best = min(mean_of(rows, "msll", data=data, method=m) for m in ("GPoE", "RBCM", "GRBCM"))
        held.append(npae <= best)
        parts.append(f"{data} {npae:.3f} against {best:.3f}")
    return _verdict(held), "MSLL of NPAE against the best of GPoE, RBCM and GRBCM: " + "; ".join(parts)


def _npae_ignores_m(results: Results) -> Judgement:
    rows = results["concrete-baselines"]
    change = {
        m: mean_of(rows, "smse", method=m, n_experts=10) / mean_of(rows, "smse", method=m, n_experts=5) - 1
        for m in (*INDEPENDENT, "NPAE")
    }
    text = ", ".join(f"{m} {100 * value:+.1f} %" for m, value in change.items())
    held = [abs(change["NPAE"]) < 0.05, all(change[m] > abs(change["NPAE"]) for m in INDEPENDENT)]
    return _verdict(held), f"concrete, change of SMSE from M = 5 to M = 10: {text}"


def _first_k(rows: list[Row], method: str) -> int:
    """The smallest K from which on the SMSE stays within 5 % of NPAE's."""
    target = mean_of(rows, "smse", method="NPAE")
    smse = {K: mean_of(rows, "smse", method=method, n_selected=K) for K in range(1, 11)}
    return max((K for K, value in smse.items() if abs(value / target - 1) > 0.05), default=0) + 1


def _faster_than_ggm(results: Results) -> Judgement:
    held, parts = [], []
    for name in ("concrete-selection", "synthetic-k"):
        needed = {m: _first_k(results[name], m) for m in ("KNN", "DNN", "GGM")}
        held += [needed["KNN"] < needed["GGM"], needed["DNN"] < needed["GGM"]]
        parts.append(f"{name} " + ", ".join(f"{m} K = {K}" for m, K in needed.items()))
    return _verdict(held), "SMSE stays within 5 % of NPAE's from: " + "; ".join(parts)


def _near_npae(results: Results) -> Judgement:
    rows = results["synthetic-intervals"]
    full = mean_of(rows, "msll", method="full GP")
    off = {m: mean_of(rows, "msll", method=m) - full for m in ("NPAE", "KNN", "DNN", "GGM")}
    held = [abs(off[m] - off["NPAE"]) < 0.05 for m in ("KNN", "DNN")] + [off["GGM"] > off["KNN"]]
    return _verdict(held), "MSLL minus that of the full GP: " + ", ".join(
        f"{m} {v:+.3f}" for m, v in off.items()
    )


def _softmax(results: Results) -> Judgement:
    rows, held, parts = results["concrete-activation"], [], []
    for score in ("smse", "msll"):
        difference, error = _paired(
            rows, score, {"output": "softmax"}, {"output": "sigmoid"}, ("seed", "n_selected", "batch_size")
        )
        held.append(difference < -2 * error)
        parts.append(f"{score.upper()} {difference:+.5f} ± {error:.5f}")
    change = {o: _change_with_batch_size(rows, o) for o in ("softmax", "sigmoid")}
    return _verdict(held), (
        f"softmax minus sigmoid, paired, ± standard error: {', '.join(parts)}; largest over smallest mean "
        "SMSE of the batch sizes: " + ", ".join(f"{o} {value:.3f}" for o, value in change.items())
    )


def _change_with_batch_size(rows: list[Row], output: str) -> float:
    """Largest mean SMSE of the batch sizes over the smallest, mean over K."""
    by_K = []
    for K in dict.fromkeys(row["n_selected"] for row in rows):
        sizes = dict.fromkeys(row["batch_size"] for row in rows)
        smse = [mean_of(rows, "smse", output=output, n_selected=K, batch_size=size) for size in sizes]
        by_K.append(max(smse) / min(smse))
    return statistics.fmean(by_K)


def _selection_helps_independent(results: Results) -> Judgement:
    held, parts = [], []
    for method in ("GPoE", "RBCM", "GRBCM"):
        with_knn, without = ({"method": method, "selection": s} for s in ("knn", "all"))
        (smse, smse_error), (msll, msll_error), (cpu, _) = (
            _paired(results["concrete-ci"], score, with_knn, without, ("seed",))
            for score in ("smse", "msll", "predict_cpu")
        )
        # The paper gives times to a hundredth of a second.
        held.append(smse < -2 * smse_error and msll < -2 * msll_error and cpu < 0.01)
        scores = f"{smse:+.4f} ± {smse_error:.4f} / {msll:+.4f} ± {msll_error:.4f}"
        parts.append(f"{method} {scores}, {1e3 * cpu:+.0f} ms")
    return _verdict(held), (
        f"change of SMSE / MSLL by KNN, ± standard error, and of CPU time: {'; '.join(parts)}"
    )


def _beat_npae(results: Results) -> Judgement:
    places = [
        ("real-world", {"data": d}, 0.5) for d in dict.fromkeys(r["data"] for r in results["real-world"])
    ]
    places += [("pumadyn", {"data": "pumadyn32nm", "n_experts": M}, 0.7) for M in (10, 15, 20)]
    parts = []
    for name, where, ratio in places:
        npae = mean_of(results[name], "smse", method="NPAE", **where)
        for method in ("KNN", "DNN"):
            smse = mean_of(results[name], "smse", method=method, ratio=ratio, **where)
            if smse < 0.99 * npae:
                place = " M = ".join(map(str, where.values()))
                parts.append(f"{method} at {100 * ratio:.0f} % on {place} ({smse:.4g} against {npae:.4g})")
    return _verdict([bool(parts)]), "SMSE smaller than NPAE's by more than 1 %: " + (
        "; ".join(parts) or "nowhere"
    )


def _affordable(results: Results) -> Judgement:
    held, parts = [], []
    for name in ("real-world", "pumadyn"):
        rows = results[name]
        for data in dict.fromkeys(row["data"] for row in rows):
            npae = mean_of(rows, "predict_cpu", data=data, method="NPAE")
            knn = mean_of(rows, "predict_cpu", data=data, method="KNN", ratio=0.5)
            if npae > 1.0:  # NaN if NPAE was not run; times below a second are not compared
                held.append(knn < npae)
                parts.append(f"{data} {knn:.3g} against {npae:.3g}")
    return _verdict(held), "CPU seconds of prediction, KNN at 50 % against NPAE: " + "; ".join(parts)


def _same_times(results: Results) -> Judgement:
    rows, parts, totals, predictions = results["synthetic-k"], [], [], []
    for method in ("GGM", "KNN", "DNN"):
        select, predict = (mean_of(rows, score, method=method) for score in ("select_cpu", "predict_cpu"))
        totals.append(select + predict)
        predictions.append(predict)
        parts.append(f"{method} {select:.3g} + {predict:.3g}")
    held = [max(times) < 2 * min(times) for times in (predictions, totals)]
    return _verdict(held), "CPU seconds of selection + prediction, mean over K: " + ", ".join(parts)


def _disjoint(results: Results) -> Judgement:
    rows, held, parts = results["partition"], [], []
    for data in dict.fromkeys(row["data"] for row in rows):
        wins = []
        for method in (*INDEPENDENT, "NPAE", "KNN"):
            kmeans, random = (
                mean_of(rows, "smse", data=data, method=method, partition=p) for p in ("kmeans", "random")
            )
            wins.append(kmeans < random)
            parts.append(f"{data} {method} {kmeans:.4f} against {random:.4f}")
        held += wins
    return _verdict(
        held
    ), f"SMSE, k-means against random, better in {sum(held)} of {len(held)}: " + "; ".join(parts)


def _ggm_at_70(results: Results) -> Judgement:
    held, parts = [], []
    places: list[tuple[str, Row]] = [
        ("pumadyn", {"data": "pumadyn32nm", "n_experts": M}) for M in (10, 15, 20)
    ]
    for name, where in [*places, ("real-world", {"data": "parkinsons"})]:
        rows = results[name]
        npae = mean_of(rows, "msll", method="NPAE", **where)
        half, more = (mean_of(rows, "msll", method="GGM", ratio=r, **where) for r in (0.5, 0.7))
        held.append(more - npae < 0.02)
        parts.append(f"{' M = '.join(map(str, where.values()))} {half:.3f}, {more:.3f}, {npae:.3f}")
    return _verdict(held), "MSLL of GGM at 50 %, at 70 %, of NPAE: " + "; ".join(parts)


def _consistent(results: Results) -> Judgement:
    rows = [row for row in results["consistency"] if "random" not in row["method"]]
    small, large = 1000, max(row["n"] for row in rows)
    parts, sound = [], {}
    for method in dict.fromkeys(row["method"] for row in rows):
        first, last = (mean_of(rows, "to_truth", method=method, n=n) for n in (small, large))
        ratio = mean_of(rows, "std_ratio", method=method, n=large)
        sound[method] = last < first
        parts.append(f"{method} {first:.2g} → {last:.2g}, {ratio:.2g}")
    held = [sound[m] for m in ("NPAE", "KNN", "DNN")] + [not sound[m] for m in ("PoE", "BCM")]
    return _verdict(held), (
        f"distance of the mean to the noise-free function from n = {small} to {large}, and latent std over "
        "the full GP's there: " + "; ".join(parts)
    )


def _cost(results: Results) -> Judgement:
    exponent = {(row["sweep"], row["stage"]): row["exponent"] for row in results["cost"]}
    text = ", ".join(f"{stage} in {sweep} {value:.1f}" for (sweep, stage), value in exponent.items())
    held = [
        exponent["K", "prediction"] > 2.5,
        exponent["m", "prediction"] < 0.5,
        max(exponent["M", "selection knn"], exponent["M", "selection dnn"]) < 1.2,
    ]
    return _verdict(held), f"measured exponents: {text}"


CLAIMS: tuple[Claim, ...] = (
    Claim("NPAE beats the independent rules, on concrete", ("concrete-baselines",), _npae_beats_independent),
    Claim("NPAE beats them on real data", ("real-world",), _npae_beats_independent_elsewhere),
    Claim("NPAE does not depend on M; the other rules do", ("concrete-baselines",), _npae_ignores_m),
    Claim("KNN and DNN near NPAE faster than GGM", ("concrete-selection", "synthetic-k"), _faster_than_ggm),
    Claim("KNN's and DNN's intervals are NPAE's; GGM's are worse", ("synthetic-intervals",), _near_npae),
    Claim("Softmax beats sigmoid output", ("concrete-activation",), _softmax),
    Claim("Selection helps the independent rules at no cost", ("concrete-ci",), _selection_helps_independent),
    Claim("KNN and DNN beat full NPAE on some sets", ("real-world", "pumadyn"), _beat_npae),
    Claim("Selection makes the dependent aggregation affordable", ("real-world", "pumadyn"), _affordable),
    Claim("GGM, KNN and DNN take about the same time", ("synthetic-k",), _same_times),
    Claim("Disjoint parts beat random ones", ("partition",), _disjoint),
    Claim("GGM at 70 % comes near NPAE", ("pumadyn", "real-world"), _ggm_at_70),
    Claim("NPAE and selection are consistent; PoE and BCM are not", ("consistency",), _consistent),
    Claim("Aggregation is O(n_t K³); selection O(M³) by GGM, O(M) by KNN and DNN", ("cost",), _cost),
)

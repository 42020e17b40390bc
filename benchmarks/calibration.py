"""Coverage of intervals: on draws from the prior of the model, and on the data of the paper.

    python benchmarks/calibration.py                   # every rule on 4,000 draws from the prior, two minutes
    python benchmarks/calibration.py --real            # the defaults on real data, all missing runs
    python benchmarks/calibration.py --real concrete pol
    python benchmarks/calibration.py --page            # write docs/calibration.md from the results

**The prior.** f is drawn from a GP with the covariance of the model, so that only the aggregation rule can
be wrong. A draw has one query in each zone: inside a part, at the border between two parts, outside the data,
and inside the data with random parts. Draws of one design (inputs and parts) are the outputs of one fit:
they are independent, and no weight depends on targets.

**Real data.** calibrate=None, "scale" and "conformal", each in its own process, with the other defaults.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import common
from gpexperts import DistributedGPRegressor

LEVELS = (0.5, 0.9, 0.95, 0.99)
ZONES = ("inside", "border", "outside", "random parts")
RULES = ("poe", "gpoe", "bcm", "rbcm", "grbcm", "npae")
ALL, FEW, ONE = "all", "knn, K = 3", "knn, K = 1"
ROWS, PARTS = 200, 6
LENGTH, NOISE = 0.3, 0.05
"""Of an RBF kernel with variance 1 on the unit square."""
BINS = 20
DATA = ("concrete", "airfoil", "parkinsons", "pumadyn32nm", "pol", "protein", "sarcos")
SPLITS = {"concrete": 5, "airfoil": 3}
"""Small test sets are split several times."""


class Design(NamedTuple):
    """Inputs, one query per zone, and functions drawn there from the prior."""

    X: np.ndarray
    """(ROWS, 2)"""
    labels: np.ndarray
    """(ROWS,) by k-means."""
    shuffled: np.ndarray
    """(ROWS,) the same labels in random order."""
    queries: np.ndarray
    """(3, 2), in the order of `ZONES`; the fourth zone has the query of the first."""
    y: np.ndarray
    """(ROWS, draws), noisy."""
    f: np.ndarray
    """(3, draws), the function at the queries."""
    noise: np.ndarray
    """(3, draws), the noise of an observation there."""


def design(rng: np.random.Generator, draws: int) -> Design:
    """Draw inputs, parts, queries and functions."""
    from sklearn.cluster import KMeans

    X = rng.uniform(size=(ROWS, 2))
    parts = KMeans(PARTS, n_init=1, random_state=int(rng.integers(2**31))).fit(X)
    queries = _queries(rng, parts.cluster_centers_)
    points = np.concatenate([X, queries])
    covariance = RBF(LENGTH)(points)
    covariance[np.diag_indices_from(covariance)] += 1e-10
    f = np.linalg.cholesky(covariance) @ rng.standard_normal((len(points), draws))
    noise = np.sqrt(NOISE) * rng.standard_normal(f.shape)
    shuffled = rng.permutation(parts.labels_)
    return Design(X, parts.labels_, shuffled, queries, (f + noise)[:ROWS], f[ROWS:], noise[ROWS:])


def _queries(rng: np.random.Generator, centres: np.ndarray) -> np.ndarray:
    somewhere = rng.uniform(0.1, 0.9, size=(2000, 2))
    distance = np.sort(np.linalg.norm(somewhere[:, None] - centres, axis=2), axis=1)
    ratio = distance[:, 0] / distance[:, 1]  # 0 at a centre, 1 at a border
    outside = rng.uniform(size=2)
    beyond = rng.uniform(0.5, 1.5) * LENGTH
    outside[rng.integers(2)] = rng.choice([-beyond, 1 + beyond])
    inside, border = (somewhere[np.flatnonzero(zone)[0]] for zone in (ratio < 0.3, ratio > 0.97))
    return np.stack([inside, border, outside])


class ZScores(NamedTuple):
    """(truth − mean) / std of every draw, for one rule, selection and zone."""

    rule: str
    selection: str
    zone: str
    of: str
    """"observation" or "latent"."""
    z: np.ndarray


def all_methods() -> list[tuple[str, str]]:
    """Every rule with all experts and with three; with one expert all rules except RBCM agree."""
    return [(rule, selection) for rule in RULES for selection in (ALL, FEW)] + [("npae", ONE), ("rbcm", ONE)]


def scores_of(drawn: Design, methods: list[tuple[str, str]]) -> Iterator[ZScores]:
    """Fit once per kind of parts (and once for GRBCM), and predict the queries by every method."""
    for labels, zones in ((drawn.labels, ZONES[:3]), (drawn.shuffled, ZONES[3:])):
        fits: dict[bool, DistributedGPRegressor] = {}
        for rule, selection in methods:
            if zones == ZONES[3:] and selection != ALL:
                continue  # all experts of random parts are equivalent
            how = {"selection": "all", "n_selected": "auto"}
            if selection != ALL:
                how = {"selection": "knn", "n_selected": 3 if selection == FEW else 1}
            communicates = rule == "grbcm"
            if communicates not in fits:
                fits[communicates] = DistributedGPRegressor(
                    kernel=1.0 * RBF(LENGTH) + WhiteKernel(NOISE), optimizer=None, training="full",
                    partition=labels, aggregation=rule, standardize=False, n_neighbors=0, random_state=0,
                    n_jobs=1, **how,
                ).fit(drawn.X, drawn.y)  # fmt: skip
            model = fits[communicates].set_params(aggregation=rule, **how)
            queries = drawn.queries[: len(zones)]
            mean, std = model.predict(queries, return_std=True)
            latent_std = model.predict(queries, return_std=True, latent=True)[1]
            for q, zone in enumerate(zones):
                error = drawn.f[q] - mean[q]
                yield ZScores(rule, selection, zone, "latent", error / latent_std[q])
                yield ZScores(rule, selection, zone, "observation", (error + drawn.noise[q]) / std[q])


def prior_study(
    designs: int, draws: int, methods: list[tuple[str, str]], seed: int = 0
) -> dict[tuple[str, str, str, str], np.ndarray]:
    """Return (rule, selection, zone, of) ↦ z (designs · draws,)."""
    collected: dict[tuple[str, str, str, str], list[np.ndarray]] = {}
    for d in range(designs):
        rng = np.random.default_rng([seed, d])
        for scores in scores_of(design(rng, draws), methods):
            collected.setdefault(scores[:4], []).append(scores.z)
    return {key: np.concatenate(z) for key, z in collected.items()}


def summary(z: np.ndarray) -> dict[str, object]:
    """Coverage by level, mean squared z-score, and counts of the PIT Φ(z) in equal bins."""
    pit = np.histogram(ndtr(z), bins=BINS, range=(0, 1))[0]
    return {
        "draws": len(z),
        "coverage": {f"{p:g}": float(np.mean(np.abs(z) <= ndtri(0.5 + p / 2))) for p in LEVELS},
        "squared_z": round(float(np.mean(z**2)), 6),
        "pit": pit.tolist(),
    }


def run_prior(designs: int, draws: int) -> None:
    """Replace results/calibration-prior.jsonl."""
    (common.RESULTS / "calibration-prior.jsonl").unlink(missing_ok=True)
    for (rule, selection, zone, of), z in prior_study(designs, draws, all_methods()).items():
        row = {"rule": rule, "selection": selection, "zone": zone, "of": of, **summary(z)}
        common.append("calibration-prior", row)


def one_real(data: str, calibrate: str | None, seed: int) -> None:
    """Fit the defaults to a data set, score the intervals of its test rows, print a line of JSON."""
    from gpexperts.metrics import smse
    from gpexperts.paper.datasets import split

    X, y, X_test, y_test = split(data, seed)
    model = DistributedGPRegressor(calibrate=calibrate, random_state=seed).fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    coverage, width = {}, {}
    for level in LEVELS:
        half = model.interval_width(level, std) * std
        coverage[f"{level:g}"] = float(np.mean(np.abs(y_test - mean) <= half))
        width[f"{level:g}"] = float(2 * np.mean(half) / np.std(y))
    choice = model.choices_.get("calibrate")
    result = {
        "test_rows": len(y_test),
        "coverage": coverage,
        "width": width,
        "smse": smse(y_test, mean),
        "choice": None if choice is None else str(choice),
    }
    print(json.dumps(result))


def run_real(names: list[str]) -> None:
    """Add the missing runs to results/calibration-real.jsonl."""
    done = {(r["data"], r["calibrate"], r["seed"]) for r in common.rows("calibration-real")}
    for data in names:
        for seed in range(SPLITS.get(data, 1)):
            for calibrate in (None, "scale", "conformal"):
                if (data, calibrate, seed) in done:
                    continue
                arguments = ["--one", data, str(calibrate), str(seed)]
                row = {"data": data, "calibrate": calibrate, "seed": seed}
                row |= common.run_apart("calibration.py", arguments) | common.machine()
                common.append("calibration-real", row)
                print(json.dumps(row), flush=True)


def main() -> None:
    """Run one of the studies, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--real", nargs="*", choices=DATA, metavar="NAME", help=f"of {', '.join(DATA)}")
    parser.add_argument("--designs", type=int, default=100, help="inputs and parts in the study of the prior")
    parser.add_argument("--draws", type=int, default=40, help="functions per design")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        data, calibrate, seed = args.one
        one_real(data, None if calibrate == "None" else calibrate, int(seed))
        return
    if args.real is not None:
        run_real(args.real or list(DATA))
    elif not args.page:
        run_prior(args.designs, args.draws)
    import calibration_page

    calibration_page.write()


if __name__ == "__main__":
    main()

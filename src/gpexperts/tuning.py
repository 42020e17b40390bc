"""How many experts a query needs, and how the variance is corrected: chosen by held-out log density.

A tenth of the rows of some parts is taken out of their experts, and K_max of the remaining experts are
evaluated for each of these rows; where there are few rows, further tenths follow. The moments of fewer
experts are the first k columns of these moments. So one evaluation compares every K, every pruning and every
correction of the variance.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from gpexperts.aggregation import NPAE, Aggregator
from gpexperts.choices import Choice
from gpexperts.engines.base import Engine
from gpexperts.experts.moments import ExpertMoments, Request
from gpexperts.experts.store import ExpertStore
from gpexperts.metrics import coverage, nlpd

__all__ = ["Tuning", "tune"]

MAX_PARTS = 60
SHARE = 0.1
ENOUGH = 1000
"""Held-out rows after which no further tenth is taken out."""
MAX_SINGLE = 5000
"""Rows of a single expert beyond which it is not factorised again only to correct its variance."""
CANDIDATES = (1, 2, 3, 4, 5, 6, 8)
PRUNINGS = (0.3, 0.1, 0.03, 0.01, 1e-3)
DISAGREEMENTS = (None, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
ROUGH_DISAGREEMENTS = (None, 2.0, 16.0)
SCALES = (0.35, 0.5, 0.7, 0.85, 1.0, 1.1, 1.2, 1.35, 1.5, 2.0)
LOCAL_NOISES = (0.0, 0.5, 1.0)
WORTHWHILE = 0.002
"""Nats per query: what fewer experts may cost, and what a correction of the variance must gain."""
MANY_EXPERTS, DEARER = 1000, 3.0
"""With more experts than this, queries hardly share work: fewer experts may cost this many times as much."""
NOMINAL = 0.95
"""Corrections are chosen among those whose intervals cover this share of the held-out targets…"""
TOLERANCE = 0.015
"""…give or take this much, or twice the standard error."""


class Tuning(NamedTuple):
    """How many experts are selected, and how the variance of an observation is corrected."""

    n_selected: int
    """K, at most."""
    prune: float = 0.0
    """Experts that explain less than this share of what the best one explains are dropped."""
    disagreement: float | None = None
    """NPAE's `disagreement`."""
    scale: float = 1.0
    """Factor of NPAE's `scale`."""
    local_noise: float = 0.0
    """NPAE's `local_noise`."""

    def applied(self, aggregator: Aggregator) -> Aggregator:
        """Return the aggregator with these corrections, where it leaves them to be chosen."""
        if not _corrects(aggregator):
            return aggregator
        assert isinstance(aggregator, NPAE)
        aggregator.check_parameters()
        corrected = copy.copy(aggregator)  # no clone: a user's subclass may have another constructor
        corrected.disagreement = self.disagreement
        corrected.scale = aggregator.scale * self.scale
        corrected.local_noise = max(aggregator.local_noise, self.local_noise)
        return corrected


def _corrects(aggregator: Aggregator) -> bool:
    return isinstance(aggregator, NPAE) and aggregator.disagreement == "auto"


def tune(
    experts: ExpertStore,
    selection_of: Callable[[ExpertStore], Callable[[np.ndarray, int], np.ndarray]],
    aggregator: Aggregator,
    engine: Engine,
    *,
    budget: int,
    random_state: np.random.RandomState,
) -> tuple[Tuning, Choice] | None:
    """Choose K, the pruning and the corrections by held-out log density.

    Parameters
    ----------
    experts : ExpertStore
    selection_of : callable
        Experts without some rows ↦ a selection: queries (n, d) and K ↦ index (n, K), best first.
    aggregator : Aggregator
    engine : Engine
    budget : int
        Bytes for work arrays.
    random_state : RandomState

    Returns
    -------
    (Tuning, Choice) or None
        None where there is nothing to choose or there are too few rows.
    """
    K_max = min(max(CANDIDATES), experts.n_experts)
    corrects = _corrects(aggregator)
    if K_max == 1 and not (corrects and experts.sizes[0] <= MAX_SINGLE):
        return None
    folds = _folds(experts, budget, random_state)
    if sum(map(len, folds)) < 50:
        return None
    request = Request(
        covariance=aggregator.needs_covariance,
        communication=aggregator.needs_communication,
        local_noise=corrects or aggregator.needs_local_noise,
    )
    targets, batches = [], []
    for rows in folds:
        X, target = experts.take(rows)
        rest = experts.without(rows)
        targets.append(target)
        batches.append(rest.gather(X, selection_of(rest)(X, K_max), request, engine))
    y, moments = np.concatenate(targets), ExpertMoments.concatenate(batches)
    noise = experts.covariance.noise_variance

    def loss(moments: ExpertMoments) -> float:
        """NLPD with the best correction, if one is to be chosen: K must not depend on what it mends."""
        if corrects:
            return min(
                t.loss for t in _tried(Tuning(K_max), aggregator, moments, y, noise, ROUGH_DISAGREEMENTS)
            )
        prediction = aggregator.combine(moments)
        return nlpd(y, prediction.mean, np.sqrt(prediction.observation_var(noise)))

    by_k = {k: loss(moments.first(k)) for k in CANDIDATES if k <= K_max}
    best = min(by_k.values())
    price = WORTHWHILE * (DEARER if experts.n_experts > MANY_EXPERTS else 1.0)
    K = min(k for k, value in by_k.items() if value <= best + price)
    evidence: dict[str, Any] = {"rows": len(y), "nlpd_by_n_selected": by_k}
    tuning, moments = Tuning(K), moments.first(K)

    by_pruning = {p: loss(moments.without_weak(p)) for p in PRUNINGS}
    evidence["nlpd_by_prune"] = by_pruning
    harmless = [p for p, value in by_pruning.items() if value <= by_k[K] + 0.5 * WORTHWHILE]
    if harmless and K > 1:
        tuning = tuning._replace(prune=max(harmless))
        moments = moments.without_weak(tuning.prune)
    if corrects:
        tuning, evidence["nlpd_by_correction"] = _corrected(tuning, aggregator, moments, y, noise)
    evidence["tuning"] = tuning._asdict()
    return tuning, Choice(K, _reason(K, by_k, tuning, len(y)), evidence)


def _reason(K: int, by_k: dict[int, float], tuning: Tuning, n: int) -> str:
    others = [k for k in (max(1, K // 2), 2 * K, max(by_k)) if k in by_k and k != K]
    compared = "; ".join(f"{k} expert{'s' * (k > 1)} {by_k[k]:.4g}" for k in dict.fromkeys(others))
    corrections = []
    if tuning.disagreement is not None:
        corrections.append(f"disagreement with ν = {tuning.disagreement:g}")
    if tuning.local_noise:
        corrections.append(f"local noise with exponent {tuning.local_noise:g}")
    if tuning.scale != 1.0:
        corrections.append(f"a factor of {tuning.scale:g}")
    return (
        f"NLPD {by_k[K]:.4g} on {n} held-out rows{compared and f' ({compared})'}; "
        f"the variance is corrected by {' and '.join(corrections) or 'nothing'}"
    )


def _corrected(
    tuning: Tuning, aggregator: Aggregator, moments: ExpertMoments, y: np.ndarray, noise: float
) -> tuple[Tuning, dict[str, float]]:
    """Choose the corrections of an observation's variance; also return the NLPD of the best of each kind.

    Of the corrections with nominal coverage, or as close to it as any, the one with the best density is
    chosen, and the fewest corrections if their densities are as good.
    """
    tried = _tried(tuning, aggregator, moments, y, noise, DISAGREEMENTS)
    chance = 2.0 * np.sqrt(NOMINAL * (1.0 - NOMINAL) / len(y))
    tolerance = max(TOLERANCE, chance, min(t.missed for t in tried))
    kept = [t for t in tried if t.missed <= tolerance]
    least = min(t.loss for t in kept)
    chosen = min((t.tuning for t in kept if t.loss <= least + WORTHWHILE), key=_number_of_corrections)
    evidence: dict[str, float] = {}
    for loss, _, t in tried:
        kind = f"disagreement={t.disagreement}, local_noise={t.local_noise}"
        evidence[kind] = min(loss, evidence.get(kind, np.inf))
    return chosen, evidence


class _Tried(NamedTuple):
    loss: float
    missed: float
    """How far the coverage is from `NOMINAL`."""
    tuning: Tuning


def _tried(
    tuning: Tuning,
    aggregator: Aggregator,
    moments: ExpertMoments,
    y: np.ndarray,
    noise: float,
    disagreements: Sequence[float | None],
) -> list[_Tried]:
    """The NLPD and coverage of each correction of an observation's variance."""
    tried = []
    several = moments.index.shape[1] > 1
    for disagreement, local_noise in product(disagreements if several else (None,), LOCAL_NOISES):
        corrected = tuning._replace(disagreement=disagreement, local_noise=local_noise)
        prediction = corrected.applied(aggregator).combine(moments)
        for scale in SCALES:
            scaled = prediction.corrected(scale, moments.prior_var)
            mean, std = scaled.mean, np.sqrt(scaled.observation_var(noise))
            missed = abs(coverage(y, mean, std, NOMINAL) - NOMINAL)
            tried.append(_Tried(nlpd(y, mean, std), missed, corrected._replace(scale=scale)))
    return tried


def _number_of_corrections(tuning: Tuning) -> int:
    return (tuning.disagreement is not None) + (tuning.local_noise > 0) + (tuning.scale != 1.0)


def _folds(experts: ExpertStore, budget: int, random_state: np.random.RandomState) -> list[np.ndarray]:
    """Positions to hold out together, in the order of experts, one array per fold.

    Each is a tenth of the rows of up to `MAX_PARTS` parts; no row is in two folds.
    """
    large = np.flatnonzero(experts.sizes >= 1 / SHARE)
    parts = np.sort(random_state.permutation(large)[:MAX_PARTS])
    orders = [experts.offsets[i] + random_state.permutation(int(experts.sizes[i])) for i in parts]
    affordable = budget // (8 * max(CANDIDATES) * int(experts.sizes.max() + 1))
    limit = max(50, min(2 * ENOUGH, affordable))
    folds: list[np.ndarray] = []
    while parts.size and len(folds) < 1 / SHARE and sum(map(len, folds)) < ENOUGH:
        tenths = [order[(share := int(SHARE * len(order))) * len(folds) :][:share] for order in orders]
        folds.append(np.sort(random_state.permutation(np.concatenate(tenths))[:limit]))
    return folds

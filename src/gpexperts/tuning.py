"""How many experts does a query need? Rows that were held out know.

A tenth of the rows of some parts is taken out of their experts, and the rest is asked about them, K_max
experts for each; where there are few rows, other tenths follow. What fewer experts would have said is
contained in what these say: the first k columns of the moments. So one evaluation compares every K, every
rule for leaving experts out, and every correction of the variance, by the density they give to the targets
that were held out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpexperts.aggregation import NPAE, Aggregator
from gpexperts.engines.base import Engine
from gpexperts.experts.gather import gather_moments, without_weak_experts
from gpexperts.experts.local import Experts
from gpexperts.experts.moments import ExpertMoments
from gpexperts.metrics import coverage, nlpd

if TYPE_CHECKING:
    from gpexperts.cluster.experts import ClusterExperts

__all__ = ["Rule", "learn_rule"]

MAX_PARTS = 60
SHARE = 0.1
ENOUGH = 1000
"""Held-out rows after which no further tenth is taken out."""
MAX_ALONE = 5000
"""Rows of a lone expert beyond which it is not factorised once more only to correct its intervals."""
CANDIDATES = (1, 2, 3, 4, 5, 6, 8)
PRUNINGS = (0.3, 0.1, 0.03, 0.01, 1e-3)
WIDENINGS = (None, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
ROUGH_WIDENINGS = (None, 2.0, 16.0)
SCALES = (0.35, 0.5, 0.7, 0.85, 1.0, 1.1, 1.2, 1.35, 1.5, 2.0)
WORTHWHILE = 0.002
"""Nats per query: what fewer experts may cost, and what a correction of the variance must gain."""
HARDLY_SHARED, DEARER = 1000, 3.0
"""Among more experts than this a query shares the work of hardly any other: fewer of them may cost more."""
SURPRISES = (0.0, 0.5, 1.0)
PROMISED = 0.95
"""Corrections are chosen among those with which so many of the held-out targets lie in their intervals…"""
TOLERANCE = 0.015
"""…give or take this much, or as much as chance may do."""


class Rule(NamedTuple):
    """How many experts a query asks, and how their disagreement is read."""

    n_selected: int
    """K, at most."""
    prune: float = 0.0
    """Experts that explain less than this share of what the best one explains are left out."""
    widen: float | None = None
    """NPAE's `widen`."""
    scale: float = 1.0
    """What NPAE's `scale` is multiplied with."""
    surprise: float = 0.0
    """NPAE's `surprise`."""

    def applied(self, aggregator: NPAE) -> NPAE:
        """NPAE, or what a user made of it, with the corrections of this rule."""
        aggregator.check_parameters()
        corrected = copy.copy(aggregator)  # no clone: what a user made of it may have another constructor
        corrected.widen = self.widen
        corrected.scale = aggregator.scale * self.scale
        corrected.surprise = max(aggregator.surprise, self.surprise)
        return corrected


def learn_rule(
    experts: Experts | ClusterExperts,
    selection_of: Callable[[Any], Callable[[np.ndarray, int], np.ndarray]],
    aggregator: Aggregator,
    engine: Engine,
    *,
    budget: int,
    random_state: np.random.RandomState,
) -> tuple[Rule, dict[str, Any]] | None:
    """Choose K, a pruning and a widening by held-out density.

    Parameters
    ----------
    experts : Experts
    selection_of : callable
        Experts who miss some rows ↦ how they are chosen: queries (n, d) and K ↦ index (n, K), best first.
    aggregator : Aggregator
    engine : Engine
    budget : int
        Bytes for work arrays.
    random_state : RandomState

    Returns
    -------
    (Rule, evidence) or None
        The rule and the mean negative log density of each alternative, in standardised units; None
        where there is nothing to choose or there are too few rows to tell.
    """
    K_max = min(max(CANDIDATES), experts.n_experts)
    corrects = isinstance(aggregator, NPAE) and aggregator.widen == "auto"
    if K_max == 1 and not (corrects and experts.sizes[0] <= MAX_ALONE):
        return None
    folds = _folds(experts, budget, random_state)
    if sum(map(len, folds)) < 50:
        return None
    targets, answers = [], []
    for rows in folds:
        X, target = experts.take(rows)
        rest = experts.without(rows)
        targets.append(target)
        answers.append(
            gather_moments(
                rest,
                X,
                selection_of(rest)(X, K_max),
                engine,
                covariance=aggregator.needs_covariance,
                communication=aggregator.needs_communication,
                surprise=corrects or aggregator.needs_surprise,
            )
        )
    y, moments = np.concatenate(targets), ExpertMoments.concatenate(answers)
    noise = experts.covariance.noise_variance

    def loss(moments: ExpertMoments) -> float:
        """With the best correction, if one is to be chosen: K must not hang on what that would mend."""
        if corrects:
            assert isinstance(aggregator, NPAE)
            return min(t.loss for t in _tried(Rule(K_max), aggregator, moments, y, noise, ROUGH_WIDENINGS))
        prediction = aggregator.combine(moments)
        return nlpd(y, prediction.mean, np.sqrt(prediction.observation_var(noise)))

    by_k = {k: loss(_first(moments, k)) for k in CANDIDATES if k <= K_max}
    best = min(by_k.values())
    price = WORTHWHILE * (DEARER if experts.n_experts > HARDLY_SHARED else 1.0)
    K = min(k for k, value in by_k.items() if value <= best + price)
    evidence: dict[str, Any] = {"queries": len(y), "loss_by_n_selected": by_k}
    chosen, moments = Rule(K), _first(moments, K)

    by_pruning = {p: loss(without_weak_experts(moments, p)) for p in PRUNINGS}
    evidence["loss_by_prune"] = by_pruning
    harmless = [p for p, value in by_pruning.items() if value <= by_k[K] + 0.5 * WORTHWHILE]
    if harmless and K > 1:
        chosen = chosen._replace(prune=max(harmless))
        moments = without_weak_experts(moments, chosen.prune)

    if corrects:
        assert isinstance(aggregator, NPAE)
        chosen, evidence["loss_by_correction"] = _corrected(chosen, aggregator, moments, y, noise)
    return chosen, evidence


def _corrected(
    rule: Rule, aggregator: NPAE, moments: ExpertMoments, y: np.ndarray, noise: float
) -> tuple[Rule, dict[str, float]]:
    """Choose the corrections of an observation's variance, and tell the loss of the best of each kind.

    An interval is a promise: of the corrections that keep it, or come as close as any does, the one with the
    best density is chosen, and none at all if that is as good.
    """
    tried = _tried(rule, aggregator, moments, y, noise, WIDENINGS)
    chance = 2.0 * np.sqrt(PROMISED * (1.0 - PROMISED) / len(y))
    tolerance = max(TOLERANCE, chance, min(t.missed for t in tried))
    kept = [t for t in tried if t.missed <= tolerance]
    least = min(t.loss for t in kept)
    chosen = min((t.rule for t in kept if t.loss <= least + WORTHWHILE), key=_number_of_corrections)
    evidence: dict[str, float] = {}
    for loss, _, r in tried:
        kind = f"widen={r.widen}, surprise={r.surprise}"
        evidence[kind] = min(loss, evidence.get(kind, np.inf))
    return chosen, evidence


class _Tried(NamedTuple):
    loss: float
    missed: float
    """How far the coverage is from `PROMISED`."""
    rule: Rule


def _tried(
    rule: Rule,
    aggregator: NPAE,
    moments: ExpertMoments,
    y: np.ndarray,
    noise: float,
    widenings: Sequence[float | None],
) -> list[_Tried]:
    """What comes of each correction of an observation's variance."""
    tried = []
    for widen, surprise in product(widenings if moments.index.shape[1] > 1 else (None,), SURPRISES):
        corrected = rule._replace(widen=widen, surprise=surprise)
        prediction = corrected.applied(aggregator).combine(moments)
        for scale in SCALES:
            scaled = prediction.corrected(scale, moments.prior_var)
            mean, std = scaled.mean, np.sqrt(scaled.observation_var(noise))
            missed = abs(coverage(y, mean, std, PROMISED) - PROMISED)
            tried.append(_Tried(nlpd(y, mean, std), missed, corrected._replace(scale=scale)))
    return tried


def _number_of_corrections(rule: Rule) -> int:
    return (rule.widen is not None) + (rule.surprise > 0) + (rule.scale != 1.0)


def _folds(
    experts: Experts | ClusterExperts, budget: int, random_state: np.random.RandomState
) -> list[np.ndarray]:
    """Rows to hold out together, as positions in the experts' order, one array for each time.

    Each is a tenth of the rows of up to `MAX_PARTS` parts; no row is in two of them.
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


def _first(moments: ExpertMoments, k: int) -> ExpertMoments:
    """The moments of the first k experts of each query."""
    R = moments.covariance
    return replace(
        moments,
        index=moments.index[:, :k],
        mean=moments.mean[:, :k],
        var=moments.var[:, :k],
        covariance=None if R is None else R[:, :k, :k],
        surprise=None if moments.surprise is None else moments.surprise[:, :k],
    )
